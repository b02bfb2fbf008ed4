"""Commands whose parts are imported only when somebody gives them.

All commands there are, /help among them.

A command from beginning to end: it stands in the journal as ordered before it is carried out, and as done with its reply.
"""

from datetime import datetime
from difflib import get_close_matches
from typing import cast

from daemon import addons as plugins
from daemon.commands import admin as people
from daemon.commands import admin as reload
from daemon.commands import approvals as permit
from daemon.commands import approvals as standing
from daemon.commands import model as agents
from daemon.commands import model as choose
from daemon.commands import sessions as control
from daemon.commands import sessions as loop
from daemon.commands import status
from daemon.commands.registry import Command, CommandCall, RunCommand, Services
from daemon.core.journal import Tx
from daemon.core.rows import InboxRow, OutboxRow, SessionRow
from daemon.core.trust import Right, has_right
from daemon.sessions.inbox import COMMAND_STATE
from daemon.store.projections import get_initial_state

UNDO_HELP = "take back what I did to files: /undo [ID], /undo list"
RULES_HELP = "what I must ask first, or never do: /rules add SENTENCE, confirm N, remove N"
MCP_HELP = "servers of others and their tools; /mcp approve NAME"


async def run_late(desk: Services, spoken: CommandCall) -> str:
    """The command of this name: see commands.mcp, commands.rules and commands.undo."""
    return await cast(RunCommand, plugins.load_addon("commands", spoken.name))(desk, spoken)


LATE_COMMANDS = (
    Command("undo", UNDO_HELP, run_late, Right.DANGER),
    Command("rules", RULES_HELP, run_late, Right.MANAGE),
    Command("mcp", MCP_HELP, run_late, Right.MANAGE),
)


async def show_help(desk: Services, spoken: CommandCall) -> str:
    """One line each."""
    return "\n".join(
        f"/{command.name} - {command.help}"
        for command in COMMANDS.values()
        if command.name != "start"
    )


HELP_COMMANDS = (
    Command("help", "this list", show_help, Right.READ),
    Command("start", "say hello", show_help, Right.READ),
)
CHAT_COMMANDS = (
    *choose.COMMANDS,
    *agents.AGENT_COMMANDS,
    *loop.LOOP_COMMANDS,
    *permit.COMMANDS,
    *standing.GRANT_COMMANDS,
)
ADMIN_COMMANDS = (*LATE_COMMANDS, *reload.RELOAD_COMMANDS, *people.COMMANDS)
COMMANDS = {
    c.name: c
    for c in (*HELP_COMMANDS, *status.COMMANDS, *control.COMMANDS, *CHAT_COMMANDS, *ADMIN_COMMANDS)
}


async def dispatch(desk: Services, spoken: CommandCall) -> str:
    """The reply of the command; an unknown one gets the nearest known."""
    command = COMMANDS.get(spoken.name)
    if not has_right(spoken.role, command.right if command else Right.TALK):
        return f"/{spoken.name} is not for you: here you are {spoken.sender}, {spoken.role.value}. Nothing was done."
    if command is None:
        near = get_close_matches(spoken.name, COMMANDS, n=1)
        return (
            f"I do not know /{spoken.name}."
            + (f" Did you mean /{near[0]}?" if near else "")
            + " /help lists all."
        )
    return await command.run(desk, spoken)


DONE_STATE, REPLY_KIND = "command", "command"
RESULT_UNKNOWN = "This command came before, and I cannot tell whether it was carried out. Look, and give it again if need be."
INTERRUPTED = "I was restarted while I carried out {text!r} and cannot tell whether it was done. Look, and give it again if need be."


async def run_command(desk: Services, row: InboxRow, spoken: CommandCall, *, shown: bool) -> str:
    """Carry it out; the reply. `shown` says that the caller shows it, else it is delivered to the conversation."""
    reply, at = await dispatch(desk, spoken), desk.clock.now()

    def work(tx: Tx) -> None:
        tx.set_input_state(row.id, DONE_STATE)
        tx.post_delivery(_reply_row(row, spoken.session, reply, at, "sent" if shown else "new"))

    await desk.store.write(work)
    return reply


async def earlier_reply(desk: Services, row: InboxRow) -> str:
    """What the same command was answered when it came first."""
    rows = await desk.store.read(lambda tx: tx.list_turn_outbox(row.turn))
    return next((said.body for said in rows if said.kind == REPLY_KIND), RESULT_UNKNOWN)


async def report_interrupted(desk: Services) -> None:
    """Commands that a crash cut off: nothing is done twice, and whoever gave them is told where that can be."""
    if left := await desk.store.read(lambda tx: tx.list_inputs(COMMAND_STATE)):
        await desk.store.write(lambda tx: [_settle(tx, desk, row) for row in left])


async def report_if_interrupted(desk: Services, row: InboxRow) -> None:
    """The same for one command that came again, and that nobody is at any more."""

    def work(tx: Tx) -> None:
        left = tx.get_input(row.id)
        if left and left.state == COMMAND_STATE:
            _settle(tx, desk, left)

    await desk.store.write(work)


def _settle(tx: Tx, desk: Services, row: InboxRow) -> None:
    tx.set_input_state(row.id, DONE_STATE)
    if session := tx.get_session(row.session):
        told = INTERRUPTED.format(text=row.body)
        tx.post_delivery(
            _reply_row(
                row, session, told, desk.clock.now(), get_initial_state(session.channel, REPLY_KIND)
            )
        )


def _reply_row(
    row: InboxRow, session: SessionRow, text: str, at: datetime, state: str
) -> OutboxRow:
    return OutboxRow(
        row.turn, -1, session.id, session.channel, session.chat, REPLY_KIND, text, at, state=state
    )
