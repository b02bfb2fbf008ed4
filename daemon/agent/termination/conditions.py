"""Why a turn stops (D1, E1): used-up budgets and iterations, errors that end it (D3), a model that
sees no way on (D4), and the ends that a spec declares (B2); an alarm where budgets are often used
up (D6).
"""

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice, takewhile
from urllib.parse import urlsplit

from daemon.core import value
from daemon.core.errors import Shortage
from daemon.core.events import (
    Alarm,
    Event,
    ModelReplied,
    Outcome,
    ToolFinished,
)
from daemon.core.messages import ToolCall
from daemon.core.rows import OF_GOAL
from daemon.core.trust import Stop
from daemon.core.turn import CallState, Done, Turn
from daemon.core.turn_spec import BudgetExhausted, Condition, TextIncludes, ToolResult
from daemon.store.journal import Store

DAY = "day"
OTHERS = "others"  # the day's account of all but the owner's own chats
KEPT = "; the rest is kept for the owner's own chats: ask there, or lower owner_share in [budget]"
RUNNING = 3
MAX_REASON, MAX_SENTENCE = 200, 120
DENIED = re.compile(
    r"permission denied|operation not permitted|access (?:is |was "
    r")?denied|\b(?:EACCES|EPERM)\b|\b403 forbidden",
    re.IGNORECASE,
)
SERVER_ERROR = re.compile(
    r"(?:Service)?Unavailable|TimedOut|(?:http|status)?[_ ]?5\d\d", re.IGNORECASE
)
RAN = (Outcome.OK, Outcome.ERROR)
NUDGE = """You made no tool call, and nothing that ends this run has happened yet. It ends when:
{ends}
{used} of {cycles} cycles are used. Take the next step, or bring one of these about if the work \
is done."""
EDGE = 4000
LATEST, FEWEST, RATE = 8, 6, 0.25
TRIED = (*RAN, Outcome.UNKNOWN)
QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"]*\"|“[^“”]*”|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)|^[ "
    r"\t]*>.*?$",
    re.DOTALL | re.MULTILINE,
)
LETTER = re.compile(
    r"^[^\S\n]*(?:dear|hi|hello)\b[^.\n]{0,40},[^\S\n]*$", re.MULTILINE | re.IGNORECASE
)
SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n")
ADVERBS = re.compile(
    r" (?:else|really|honestly|still|just|quite|entirely|completely|currently|unfortunately|now|here|next|any ?more|any further"  # noqa: E501
    r"|further|from here|at this point|with (?:this|the|my) task)\b"
)
END = r"(?= *(?:[.,;:!?…—–-]|$|(?:and|or|but|so)\b))"
I_AM, CANNOT = (
    r"i(?:'m| am)",
    r"i(?: cannot| can't| can not| am unable to|'m unable to| am not able to)",
)
NO_IDEA = (
    rf"(?:{I_AM} (?:not (?:sure|certain)|unsure|uncertain)|i (?:do not|don't|no longer) "
    rf"know|i have no idea|i can't figure out|it is (?:not clear|unclear)(?: to "
    rf"me)?|^(?:not sure|no idea))"
)
CANNOT_GO_ON = re.compile(
    rf"(?<![\w'])(?:{NO_IDEA} (?:how|what|where) (?:to|i (?:should|can)) (?:proceed|move "
    rf"forward|(?:continue|go on|go|do|try){END})"
    rf"|{I_AM} (?:stuck|at a loss|out of ideas|going (?:around )?in circles){END}"
    r"|i(?:'ve| have)? (?:run|ran) out of (?:ideas|options|things to try)|i(?:'ve| have)? "
    r"exhausted (?:all |my |the )*options"
    rf"|i(?:'ve| have)? (?:hit|reached) a dead end{END}"
    rf"|{CANNOT} (?:proceed|continue|go on|move forward|make (?:any )?progress){END}"
    r"|i (?:(?:do not|don't|cannot|can't) see (?:any|a)|see no)(?: other)? way (?:forward|to "
    r"(?:proceed|continue|go on))"
    rf"|there(?:'s| is) nothing(?: more| else)?(?: that)? i can (?:try|do){END}|i give up{END})"
)
DEPENDS = re.compile(r"\b(?:if|when|whenever|in case|until|unless|without)\b")
SOLVED = re.compile(
    r" (?:if|when|unless|until)\b|(?:,? (?:so|but|therefore)|[;:—–-]) (?:first,? )?(?:i(?:'ll|'d| "
    r"will| would)|i am going to|let me|let's|here(?:'s| is))\b"
)

ENDS_KEPT = 10
TOO_OFTEN = 3
EXHAUSTED = (Stop.MAX_ITERATIONS, Stop.OVER_BUDGET, Stop.DEADLINE)
ALARM = (
    "The agent {agent} ran out of its budget in {count} of its last {of} turns ({reasons}). Its "
    "limits may be too low for what "
    "it is asked, or it goes about it badly: `aidaemon runs` shows them."
)


@value
class Halt:
    """Stop, for this reason. `coach` is a message to try first, when the condition gives the model
    another chance.

    A `coachable` one is void when the user steers meanwhile: that is a new chance, too.
    """

    reason: Stop
    detail: str
    coach: str = ""
    coachable: bool = False


def halt_over_budget(turn: Turn, short: Shortage) -> Halt:
    """The tokens or USD of the turn, of its parent, or of the day are used up (A19, F2); a
    condition may declare that (B2).
    """
    money = short.kind == "usd"
    form = "${:.4f} of ${:g}" if money else "{:,.0f} of {:,.0f}"
    used = form.format(short.used, short.cap)
    declared = any(isinstance(one, BudgetExhausted) for one in turn.spec.conditions)
    if money and short.budget == turn.id and declared and short.used:
        return Halt(Stop.CONDITION, f"budget-exhausted ({used})")
    known = {turn.id: "the turn's", DAY: "today's", OTHERS: "today's shared", turn.session: OF_GOAL}
    whose = known.get(short.budget, "the calling agent's")
    what = "money is" if money else "tokens are"
    how = "used up"
    if not short.used:
        how = "not enough for the first call"
        used = f"which may take {form.format(short.cap + short.missing, short.cap)}"
    elif short.used < short.cap:
        how = "nearly used up, and the next call could take more than is left"
    until = ", until midnight" if short.budget in (DAY, OTHERS) else ""
    kept = KEPT if short.budget == OTHERS else ""
    return Halt(Stop.OVER_BUDGET, f"{whose} {what} {how} ({used}{until}){kept}")


def check_iterations(turn: Turn) -> Halt | None:
    """The last iteration that was allowed has been used (A12)."""
    if turn.iterations < turn.max_iterations:
        return None
    return Halt(Stop.MAX_ITERATIONS, f"all {turn.max_iterations} iterations are used up")


def iterate_since_reply(turn: Turn) -> Iterator[Event]:
    """The events after the latest reply, latest first."""
    events = (entry.event for entry in reversed(turn.events))
    return takewhile(lambda event: not isinstance(event, ModelReplied), events)


def iterate_results(turn: Turn) -> Iterator[Done]:
    """What the iterations since the user last spoke did, latest first; those without a call are
    left out.
    """
    return (done for _, done in reversed(turn.replies) if done)


def clip(text: str, most: int) -> str:
    """At most so many characters of it, with a mark where the rest is left out."""
    return text if len(text) <= most else text[:most] + "..."


def check_unrecoverable(turn: Turn) -> Halt | None:
    """Nothing that the model does next can help: a critical tool was denied, or a service fails
    again and again.
    """
    latest = next(iterate_results(turn), ())
    for result, call in latest:
        if call.name in turn.spec.critical and _is_denied(result):
            return Halt(Stop.FAILED, f"permission_denied: {call.name}: {_get_reason(result)}")
    failed = ((result, call) for result, call in latest if result.outcome is Outcome.ERROR)
    for result, call in failed:
        if not _is_server_failure(result):
            continue
        wanted, tries = _find_dependency(call), 0
        for done in iterate_results(turn):  # parallel calls into one outage are one failure
            uses = [one for one, its_call in done if _find_dependency(its_call) == wanted]
            if not all(map(_is_server_failure, uses)):
                break
            tries += bool(uses)
        if tries >= RUNNING:
            detail = f"dependency: {wanted} failed {RUNNING} times running ({result.error_class})"
            return Halt(Stop.FAILED, detail)
    return None


def _is_denied(result: ToolFinished) -> bool:
    """The gate, a person, or the system behind the tool said no."""
    if result.outcome is not Outcome.ERROR:
        return result.outcome is Outcome.REJECTED
    return result.error_class == "PermissionError" or bool(DENIED.search(result.text))


def _find_dependency(call: ToolCall) -> str:
    """What a call depends on: the tool, and the host where the call names an address."""
    try:
        host = urlsplit(json.loads(call.arguments)["url"]).hostname
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        host = None
    return f"{call.name} {host}" if host else call.name


def _is_server_failure(result: ToolFinished) -> bool:
    return result.outcome is Outcome.ERROR and bool(SERVER_ERROR.fullmatch(result.error_class))


def _get_reason(result: ToolFinished) -> str:
    """The reason, in one line."""
    try:
        text = str(json.loads(result.text)["reason"])
    except (ValueError, LookupError, TypeError):
        text = result.text
    return clip(" ".join(text.split()), MAX_REASON)


def check_confidence(turn: Turn) -> Halt | None:
    """Going on blindly would not help: the user is told. Void when the user steers meanwhile,
    never coached.
    """
    text = turn.replies[-1][0].text if turn.replies else ""
    latest = turn.settled_calls[-1][0] if turn.settled_calls else None
    if sentence := find_low_confidence(text):
        detail = f'the model sees no way to go on ("{clip(sentence, MAX_SENTENCE)}")'
    elif latest is None or (latest.outcome is Outcome.OK and not latest.repeat_of):
        return None
    else:  # calls that were refused, not run, or whose earlier result was shown again do not count
        results = chain.from_iterable(reversed(done) for done in iterate_results(turn))
        counted = (
            one
            for one, _ in results
            if one.outcome in TRIED
            and not one.repeat_of
            and one.error_class != Stop.OVER_BUDGET.value  # an agent, out of this turn's own money
        )
        worked = [one.outcome is Outcome.OK for one in islice(counted, LATEST)]
        if len(worked) < FEWEST or sum(worked) >= RATE * len(worked):
            return None
        detail = f"{worked.count(False)} of the last {len(worked)} tool calls failed"
    return Halt(Stop.LOW_CONFIDENCE, detail, coachable=True)


@lru_cache(maxsize=64)
def find_low_confidence(text: str) -> str:
    """The sentence that says "I cannot go on", or "". In a long reply it stands at the beginning
    or the end. English only.
    """
    if len(text) > 2 * EDGE:
        text = f"{text[:EDGE]}\n{text[-EDGE:]}"
    text = QUOTED.sub(" … ", text.replace("’", "'").replace("‘", "'"))
    letter = LETTER.search(text)
    for sentence in SENTENCE.split(text[: letter.start()] if letter else text):
        plain = ADVERBS.sub("", " ".join(sentence.casefold().split()))
        found = CANNOT_GO_ON.search(plain)
        if found and not (
            DEPENDS.search(plain[: found.start()]) or SOLVED.search(plain, found.end())
        ):
            return " ".join(sentence.split())
    return ""


def find_declared_stop(turn: Turn, usd: float) -> Halt | None:
    """The first that holds after an iteration, in the order of the spec; `usd` is what the run has
    cost, children included.
    """
    if turn.reply is None or turn.pending:
        return None
    for condition in turn.spec.conditions:
        match condition:
            case TextIncludes(text=text):
                holds = text in turn.reply.text
            case ToolResult():
                holds = any(_has_result(condition, state) for state in turn.calls)
            case BudgetExhausted():
                holds = usd >= condition.usd
        if holds:
            return Halt(Stop.CONDITION, f"{condition.kind}: {describe_condition(condition)[0]}")
    return None


def ends_by_condition(turn: Turn, short: Shortage) -> bool:
    """The run's own money is used up and a condition says that this is its end: the cycle's tools
    still run, and where several conditions hold now, the first of them counts (B2).
    """
    if short.kind != "usd" or short.budget != turn.id or turn.reply is None:
        return False
    return any(
        isinstance(one, BudgetExhausted) and short.used >= one.usd for one in turn.spec.conditions
    )


def describe_condition(condition: Condition) -> tuple[str, str]:
    """For a person, and for the model."""
    match condition:
        case TextIncludes(text=text):
            return text, f"your text contains {text}"
        case ToolResult(tool=tool, exit_code=exit_code, contains=contains):
            code = "" if exit_code is None else f" with exit code {exit_code}"
            text = f" {'and' if code else 'with'} {contains!r} in it" if contains else ""
            return f"{tool}{code}{text}", f"{tool} gives a result{code}{text}"
        case BudgetExhausted(usd=usd):
            return f"${usd:g}", f"it has cost ${usd:g}"


def render_nudge(turn: Turn) -> str:
    """For an iteration without a tool call after which no condition held (B6)."""
    ends = "\n".join(f"- {describe_condition(one)[1]}" for one in turn.spec.conditions)
    return NUDGE.format(ends=ends, used=turn.iterations, cycles=turn.max_iterations)


def _has_result(condition: ToolResult, state: CallState) -> bool:
    """Exit code AND text, where both are asked for; a call that was refused or never ran has no
    result.
    """
    result = state.result
    if result is None or result.outcome not in RAN or not (state.starts or result.repeat_of):
        return False
    coded = condition.exit_code in (None, result.exit_code)
    return result.tool == condition.tool and coded and condition.contains in result.text


@dataclass(slots=True)
class StopStats:
    """The latest ends of each agent, kept beside the rows that they come from. One alarm for each
    time the mark is reached.
    """

    _ends: dict[str, deque[Stop]] = field(default_factory=dict)

    async def load(self, store: Store, agents: list[str]) -> None:
        """Read the latest ends from the journal; those that led to the last alarm lead to no
        other.
        """
        stops = await store.read(
            lambda tx: [tx.list_recent_stops(one, ENDS_KEPT) for one in agents]
        )
        for agent, latest in zip(agents, stops, strict=True):
            self._ends[agent] = deque(reversed(latest), maxlen=ENDS_KEPT)

    def record_stop(self, agent: str, reason: Stop) -> Alarm | None:
        """Note it; an alarm when this end is the third in ten that exhausted the budget, or
        more.
        """
        ends = self._ends.setdefault(agent, deque(maxlen=ENDS_KEPT))
        ends.append(reason)
        spent = [end for end in ends if end in EXHAUSTED]
        if reason not in EXHAUSTED or len(spent) < TOO_OFTEN:
            return None
        ends.clear()  # the next alarm needs three more
        reasons = ", ".join(sorted({end.value for end in spent}))
        return Alarm(
            "budget_exhausted",
            ALARM.format(agent=agent, count=len(spent), of=ENDS_KEPT, reasons=reasons),
        )
