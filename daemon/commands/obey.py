"""A command from beginning to end: it stands in the journal as ordered before it is carried out, and as done with its reply."""

from datetime import datetime

from daemon.commands import table
from daemon.commands.base import Desk, Spoken
from daemon.core.rows import InboxRow, OutboxRow, SessionRow
from daemon.intake import ORDERED
from daemon.store.project import birth_state
from daemon.store.protocol import Tx

DONE, KIND = "command", "command"
UNHEARD = "This command came before, and I cannot tell whether it was carried out. Look, and give it again if need be."
CUT_OFF = "I was restarted while I carried out {text!r} and cannot tell whether it was done. Look, and give it again if need be."


async def obey(desk: Desk, row: InboxRow, spoken: Spoken, *, shown: bool) -> str:
    """Carry it out; the reply. `shown` says that the caller shows it, else it is delivered to the conversation."""
    reply, at = await table.run(desk, spoken), desk.clock.now()

    def work(tx: Tx) -> None:
        tx.settle_input(row.id, DONE)
        tx.post(_said(row, spoken.session, reply, at, "sent" if shown else "new"))

    await desk.store.write(work)
    return reply


async def said_before(desk: Desk, row: InboxRow) -> str:
    """What the same command was answered when it came first."""
    rows = await desk.store.read(lambda tx: tx.outbox_of(row.turn))
    return next((said.body for said in rows if said.kind == KIND), UNHEARD)


async def left_over(desk: Desk) -> None:
    """Commands that a crash cut off: nothing is done twice, and whoever gave them is told where that can be."""
    if left := await desk.store.read(lambda tx: tx.inputs_in(ORDERED)):
        await desk.store.write(lambda tx: [_settle(tx, desk, row) for row in left])


async def cut_off(desk: Desk, row: InboxRow) -> None:
    """The same for one command that came again, and that nobody is at any more."""

    def work(tx: Tx) -> None:
        left = tx.input(row.id)
        if left and left.state == ORDERED:
            _settle(tx, desk, left)

    await desk.store.write(work)


def _settle(tx: Tx, desk: Desk, row: InboxRow) -> None:
    tx.settle_input(row.id, DONE)
    if session := tx.session(row.session):
        told = CUT_OFF.format(text=row.body)
        tx.post(_said(row, session, told, desk.clock.now(), birth_state(session.channel, KIND)))


def _said(row: InboxRow, session: SessionRow, text: str, at: datetime, state: str) -> OutboxRow:
    return OutboxRow(row.turn, -1, session.id, session.channel, session.chat, KIND, text, at, state=state)
