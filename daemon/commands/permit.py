"""/approve /deny: answers to questions, one by one or all that were listed (A15, B8)."""

from collections.abc import Sequence

from daemon.commands.answering import Settled, answer_call
from daemon.commands.asked import Glance, glance_of, in_a_list, in_words, is_cut, note_glance, ref, with_list, with_whole
from daemon.commands.base import Command, Desk, Spoken
from daemon.commands.permit_words import Approval, Misspoken, approval, denial
from daemon.commands.standing import bounds_of
from daemon.core.asking import MayNotAnswer
from daemon.core.errors import UsageError
from daemon.core.escaping import shown
from daemon.core.events import Answer
from daemon.core.label import Label
from daemon.core.roles import Person
from daemon.core.rows import ApprovalRow
from daemon.store.protocol import ReadTx, Tx

NOTHING = "Nothing waits for an answer here."
ELSEWHERE = "What is asked because of this conversation is not answered here."
GONE = "That question has expired, or was answered."


async def approve(desk: Desk, spoken: Spoken) -> str:
    """Yes to the only question, to one of the list, or to all that were listed; `show` shows one whole."""
    if spoken.session.label is Label.UNTRUSTED:
        return ELSEWHERE
    try:
        said = approval(spoken.argument)
    except Misspoken as error:
        return str(error)
    waiting, glance = await _waiting(desk, spoken)
    rows = _meant(said.which, waiting, glance)
    if not waiting:
        return NOTHING
    if not rows:
        return await _list(desk, spoken, waiting, glance)
    if said.look:
        return await _show(desk, spoken, rows, waiting, glance)
    unseen = [row for row in rows if is_cut(row) and ref(row) not in glance.whole]
    lines = [await _say_yes(desk, spoken, row, said) for row in rows if row not in unseen]
    return "\n".join((*lines, *(_look_first(row, waiting, glance) for row in unseen), *_newer(said.which, waiting, glance)))


async def deny(desk: Desk, spoken: Spoken) -> str:
    """No, with the reason behind it. All means all: a no needs no list."""
    if spoken.session.label is Label.UNTRUSTED:
        return ELSEWHERE
    waiting, glance = await _waiting(desk, spoken)
    which, reason = denial(spoken.argument, len(glance.listed))
    rows = waiting if which == "all" else _meant(which, waiting, glance)
    if not waiting:
        return NOTHING
    if not rows:
        return await _list(desk, spoken, waiting, glance)
    lines = []
    for row in rows:
        done = await _answer(desk, spoken, row, Approval(answer=Answer.DENY), reason)
        lines.append(done if isinstance(done, str) else f"Denied: {_line(row)}")
    return "\n".join(lines)


async def _waiting(desk: Desk, spoken: Spoken) -> tuple[list[ApprovalRow], Glance]:
    def look(tx: ReadTx) -> tuple[list[ApprovalRow], Glance]:
        return tx.approvals("pending", spoken.session.id), glance_of(tx, spoken.session.id, spoken.sender)

    rows, glance = await desk.store.read(look)
    now = desk.clock.now()
    return [row for row in rows if row.expires > now], glance


def _meant(which: str, waiting: Sequence[ApprovalRow], glance: Glance) -> list[ApprovalRow]:
    """The questions that are meant, of those that wait; none where it is not clear which. A number is one of the list shown."""
    if not which or (len(waiting) == 1 and not glance.listed and which in ("1", "all")):
        return [*waiting] if len(waiting) == 1 else []
    if which == "all":
        return [row for row in waiting if ref(row) in glance.listed]
    numbered = dict(enumerate(glance.listed, 1)).get(int(which))
    return [row for row in waiting if ref(row) == numbered]


async def _list(desk: Desk, spoken: Spoken, waiting: Sequence[ApprovalRow], glance: Glance) -> str:
    session = spoken.session.id

    def note(tx: Tx) -> None:
        note_glance(tx, session, spoken.sender, with_list(glance, waiting), waiting)

    await desk.store.write(note)
    return in_a_list(waiting, session)


async def _show(
    desk: Desk, spoken: Spoken, rows: Sequence[ApprovalRow], waiting: Sequence[ApprovalRow], glance: Glance
) -> str:
    session = spoken.session.id

    def note(tx: Tx) -> None:
        note_glance(tx, session, spoken.sender, with_whole(glance, rows), waiting)

    await desk.store.write(note)
    return "\n\n".join(in_words(row, session, whole=True) for row in rows)


async def _say_yes(desk: Desk, spoken: Spoken, row: ApprovalRow, said: Approval) -> str:
    done = await _answer(desk, spoken, row, said, "")
    if isinstance(done, str):
        return done
    holds = f"\nThe same needs no question {bounds_of(done.grant)} (/grants)." if done.grant else ""
    return f"Approved: {_line(row)}{holds}"


async def _answer(desk: Desk, spoken: Spoken, row: ApprovalRow, said: Approval, reason: str) -> Settled | str:
    """What became of it; a text says why it was not answered."""
    person = Person(spoken.sender, spoken.role)
    try:
        done = await answer_call(desk, row.turn, row.call_id, said.answer, person, reason, said.bounds)
    except (MayNotAnswer, UsageError) as error:
        return str(error)
    return done or GONE


def _look_first(row: ApprovalRow, waiting: Sequence[ApprovalRow], glance: Glance) -> str:
    number = f" {glance.listed.index(ref(row)) + 1}" if ref(row) in glance.listed and len(waiting) > 1 else ""
    return f"Not answered yet: {_line(row)}\nThis one is long: look at it whole first, /approve show{number}; then say yes."


def _newer(which: str, waiting: Sequence[ApprovalRow], glance: Glance) -> list[str]:
    newer = [row for row in waiting if ref(row) not in glance.listed] if which == "all" and glance.listed else []
    return [f"{len(newer)} more came since you looked: /approve lists them."] if newer else []


def _line(row: ApprovalRow) -> str:
    return f"{shown(row.tool)} {shown(row.arguments)}"


YES = "say yes to what I asked: /approve [2|all|show 2] [session|always [5 times] [30 minutes] [paths reports/*]]"
COMMANDS = (
    Command("approve", YES, approve),
    Command("deny", "say no to what I asked: /deny [2|all] [reason]", deny),
)
