"""A button was pressed: an answer to one question, by whoever may give it, once; what is stale says so (A15)."""

from dataclasses import dataclass

from channels.message import Press
from channels.text.asking import is_whole
from daemon.commands.answering import answer_call, is_theirs
from daemon.commands.asked import glance_of, in_words, note_glance, ref, with_whole
from daemon.commands.base import Desk
from daemon.core.asking import MayNotAnswer, is_of_the_house
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.core.roles import Person, Right, may
from daemon.core.rows import ApprovalRow, OutboxRow
from daemon.delivery.addresses import chat_of, session_of
from daemon.delivery.letters import pressed
from daemon.people.places import called
from daemon.store.protocol import ReadTx, Tx

SAID = {
    Answer.ONCE: "Approved, once.",
    Answer.SESSION: "Approved for this conversation (/grants).",
    Answer.ALWAYS: "Approved for good (/grants).",
    Answer.DENY: "Denied.",
}
NO_BUTTON = "I do not know this button. Nothing was done."
NOT_YOURS = "This is not yours to answer."
SETTLED = "This question is settled; nothing was done now."
LONG = "This one is long. Read it whole, I send it now; then press again."


@dataclass(frozen=True, slots=True)
class Pressing:
    """Answers by button, for every channel."""

    desk: Desk

    async def press(self, press: Press, person: Person | None) -> str:
        """What to show to who pressed it. Raises StoreUnavailable: nothing was done."""
        meant = pressed(press.data)
        if person is None or not may(person.role, Right.KNOCK):
            return NOT_YOURS
        if meant is None:
            return NO_BUTTON
        answer, token = meant
        row, by = await self.desk.store.read(lambda tx: _meant(tx, token))
        if row is None or row.state != "pending" or row.expires <= self.desk.clock.now():
            return _stale(row, by)
        if answer is not Answer.DENY and await self._unread(press, row, answer, person):
            return LONG
        try:
            done = await answer_call(self.desk, row.turn, row.call_id, answer, person)
        except (MayNotAnswer, UsageError) as error:
            return str(error)
        return SAID[answer] if done else SETTLED

    async def _unread(self, press: Press, row: ApprovalRow, answer: Answer, person: Person) -> bool:
        """What was shown cut short is shown whole before a yes to it counts (A6)."""
        if is_of_the_house(row) or is_whole(row.arguments, row.preview):
            return False
        session, at = session_of(press.address), self.desk.clock.now()
        where = press.address.channel, chat_of(press.address)

        def work(tx: Tx) -> bool:
            glance = glance_of(tx, session, person.name)
            if ref(row) in glance.whole or not is_theirs(tx, row, answer, person):
                return False
            note_glance(tx, session, person.name, with_whole(glance, [row]), [*tx.approvals("pending", session), row])
            tx.post(OutboxRow(row.turn, -1, session, *where, "notice", in_words(row, session, whole=True), at))
            return True

        return await self.desk.store.write(work)


def _meant(tx: ReadTx, token: str) -> tuple[ApprovalRow | None, str]:
    """The question that the button is about, and what who answered it is called."""
    row = tx.approval_by_token(token)
    return row, called(tx, row.answered_by) if row else ""


def _stale(row: ApprovalRow | None, by: str) -> str:
    if row is None:
        return SETTLED
    if row.answer and by:
        who = "Denied" if row.answer is Answer.DENY else "Approved"
        return f"{who} already, by {by}. {SETTLED}"
    return f"Nobody answered in time. {SETTLED}" if row.state in ("pending", "expired") else SETTLED
