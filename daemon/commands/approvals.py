"""/grants: what needs no question any more, how far each of it goes, and taking it back.

What is said behind /approve and /deny: which questions, for how long, within which bounds.

/approve /deny: answers to questions, one by one or all that were listed (A15, B8).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from daemon.commands.registry import Command, CommandCall, Services
from daemon.core import value
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.core.journal import ReadTx, Tx
from daemon.core.rows import (
    EXACT_CALL,
    LASTING_ANSWERS,
    MAX_GRANT_TERM,
    MAX_GRANT_USES,
    OUTSIDE_SCOPE,
    ApprovalRow,
    GrantBounds,
    GrantRow,
    NotAllowedToAnswer,
)
from daemon.core.trust import Label, Person, Right, has_right
from daemon.services.approvals import (
    AnsweredCall,
    ShownApprovals,
    add_listed,
    add_whole,
    answer_approval,
    load_shown,
    needs_full_view,
    ref_of,
    render_approval,
    render_list,
    save_shown,
)
from daemon.services.visible_text import make_visible
from daemon.tools.policy.grants import is_active

ALL_SESSIONS = "*"


async def list_grants(desk: Services, session: str = ALL_SESSIONS) -> list[GrantRow]:
    """The permissions that stand: in this session and in conversations from outside, or all there are."""
    rows, now = await desk.store.read(lambda tx: tx.list_grants(session)), desk.clock.now()
    outside = (
        []
        if session == ALL_SESSIONS
        else await desk.store.read(lambda tx: tx.list_grants(OUTSIDE_SCOPE))
    )
    return [row for row in (*rows, *(row for row in outside if row.session)) if is_active(row, now)]


async def revoke_grant(desk: Services, grant_id: str) -> bool:
    """Take one back; False when there is none of that id."""
    return await desk.store.write(lambda tx: tx.revoke_grant(grant_id))


async def run_grants(desk: Services, spoken: CommandCall) -> str:
    """What needs no question any more; /grants revoke ID takes one back."""
    verb, _, name = spoken.argument.partition(" ")
    if verb == "revoke":
        if not has_right(spoken.role, Right.ANSWER):
            return "Taking permissions back is for those who may give them."
        return (
            "Revoked: I will ask again."
            if await revoke_grant(desk, name.strip())
            else f"There is no permission {name}."
        )
    lines = [render_grant(row) for row in await list_grants(desk, spoken.session.id)]
    return (
        "\n".join(("Allowed without a question (/grants revoke ID takes one back):", *lines))
        if lines
        else "None."
    )


def render_grant(row: GrantRow) -> str:
    """One permission in a list."""
    what = (
        f"any call on {make_visible(row.paths)}" if row.paths else str(make_visible(row.arguments))
    )
    used = (
        "not used yet"
        if not row.uses
        else "used once"
        if row.uses == 1
        else f"used {row.uses} times"
    )
    return f"- {row.id}: {make_visible(row.tool)} {what} ({_render_scope(row)}; {render_bounds(row)}; {used})"


def _render_scope(row: GrantRow) -> str:
    if row.session == OUTSIDE_SCOPE:
        return "to what comes from outside"
    return "this chat" if row.session else "everywhere"


def render_bounds(row: GrantRow) -> str:
    """How far it goes: "3 times more until 20 Feb 2026 09:00 UTC"."""
    left = (
        ""
        if row.uses_left is None
        else "once more "
        if row.uses_left == 1
        else f"{row.uses_left} times more "
    )
    where = f"on {make_visible(row.paths)} " if row.paths else ""
    return (
        f"{left}{where}until {row.expires:%d %b %Y %H:%M} UTC"
        if row.expires
        else f"{left}{where}".strip()
    )


GRANT_COMMANDS = (
    Command(
        "grants", "what is allowed without a question, and how far; /grants revoke ID", run_grants
    ),
)


ANSWER_SCOPES = {"once": Answer.ONCE, "session": Answer.SESSION, "always": Answer.ALWAYS}
COUNT_UNITS = {"time", "times", "x"}
TIME_UNITS = {
    **dict.fromkeys(("minute", "minutes", "min"), timedelta(minutes=1)),
    **dict.fromkeys(("hour", "hours", "h"), timedelta(hours=1)),
    **dict.fromkeys(("day", "days", "d"), timedelta(days=1)),
}
FILLER_WORDS = {"for", "and", "in", "within", "the", "next"}
PATH_WORDS = {"path", "paths"}
COUNT = re.compile(r"(\d{1,6})([a-z]*)")
APPROVE_USAGE = (
    "Say /approve, /approve session or /approve always; bounds may follow: 5 times, 30 minutes, paths reports/*."
    " With several questions: /approve 2, /approve all, /approve show 2."
)


class BadArguments(UsageError):
    """The command was not understood; nothing was answered."""


@value
class ApproveArguments:
    """What /approve says. `which`: a number of the list, "all", or "" for the only one; `look` shows it instead of answering."""

    which: str = ""
    answer: Answer = Answer.ONCE
    bounds: GrantBounds = EXACT_CALL
    show: bool = False


def parse_approve(argument: str) -> ApproveArguments:
    """`[show] [N|all] [once|session|always] [BOUNDS]`. Raises Misspoken."""
    words = argument.split()
    look = bool(words) and words[0].lower() == "show"
    which, words = _split_choice(words[1:] if look else words)
    if look:
        if words:
            raise BadArguments("Say /approve show 2, with a number of the list, or /approve show.")
        return ApproveArguments(which, show=True)
    scope = ANSWER_SCOPES.get(words[0].lower()) if words else Answer.ONCE
    if scope is None:
        raise BadArguments(APPROVE_USAGE)
    bounds = _parse_bounds(iter(words[1:]))
    if bounds != EXACT_CALL and scope not in LASTING_ANSWERS:
        raise BadArguments(f"A yes for once has no bounds. {APPROVE_USAGE}")
    return ApproveArguments(which, scope, bounds)


def parse_deny(argument: str, listed: int) -> tuple[str, str]:
    """`[N|all] [reason]` as (which, reason); a number that is not on the list is part of the reason."""
    first, _, rest = argument.partition(" ")
    if first.lower() == "all" or (first.isdecimal() and 1 <= int(first) <= listed):
        return first.lower(), rest.strip()
    return "", argument


def _split_choice(words: list[str]) -> tuple[str, list[str]]:
    """A number stands for a question only where it is no bound: "5 times" comes behind a scope."""
    if words and (words[0].isdecimal() or words[0].lower() == "all"):
        return words[0].lower(), words[1:]
    return "", words


def _parse_bounds(words: Iterator[str]) -> GrantBounds:
    bounds = EXACT_CALL
    for word in words:
        plain = word.lower().strip(",")
        if plain in PATH_WORDS:
            bounds = replace(
                bounds, paths=_next_word(words, "which paths? For example: paths reports/*")
            )
        elif counted := COUNT.fullmatch(plain):
            unit = counted[2] or _next_word(
                words, f"{plain} what? For example: {plain} times, {plain} minutes"
            )
            bounds = _parse_count(bounds, int(counted[1]), unit.lower().strip(","))
        elif plain not in FILLER_WORDS:
            raise BadArguments(f"I do not know the bound {word!r}. {APPROVE_USAGE}")
    return bounds


def _parse_count(bounds: GrantBounds, number: int, unit: str) -> GrantBounds:
    if unit in COUNT_UNITS:
        if not 1 <= number <= MAX_GRANT_USES:
            raise BadArguments(
                f"{number} times: between 1 and {MAX_GRANT_USES} times can be allowed."
            )
        return replace(bounds, uses=number)
    if unit not in TIME_UNITS:
        raise BadArguments(f"I do not know the bound {number} {unit!r}. {APPROVE_USAGE}")
    lasts = number * TIME_UNITS[unit]
    if not timedelta(0) < lasts <= MAX_GRANT_TERM:
        raise BadArguments(
            f"{number} {unit}: at most {MAX_GRANT_TERM.days} days can be allowed, and more than none."
        )
    return replace(bounds, duration=lasts)


def _next_word(words: Iterator[str], otherwise: str) -> str:
    word = next(words, "")
    if not word:
        raise BadArguments(otherwise)
    return word


NOTHING_PENDING = "Nothing waits for an answer here."
ANSWER_ELSEWHERE = "What is asked because of this conversation is not answered here."
QUESTION_GONE = "That question has expired, or was answered."


async def run_approve(desk: Services, spoken: CommandCall) -> str:
    """Yes to the only question, to one of the list, or to all that were listed; `show` shows one whole."""
    if spoken.session.label is Label.UNTRUSTED:
        return ANSWER_ELSEWHERE
    try:
        said = parse_approve(spoken.argument)
    except BadArguments as error:
        return str(error)
    waiting, glance = await _load_pending(desk, spoken)
    rows = _select(said.which, waiting, glance)
    if not waiting:
        return NOTHING_PENDING
    if not rows:
        return await _reply_list(desk, spoken, waiting, glance)
    if said.show:
        return await _reply_whole(desk, spoken, rows, waiting, glance)
    unseen = [row for row in rows if needs_full_view(row) and ref_of(row) not in glance.whole]
    lines = [await _approve_one(desk, spoken, row, said) for row in rows if row not in unseen]
    return "\n".join(
        (
            *lines,
            *(_ask_to_view(row, waiting, glance) for row in unseen),
            *_mention_newer(said.which, waiting, glance),
        )
    )


async def run_deny(desk: Services, spoken: CommandCall) -> str:
    """No, with the reason behind it. All means all: a no needs no list."""
    if spoken.session.label is Label.UNTRUSTED:
        return ANSWER_ELSEWHERE
    waiting, glance = await _load_pending(desk, spoken)
    which, reason = parse_deny(spoken.argument, len(glance.listed))
    rows = waiting if which == "all" else _select(which, waiting, glance)
    if not waiting:
        return NOTHING_PENDING
    if not rows:
        return await _reply_list(desk, spoken, waiting, glance)
    lines = []
    for row in rows:
        done = await _answer(desk, spoken, row, ApproveArguments(answer=Answer.DENY), reason)
        lines.append(done if isinstance(done, str) else f"Denied: {_render_call(row)}")
    return "\n".join(lines)


async def _load_pending(
    desk: Services, spoken: CommandCall
) -> tuple[list[ApprovalRow], ShownApprovals]:
    def look(tx: ReadTx) -> tuple[list[ApprovalRow], ShownApprovals]:
        return tx.list_approvals("pending", spoken.session.id), load_shown(
            tx, spoken.session.id, spoken.sender
        )

    rows, glance = await desk.store.read(look)
    now = desk.clock.now()
    return [row for row in rows if row.expires > now], glance


def _select(
    which: str, waiting: Sequence[ApprovalRow], glance: ShownApprovals
) -> list[ApprovalRow]:
    """The questions that are meant, of those that wait; none where it is not clear which. A number is one of the list shown."""
    if not which or (len(waiting) == 1 and not glance.listed and which in ("1", "all")):
        return [*waiting] if len(waiting) == 1 else []
    if which == "all":
        return [row for row in waiting if ref_of(row) in glance.listed]
    numbered = dict(enumerate(glance.listed, 1)).get(int(which))
    return [row for row in waiting if ref_of(row) == numbered]


async def _reply_list(
    desk: Services, spoken: CommandCall, waiting: Sequence[ApprovalRow], glance: ShownApprovals
) -> str:
    session = spoken.session.id

    def note(tx: Tx) -> None:
        save_shown(tx, session, spoken.sender, add_listed(glance, waiting), waiting)

    await desk.store.write(note)
    return render_list(waiting, session)


async def _reply_whole(
    desk: Services,
    spoken: CommandCall,
    rows: Sequence[ApprovalRow],
    waiting: Sequence[ApprovalRow],
    glance: ShownApprovals,
) -> str:
    session = spoken.session.id

    def note(tx: Tx) -> None:
        save_shown(tx, session, spoken.sender, add_whole(glance, rows), waiting)

    await desk.store.write(note)
    return "\n\n".join(render_approval(row, session, whole=True) for row in rows)


async def _approve_one(
    desk: Services, spoken: CommandCall, row: ApprovalRow, said: ApproveArguments
) -> str:
    done = await _answer(desk, spoken, row, said, "")
    if isinstance(done, str):
        return done
    holds = (
        f"\nThe same needs no question {render_bounds(done.grant)} (/grants)." if done.grant else ""
    )
    return f"Approved: {_render_call(row)}{holds}"


async def _answer(
    desk: Services, spoken: CommandCall, row: ApprovalRow, said: ApproveArguments, reason: str
) -> AnsweredCall | str:
    """What became of it; a text says why it was not answered."""
    person = Person(spoken.sender, spoken.role)
    try:
        done = await answer_approval(
            desk, row.turn, row.call_id, said.answer, person, reason, said.bounds
        )
    except (NotAllowedToAnswer, UsageError) as error:
        return str(error)
    return done or QUESTION_GONE


def _ask_to_view(row: ApprovalRow, waiting: Sequence[ApprovalRow], glance: ShownApprovals) -> str:
    number = (
        f" {glance.listed.index(ref_of(row)) + 1}"
        if ref_of(row) in glance.listed and len(waiting) > 1
        else ""
    )
    return f"Not answered yet: {_render_call(row)}\nThis one is long: look at it whole first, /approve show{number}; then say yes."


def _mention_newer(which: str, waiting: Sequence[ApprovalRow], glance: ShownApprovals) -> list[str]:
    newer = (
        [row for row in waiting if ref_of(row) not in glance.listed]
        if which == "all" and glance.listed
        else []
    )
    return [f"{len(newer)} more came since you looked: /approve lists them."] if newer else []


def _render_call(row: ApprovalRow) -> str:
    return f"{make_visible(row.tool)} {make_visible(row.arguments)}"


APPROVE_HELP = "say yes to what I asked: /approve [2|all|show 2] [session|always [5 times] [30 minutes] [paths reports/*]]"
COMMANDS = (
    Command("approve", APPROVE_HELP, run_approve),
    Command("deny", "say no to what I asked: /deny [2|all] [reason]", run_deny),
)
