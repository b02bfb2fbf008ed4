"""Answering one question, for every door: by somebody who may, as they stand now; once; with the permission that goes with it."""

from dataclasses import dataclass

from daemon.commands.base import Desk
from daemon.core.asking import EXACT, STANDING, Bounds, MayNotAnswer, is_of_the_house, may_say, permission
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.core.label import Label
from daemon.core.roles import Person
from daemon.core.rows import OUTSIDE, ApprovalRow, GrantRow
from daemon.store.protocol import ReadTx, Tx
from daemon.tools.grants import pattern_trouble, stands


@dataclass(frozen=True, slots=True)
class Settled:
    """A question that has been answered, and the standing permission that came of it."""

    row: ApprovalRow
    grant: GrantRow | None = None


async def answer_call(
    desk: Desk, turn: str, call_id: str, answer: Answer, by: Person, reason: str = "", bounds: Bounds = EXACT
) -> Settled | None:
    """Answer one question; None when it is not pending any more. Raises MayNotAnswer, and UsageError for bounds that do not fit.

    `by` is who the door has recognised just now: whoever was taken from its list since the question was asked has no say.
    """
    now, name = desk.clock.now(), desk.new_id()[-6:]

    def work(tx: Tx) -> Settled | None:
        row = tx.approval(turn, call_id)
        if row is None:
            return None
        _check(tx, row, answer, by)
        where = _chat_of(tx, row.session) if answer is Answer.SESSION else _everywhere(tx, row.session)
        grant = permission(row, answer, bounds, name=name, where=where, by=by.name, now=now)
        _check_bounds(row, answer, bounds)
        answered = tx.answer_approval(turn, call_id, answer, by.name, reason, now)
        if answered and grant:
            for past in [past.id for past in tx.grants("*") if not stands(past, now)]:
                tx.revoke_grant(past)
            tx.add_grant(grant)
        return Settled(answered, grant) if answered else None

    settled = await desk.store.write(work)
    session = await desk.store.read(lambda tx: tx.session(settled.row.session)) if settled else None
    if settled and session:
        desk.sessions.take_up(session, settled.row.turn)
    return settled


def is_theirs(tx: ReadTx, row: ApprovalRow, answer: Answer, person: Person) -> bool:
    """This person, as they stand now, may give this answer."""
    begun, session = tx.input_of(row.turn), tx.session(row.session)
    label = session.label if session else Label.UNTRUSTED
    return may_say(row, answer, person, begun_by=begun.sender if begun else "", session_label=label)


def _check(tx: ReadTx, row: ApprovalRow, answer: Answer, person: Person) -> None:
    if not is_theirs(tx, row, answer, person):
        who = f"{person.name}, {person.role.value}"
        raise MayNotAnswer(f"This is not yours to answer ({row.tool}: {row.effect.value}); here you are {who}. It still waits.")


def _check_bounds(row: ApprovalRow, answer: Answer, bounds: Bounds) -> None:
    if bounds == EXACT:
        return
    if answer not in STANDING or is_of_the_house(row):
        raise UsageError("Bounds are for a yes that holds for the session or always, to a call. Nothing was answered.")
    trouble = pattern_trouble(bounds.paths, row.paths) if bounds.paths else ""
    if trouble:
        raise UsageError(f"{trouble}. Nothing was answered.")


def _chat_of(tx: Tx, session: str) -> str:
    """Where the person is: agents that work for a chat come and go. What came from outside is never their chat."""
    own = tx.session(session)
    return own.root if own and own.root and own.label is Label.TRUSTED else session


def _everywhere(tx: Tx, session: str) -> str:
    """What is allowed for good to the owner's chats is never allowed to conversations from outside, nor the other way round."""
    own = tx.session(session)
    return "" if own and own.label is Label.TRUSTED else OUTSIDE
