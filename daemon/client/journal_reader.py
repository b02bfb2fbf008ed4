"""What the journal tells, whoever works on it: for commands that only look."""


from daemon.access.feedback import list_reactions
from daemon.client.protocol import LoopReader, RunLine, RunView, SessionView, UndeliveredText
from daemon.client.views import (
    delivery_view,
    queued_line,
    queued_view,
    run_line,
    run_view,
    session_view,
    transcript_line,
)
from daemon.core import value
from daemon.core.journal import ReadTx, Store
from daemon.core.rows import InboxRow, TurnRow


@value
class JournalReader:
    """The half of a door that only looks."""

    store: Store

    def loops(self) -> LoopReader:
        """Loops, to look at."""
        return LoopReader(self.store)

    async def get_run(self, turn: str) -> RunView | None:
        """The run as it is now."""

        def look(tx: ReadTx) -> RunView | None:
            if row := tx.get_turn(turn):
                return run_view(row, tx.list_events(turn), list_reactions(tx, turn))
            queued = tx.get_turn_input(turn)
            return queued_view(queued, tx.get_child(turn)) if queued else None

        return await self.store.read(look)

    async def get_transcript(self, turn: str) -> list[dict[str, object]]:
        """The events as they are in the journal."""
        return [
            transcript_line(entry)
            for entry in await self.store.read(lambda tx: tx.list_events(turn))
        ]

    async def list_runs(self, session: str | None = None, limit: int = 50) -> list[RunLine]:
        """Queued ones first, then what has begun, newest first."""

        def look(tx: ReadTx) -> tuple[list[InboxRow], list[TurnRow]]:
            names = [session] if session else tx.list_unfinished_sessions()
            queued = [
                row for name in names for row in tx.list_waiting_inputs(name) if not row.steers
            ]
            return queued, tx.list_turns(session, limit)

        queued, begun = await self.store.read(look)
        known = {row.id for row in begun}
        lines = [queued_line(row) for row in reversed(queued) if row.turn not in known]
        return [*lines, *(run_line(row) for row in begun)][:limit]

    async def list_unfinished(self, session: str) -> list[str]:
        """Begun ones, then queued ones, oldest first."""

        def look(tx: ReadTx) -> list[str]:
            begun = [row.id for row in tx.list_unfinished_turns(session)]
            return begun + [
                row.turn
                for row in tx.list_waiting_inputs(session)
                if not row.steers and row.turn not in begun
            ]

        return await self.store.read(look)

    async def list_sessions(self) -> list[SessionView]:
        """All sessions, newest first."""
        return [session_view(row) for row in await self.store.read(lambda tx: tx.list_sessions())]

    async def list_undelivered(self, session: str) -> list[UndeliveredText]:
        """What was said and not yet marked as delivered."""
        rows = await self.store.read(lambda tx: tx.list_outbox("new", None, session))
        return [delivery_view(row) for row in rows]
