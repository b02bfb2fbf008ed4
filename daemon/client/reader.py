"""The reader of a journal that no daemon uses."""

import asyncio

from channels.markup.sanitize import shorten_line
from daemon.client.loop_view import LoopView
from daemon.client.protocol import MESSAGES_PAGE, SESSIONS_PAGE, RunReader
from daemon.client.run_tree import build_tree
from daemon.client.view_types import (
    MessageView,
    RunLine,
    RunView,
    SaidView,
    SessionView,
    UndeliveredText,
)
from daemon.client.views import RunBundle, build_view, loop_view, queued_view, run_view
from daemon.core import value
from daemon.core.messages import MAIL
from daemon.core.rows import InboxRow, LoopRow, SessionRow, TurnRow
from daemon.store.journal import Store, Tx
from daemon.store.transcript import transcript_line

MAX_LOOPS = 20
WORDS_CHARS = 200


def _first_words(row: InboxRow | None) -> str:
    return shorten_line(row.body, WORDS_CHARS) if row else ""


def _session_view(tx: Tx, row: SessionRow) -> SessionView:
    latest = tx.list_turns(row.id, 1)
    turns, usd = tx.sum_turns(row.id)
    return build_view(
        SessionView,
        row,
        turns=turns,
        usd=usd,
        used=latest[0].started_at.isoformat() if latest else None,
        text=_first_words(tx.get_turn_input(latest[0].id)) if latest else "",
    )


def _message_view(tx: Tx, row: TurnRow) -> MessageView:
    said = [SaidView(one.sender, one.text, one.label) for one in tx.list_said(row.id)]
    return build_view(
        MessageView, row, turn=row.id, at=row.started_at.isoformat(), said=said, parent=row.parent
    )


def _list_loops(tx: Tx, agent: str | None) -> list[LoopRow]:
    """All at work, however old, and the newest others."""
    newest = tx.list_loops(agent, MAX_LOOPS)
    known = {row.id for row in newest}
    older = [row for row in tx.list_running_loops(agent) if row.id not in known]
    return [*newest, *reversed(older)]


@value
class JournalReader(RunReader):
    """The part of `DaemonClient` that only reads."""

    store: Store

    async def get_run(self, turn: str) -> RunView | None:
        def read(tx: Tx) -> RunView | None:
            if row := tx.get_turn(turn):
                beside = tx.list_reactions(turn), tx.list_turn_outbox(turn)
                return run_view(row, tx.list_events(turn), *beside, tx.sum_tree(turn))
            queued = tx.get_turn_input(turn)
            return queued_view(queued, tx.get_child(turn)) if queued else None

        return await self.store.read(read)

    async def get_transcript(
        self, turn: str, after: int = 0, limit: int = 0
    ) -> list[dict[str, object]]:
        found = await self.store.read(lambda tx: tx.list_events(turn, after))
        return [transcript_line(item) for item in (found[:limit] if limit else found)]

    async def get_tree(self, turn: str) -> dict[str, object]:
        run, transcript = await self.get_run(turn), await self.get_transcript(turn)
        if run is None:
            return {}
        bundle = RunBundle(run, transcript)
        return await asyncio.to_thread(lambda: build_tree(bundle).to_json())

    async def list_runs(
        self,
        session: str | None = None,
        limit: int = 50,
        prefix: str = "",
        agent: str = "",
        state: str = "",
        after: str = "",
    ) -> list[RunLine]:
        def read(tx: Tx) -> list[RunLine]:
            chosen = {"session": session, "agent": agent, "state": state}
            turns = tx.list_all_turns(limit, prefix=prefix, after=after, **chosen)
            begun = {
                row.id: build_view(
                    RunLine,
                    row,
                    turn=row.id,
                    parent=row.parent or None,
                    text=_first_words(tx.get_turn_input(row.id)),
                    usd=tx.sum_tree(row.id).usd,
                )
                for row in turns
            }
            sessions = [session] if session else tx.list_unfinished_sessions()
            if after or agent or state not in ("", "queued"):
                sessions = []  # what waits is at the head of the list, and has no agent yet
            waiting = [row for name in sessions for row in tx.list_waiting_inputs(name)]
            queued = [
                build_view(RunLine, queued_view(row), text=_first_words(row), usd=0.0)
                for row in reversed(waiting)
                if not row.steers and row.turn not in begun and row.turn.startswith(prefix)
            ]
            return [*queued, *begun.values()][:limit]

        return await self.store.read(read)

    async def list_messages(
        self, session: str, limit: int = MESSAGES_PAGE, after: str = ""
    ) -> list[MessageView]:
        def read(tx: Tx) -> list[MessageView]:
            waiting = [] if after else reversed(tx.list_waiting_inputs(session))
            begun = tx.list_all_turns(limit, session=session, after=after)
            known = {row.id for row in begun}
            queued = [
                MessageView(
                    row.turn,
                    row.received_at.isoformat(),
                    "queued",
                    row.label,
                    said=[SaidView(row.sender, row.body, row.label)],
                )
                for row in waiting
                if not row.steers and row.turn not in known
            ]
            return [*queued, *(_message_view(tx, row) for row in begun)][:limit]

        return await self.store.read(read)

    async def list_unfinished(self, session: str) -> list[str]:
        def read(tx: Tx) -> list[str]:
            turns = dict.fromkeys(row.id for row in tx.list_unfinished_turns(session))
            waiting = tx.list_waiting_inputs(session)
            return list(turns | dict.fromkeys(row.turn for row in waiting if not row.steers))

        return await self.store.read(read)

    async def get_session(self, session: str) -> SessionView | None:
        def read(tx: Tx) -> SessionView | None:
            row = tx.get_session(session)
            return _session_view(tx, row) if row else None

        return await self.store.read(read)

    async def list_sessions(self, limit: int = SESSIONS_PAGE, after: str = "") -> list[SessionView]:
        return await self.store.read(
            lambda tx: [_session_view(tx, row) for row in tx.list_sessions(limit, after or None)]
        )

    async def list_undelivered(self, session: str) -> list[UndeliveredText]:
        rows = await self.store.read(lambda tx: tx.list_outbox("new", None, session))
        return [build_view(UndeliveredText, row) for row in rows if row.kind != MAIL]

    async def list_loops(self, agent: str | None = None) -> list[LoopView]:
        return await self.store.read(
            lambda tx: [loop_view(tx, row) for row in _list_loops(tx, agent)]
        )
