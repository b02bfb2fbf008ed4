"""Calls of tools: arguments, results (B7), which run together (E5), repeat an earlier one (A11) or
are retried (E6).
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from itertools import takewhile
from pathlib import PurePosixPath

from daemon.core import value
from daemon.core.events import Answer, ApprovalAnswered, ApprovalAsked, Outcome, ToolFinished
from daemon.core.messages import MessageRole, drop_lone_surrogates, score_importance
from daemon.core.quoted import find_quoted
from daemon.core.trust import ASK_TOOL, Effect, Label
from daemon.core.turn import CallState, Turn
from daemon.tools.base import (
    Arguments,
    BadArguments,
    BoundContent,
    PersonQuestion,
    Tool,
    ToolError,
    ToolMeta,
)
from daemon.tools.workspace.fs import casefold_name

MAX_PARALLEL = 8
MAX_CHARS, SHOWN_CHARS = 4000, 200
HEARTBEAT_FILE = "HEARTBEAT.md"  # what the assistant looks at by itself
READ_EFFECTS = (Effect.READ, Effect.FETCH)
RETRY_DELAYS = (0.5, 1.0, 2.0)
WITHOUT_EFFECT = (Outcome.NOT_RUN, Outcome.REJECTED)
REPEAT_NOTE = (
    "\n[You asked exactly this before. This is the result of then;"
    " nothing has been done since that could change it.]"
)
ONLY_WORDS = (
    "The person wrote this instead of pressing a button. If it means yes, make the same call once"
    " more: they are asked again, and allow it by the button or by /approve."
)
CHANGED_NOTE = "what runs has changed since it was allowed:"
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def parse_arguments(arguments: str) -> dict[str, object]:
    """The arguments without those that begin with `_`, which only we fill in (A10).

    Raises BadArguments.
    """
    why = "not a JSON object"
    try:
        found = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        found, why = None, f"not JSON ({error})"
    if isinstance(found, dict):
        return {name: given for name, given in found.items() if not name.startswith("_")}
    text = arguments if len(arguments) <= SHOWN_CHARS else arguments[:SHOWN_CHARS] + "…"
    raise BadArguments(f"the arguments are {why}: {text!r}. Send one JSON object.")


def canonical_json(arguments: Arguments) -> str:
    """The same text for the same arguments, readable for a person."""
    text = json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(", ", ": "))
    return drop_lone_surrogates(text)


def args_hash(tool: str, arguments: Arguments) -> str:
    """What an approval and a grant are bound to: the tool and exactly these arguments."""
    text = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def as_user_question(asked: ApprovalAsked, question: PersonQuestion) -> ApprovalAsked:
    """What a call that runs needs to know, put as `ask_user` puts it."""
    about = {"question": question.text, "options": [*question.options]}
    shown, mark = canonical_json(about), args_hash(ASK_TOOL, about)
    return replace(asked, tool=ASK_TOOL, arguments=shown, args_hash=mark)


def is_protected(path: PurePosixPath, patterns: Iterable[str]) -> bool:
    """The path equals a protected one or lies under one, wherever that is anchored."""
    parts = [casefold_name(part) for part in path.parts if part not in ("/", ".")]
    for pattern in patterns:
        wanted = [casefold_name(part) for part in PurePosixPath(pattern).parts if part != "/"]
        starts = range(len(parts) - len(wanted) + 1)
        if wanted and any(all(map(fnmatchcase, parts[start:], wanted)) for start in starts):
            return True
    return False


@value
class AdmittedCall:
    """A call that may run now: `effect` is what it does to the world, `content` what it runs."""

    state: CallState
    tool: Tool
    arguments: Arguments
    effect: Effect
    content: BoundContent = BoundContent()

    @property
    def changes_nothing(self) -> bool:
        """It may still be visible outside, as a fetch is."""
        return self.effect in READ_EFFECTS

    @property
    def paths(self) -> list[PurePosixPath]:
        """The workspace paths that it reads or writes; a missing one is the workspace itself."""
        return [
            PurePosixPath(str(self.arguments.get(name) or ".")) for name in self.tool.meta.paths
        ]


def split_into_batches(calls: Sequence[AdmittedCall]) -> list[list[AdmittedCall]]:
    """Neighbours that do not conflict share a batch; the order of the reply is kept."""
    batches: list[list[AdmittedCall]] = []
    for call in calls:
        if batches and _may_join(call, batches[-1]):
            batches[-1].append(call)
        else:
            batches.append([call])
    return batches


def _may_join(call: AdmittedCall, batch: Sequence[AdmittedCall]) -> bool:
    together = (call, *batch)
    for one in together:
        meta = one.tool.meta
        writes = one.effect is Effect.WRITE and meta.paths
        if not (meta.parallel and (one.changes_nothing or writes)):
            return False
    if all(one.changes_nothing for one in together):
        return True
    return len(batch) < MAX_PARALLEL and not any(_conflict(call, one) for one in batch)


def _conflict(one: AdmittedCall, other: AdmittedCall) -> bool:
    """They act on the same place, or one inside the other's; a call without paths on all."""
    if one.changes_nothing and other.changes_nothing:
        return False
    return not (one.paths and other.paths) or any(
        mine.is_relative_to(its) or its.is_relative_to(mine)
        for mine in one.paths
        for its in other.paths
    )


def find_repeat(turn: Turn, call: AdmittedCall) -> ToolFinished | None:
    """The earlier result of the same successful read in this turn; None when it must be run.

    Anything that may have changed something in between makes the call new: an effect, a message
    of the user, a wait, a background agent or command.
    """
    name, wanted = call.state.call.name, args_hash(call.state.call.name, call.arguments)
    same = [
        result
        for result, asked in turn.settled_calls
        if result.tool == name and result.outcome is Outcome.OK and not result.repeat_of
        if _hash_call(asked.name, asked.arguments) == wanted
    ]
    if not same or _may_have_changed(turn, call, same[-1]):
        return None
    return replace(
        same[-1],
        call_id=call.state.call_id,
        text=same[-1].text + REPEAT_NOTE,
        seconds=0.0,
        repeat_of=same[-1].call_id,
    )


def _may_have_changed(turn: Turn, call: AdmittedCall, earlier: ToolFinished) -> bool:
    """What this earlier result of the turn has read."""
    before = turn.calls[: turn.calls.index(call.state)]
    effects = [
        result
        for result, _ in turn.settled_calls
        if result.effect is not Effect.READ and result.outcome not in WITHOUT_EFFECT
    ]
    if (
        any(state.judged and state.judged.effect is not Effect.READ for state in before)
        or any(child.spawned.background for child in turn.children.values())
        # a command may go on in the background
        or any(result.effect is Effect.DESTRUCTIVE for result in effects)
    ):
        return True
    since = takewhile(lambda one: one is not earlier, (one for one, _ in turn.settled_calls[::-1]))
    return any(
        one in effects or int(one.call_id.partition(".")[0]) < turn.last_input_seq
        for one in (*since, earlier)
    )


@lru_cache(maxsize=256)
def _hash_call(name: str, arguments: str) -> str:
    try:
        return args_hash(name, parse_arguments(arguments))
    except ToolError:
        return ""


def retry_delay(meta: ToolMeta, arguments: Arguments, attempt: int) -> float | None:
    """Seconds to wait after this attempt failed temporarily; None for no more retries."""
    is_harmless = meta.effect is Effect.FETCH or meta.is_repeatable(arguments)
    if attempt > meta.retries or not is_harmless:
        return None
    return RETRY_DELAYS[min(attempt, len(RETRY_DELAYS)) - 1]


def may_repeat(tool: Tool | None, state: CallState) -> bool:
    """A call that was cut off may run again."""
    try:
        return tool is not None and tool.meta.is_repeatable(parse_arguments(state.call.arguments))
    except BadArguments:
        return False


def to_printable(text: str) -> str:
    """Remove control characters, terminal escapes and lone surrogates."""
    text = ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return drop_lone_surrogates(UNPRINTABLE.sub("", text))


def truncate_middle(text: str, limit: int) -> str:
    """At most `limit` characters: the beginning, the number of omitted characters, the end."""
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text) - limit} characters left out ...]\n"
    room = max(limit - len(mark), 0)
    head, tail = room - room // 2, room // 2
    return text[:head] + mark + text[len(text) - tail :]


def make_result(
    state: CallState, outcome: Outcome, text: str, error_class: str, effect: Effect | None = None
) -> ToolFinished:
    """A result that no tool gave. A call that the gate has not judged counts as destructive."""
    text = to_printable(truncate_middle(text, MAX_CHARS))
    judged = state.judged.effect if state.judged else Effect.DESTRUCTIVE
    return ToolFinished(
        state.call_id,
        state.call.name,
        outcome,
        text,
        effect or judged,
        score_importance(MessageRole.TOOL, text),
        error_class=error_class,
        public=True,
    )


def make_rejection(
    state: CallState, reason: str, error_class: str = "Rejected", *, note: str = ""
) -> ToolFinished:
    """The refusal of a person or the gate: data for the model, not an exception. A `note` is ours,
    beside the reason.
    """
    said = {"rejected": True, "reason": reason} | ({"note": note} if note else {})
    text = json.dumps(said, ensure_ascii=False)
    return make_result(state, Outcome.REJECTED, text, error_class)


def make_denial(state: CallState, answered: ApprovalAnswered) -> ToolFinished:
    """What a person's answer that is no yes means for the model; what they pasted with it is not
    their word.
    """
    reason = answered.reason or f"{answered.by or 'the user'} said no"
    if answered.answer is Answer.EXPIRED:
        reason = "nobody answered in time"
    note = ONLY_WORDS if answered.answer is Answer.TEXT else ""
    denial = make_rejection(state, reason, note=note)
    pasted = find_quoted(reason)
    return replace(denial, label=Label.UNTRUSTED, owned=False) if pasted else denial


def make_not_run(state: CallState, why: str) -> ToolFinished:
    """Nothing has happened."""
    return make_result(state, Outcome.NOT_RUN, f"Not run: {why}", "NotRun")


def make_unknown(state: CallState) -> ToolFinished:
    """The call was cut off, so its effect may or may not have happened (promise 3)."""
    text = (
        f"The outcome of {state.call.name} is unknown: it may or may not have happened;"
        " it was not run again. Tell the user."
    )
    return make_result(state, Outcome.UNKNOWN, text, "UnknownOutcome")


def make_cut_result(turn: Turn, state: CallState, why: str) -> ToolFinished:
    """Of a pending call of a turn that is cut: not run, or unknown."""
    read = state.judged is not None and state.judged.effect is Effect.READ
    unknown = state.call_id in turn.children or (state.starts and not read)
    return make_unknown(state) if unknown else make_not_run(state, f"{why}.")
