"""What the journal tells, whoever works on it: for commands that only look."""

from dataclasses import dataclass

from daemon.core.rows import InboxRow, TurnRow
from daemon.door.base import Delivery, RunLine, RunView, SessionView
from daemon.door.loops import LoopReading
from daemon.door.views import delivery, queued_line, queued_view, run_line, run_view, session_view, transcript_line
from daemon.people.feedback import reactions_to
from daemon.store.protocol import ReadTx, Store


@dataclass(frozen=True, slots=True)
class Reading:
    """The half of a door that only looks."""

    store: Store

    def loops(self) -> LoopReading:
        """Loops, to look at."""
        return LoopReading(self.store)

    async def run(self, turn: str) -> RunView | None:
        """The run as it is now."""

        def look(tx: ReadTx) -> RunView | None:
            if row := tx.turn(turn):
                return run_view(row, tx.events(turn), reactions_to(tx, turn))
            queued = tx.input_of(turn)
            return queued_view(queued, tx.child(turn)) if queued else None

        return await self.store.read(look)

    async def transcript(self, turn: str) -> list[dict[str, object]]:
        """The events as they are in the journal."""
        return [transcript_line(entry) for entry in await self.store.read(lambda tx: tx.events(turn))]

    async def runs(self, session: str | None = None, limit: int = 50) -> list[RunLine]:
        """Queued ones first, then what has begun, newest first."""

        def look(tx: ReadTx) -> tuple[list[InboxRow], list[TurnRow]]:
            names = [session] if session else tx.unfinished_sessions()
            queued = [row for name in names for row in tx.waiting_inputs(name) if not row.steers]
            return queued, tx.turns(session, limit)

        queued, begun = await self.store.read(look)
        known = {row.id for row in begun}
        lines = [queued_line(row) for row in reversed(queued) if row.turn not in known]
        return [*lines, *(run_line(row) for row in begun)][:limit]

    async def unfinished(self, session: str) -> list[str]:
        """Begun ones, then queued ones, oldest first."""

        def look(tx: ReadTx) -> list[str]:
            begun = [row.id for row in tx.unfinished_turns(session)]
            return begun + [row.turn for row in tx.waiting_inputs(session) if not row.steers and row.turn not in begun]

        return await self.store.read(look)

    async def sessions(self) -> list[SessionView]:
        """All sessions, newest first."""
        return [session_view(row) for row in await self.store.read(lambda tx: tx.sessions())]

    async def undelivered(self, session: str) -> list[Delivery]:
        """What was said and not yet marked as delivered."""
        rows = await self.store.read(lambda tx: tx.outbox("new", None, session))
        return [delivery(row) for row in rows]
