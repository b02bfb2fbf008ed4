"""A button was pressed: an answer to one question, by whoever may give it, once; what is stale
says so (A15).
"""

from dataclasses import replace

from channels.markup.approval_prompt import is_complete
from channels.message import ButtonPress
from daemon.access.chat_ids import chat_id, parse_button, session_id
from daemon.agent.system_questions import parse_system_question
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.core.rows import ApprovalRow, NotAllowedToAnswer, OutboxRow, is_call
from daemon.core.trust import SECRET_TOOL, Person, Right, has_right
from daemon.services.approvals import (
    ApprovalService,
    is_allowed_to_answer,
    load_shown,
    ref_of,
    render_approval,
    save_shown,
)
from daemon.store.journal import Store, Tx

ANSWER_TEXT = {
    Answer.ONCE: "Approved, once.",
    Answer.SESSION: "Approved for this conversation (/grants).",
    Answer.ALWAYS: "Approved for good (/grants).",
    Answer.DENY: "Denied.",
}
STALE = {Answer.DENY: "Denied", Answer.CHOICE: "Answered", Answer.TEXT: "Answered"}
UNKNOWN_BUTTON = "I do not know this button. Nothing was done."
NOT_ALLOWED = "You may not answer this."
ALREADY_SETTLED = "This question is settled; nothing was done now."
READ_FIRST = "This one is long. Read it whole, I send it now; then press again."


@value
class ButtonHandler:
    """Answers by button, for every channel."""

    store: Store
    clock: Clock
    approvals: ApprovalService

    async def answer(self, press: ButtonPress, person: Person | None) -> str:
        """What to show to who pressed it. Raises StoreUnavailable: nothing was done."""
        meant = parse_button(press.data)
        if person is None or not has_right(person.role, Right.CONTACT):
            return NOT_ALLOWED
        if meant is None:
            return UNKNOWN_BUTTON
        answer, token, place = meant
        row = await self.store.read(lambda tx: tx.find_approval(token))
        if row is None:
            return ALREADY_SETTLED
        if row.state != "pending" or row.expires <= self.clock.now():
            return _stale_text(
                row, await self.store.read(lambda tx: tx.get_display_name(row.answered_by))
            )
        if answer is not Answer.DENY and await self._show_whole(press, row, answer, person):
            return READ_FIRST
        asked = None if is_call(row) else parse_system_question(row.tool, row.arguments)
        option = "".join(asked.options[place - 1 : place]) if asked and place else ""
        try:
            done = await self.approvals.answer(*ref_of(row), answer, person, option)
        except (NotAllowedToAnswer, UsageError) as error:
            return str(error)
        if not done:
            return ALREADY_SETTLED
        if row.tool == SECRET_TOOL and answer is Answer.ONCE:
            return "Stored."
        return f"Answered: {option}" if option else ANSWER_TEXT[answer]

    async def _show_whole(
        self, press: ButtonPress, row: ApprovalRow, answer: Answer, person: Person
    ) -> bool:
        """What was shown cut short is shown whole before a yes to it counts (A6)."""
        if not is_call(row) or is_complete(row.arguments, row.preview):
            return False
        session, at = session_id(press.address), self.clock.now()
        where = press.address.channel, chat_id(press.address)

        def work(tx: Tx) -> bool:
            glance = load_shown(tx, session, person.name)
            if ref_of(row) in glance.whole or not is_allowed_to_answer(tx, row, answer, person):
                return False
            save_shown(
                tx,
                session,
                person.name,
                replace(glance, whole=glance.whole | {ref_of(row)}),
                [*tx.list_pending(session), row],
            )
            tx.post_delivery(
                OutboxRow(
                    row.turn,
                    -1,
                    session,
                    *where,
                    "notice",
                    render_approval(row, session, whole=True),
                    at,
                    due=at,  # at once: they have just pressed
                )
            )
            return True

        return await self.store.write(work)


def _stale_text(row: ApprovalRow, by: str) -> str:
    if row.answer and by:
        who = STALE.get(row.answer, "Approved")
        return f"{who} already, by {by}. {ALREADY_SETTLED}"
    is_late = row.state in ("pending", "expired")
    return f"Nobody answered in time. {ALREADY_SETTLED}" if is_late else ALREADY_SETTLED
