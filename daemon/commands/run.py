"""Run a command from beginning to end: the journal has it before it is carried out, and its reply
afterwards.
"""

from datetime import datetime

from daemon.commands.registry import (
    ALIASES,
    COMMANDS,
    CommandCall,
    Handlers,
    describe_unknown,
    render_help,
)
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.rows import InboxRow, OutboxRow, SessionRow
from daemon.core.trust import Right, has_right
from daemon.sessions.inbox import COMMAND_STATE
from daemon.store.journal import Store, Tx

DONE_STATE, REPLY_KIND = "command", "command"
RESULT_UNKNOWN = (
    "This command came before, and it is unknown whether it was carried out."
    " Check, and repeat it if needed."
)
INTERRUPTED = (
    "A restart interrupted {text!r}; it is unknown whether it was carried out."
    " Check, and repeat it if needed."
)


@value
class CommandRunner:
    """For every channel and client. `handlers` has one for each command but /help."""

    store: Store
    clock: Clock
    handlers: Handlers

    async def run(self, row: InboxRow, call: CommandCall, *, shown: bool) -> str:
        """Carry it out; returns the reply. `shown`: the caller shows it, else it is sent to the
        conversation.
        """
        reply = await self.dispatch(call)
        said = _reply_row(row, call.session, reply, self.clock.now(), "sent" if shown else "new")

        def work(tx: Tx) -> None:
            tx.set_input_state(row.id, DONE_STATE)
            tx.post_delivery(said)

        await self.store.write(work)
        return reply

    async def dispatch(self, call: CommandCall) -> str:
        """The reply; a stranger's command, or an unknown one, does nothing."""
        name = ALIASES.get(call.name, call.name)
        command = COMMANDS.get(name)
        if not has_right(call.role, command.right if command else Right.TALK):
            return (
                f"You may not use /{call.name}: you are {call.sender}, {call.role.value}."
                " Nothing was done."
            )
        if command is None:
            return describe_unknown(call.name)
        return render_help(call.argument) if name == "help" else await self.handlers[name](call)

    async def earlier_reply(self, row: InboxRow) -> str:
        """The reply to the same command when it came first."""
        rows = await self.store.read(lambda tx: tx.list_turn_outbox(row.turn))
        return next((said.body for said in rows if said.kind == REPLY_KIND), RESULT_UNKNOWN)

    async def report_interrupted(self) -> None:
        """Commands that a crash cut off are not repeated; whoever gave them is told."""
        if rows := await self.store.read(lambda tx: tx.list_inputs(COMMAND_STATE)):
            await self.store.write(lambda tx: [self._settle(tx, row) for row in rows])

    async def report_if_interrupted(self, row: InboxRow) -> None:
        """The same for one command that came again, and that does not run any more."""

        def work(tx: Tx) -> None:
            left = tx.get_input(row.id)
            if left and left.state == COMMAND_STATE:
                self._settle(tx, left)

        await self.store.write(work)

    def _settle(self, tx: Tx, row: InboxRow) -> None:
        tx.set_input_state(row.id, DONE_STATE)
        if session := tx.get_session(row.session):
            text = INTERRUPTED.format(text=row.body)
            tx.post_delivery(_reply_row(row, session, text, self.clock.now(), "new"))


def _reply_row(
    row: InboxRow, session: SessionRow, text: str, at: datetime, state: str
) -> OutboxRow:
    return OutboxRow(
        row.turn, -1, session.id, session.channel, session.chat, REPLY_KIND, text, at, state=state
    )
