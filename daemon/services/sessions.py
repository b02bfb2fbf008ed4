"""Stop, pause and configure sessions, with all that works for them (D5, E7, A17)."""

import logging
from collections.abc import Callable
from dataclasses import replace

from daemon.agent.spec.registry import AgentRegistry
from daemon.core import value
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import SessionRow
from daemon.loops.engine import LoopEngine
from daemon.sessions.manager import SessionManager
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
STOPPED_BY_OTHER = "{why}, requested by somebody else"


@value
class StopTargets:
    """`turns`: to be stopped, queued ones too; `texts`: those that texts on their way into them
    would begin; `below`: sub-agents of theirs; `of_others`: those of them that somebody else
    asked for, who is then told about it with the turn.
    """

    turns: list[str]
    texts: list[str]
    below: list[tuple[SessionRow, str]]
    of_others: list[str]


@value
class SessionService:
    """For every channel and client."""

    store: Store
    sessions: SessionManager
    loops: LoopEngine
    specs: AgentRegistry

    async def stop_session(self, session: SessionRow, why: str, by: str = "") -> list[str]:
        """Stop what runs, waits for an answer or is queued, loops too; returns the turns. `by`:
        who asked, where it matters.
        """

        def find(tx: Tx) -> StopTargets:
            waiting = tx.list_waiting_inputs(session.id)
            running = [turn.id for turn in tx.list_unfinished_turns(session.id)]
            turns = list(
                dict.fromkeys([*running, *(row.turn for row in waiting if not row.steers)])
            )
            texts = [row.turn for row in waiting if row.steers]
            inputs = [row for turn in (*turns, *texts) if by and (row := tx.get_turn_input(turn))]
            return StopTargets(
                turns,
                texts,
                list_descendants(tx, session.id),
                [row.turn for row in inputs if row.sender != by],
            )

        return await self.loops.stop_loops_of(session.id, why) + await self._stop(
            session, find, why
        )

    async def stop_turn(self, session: SessionRow, turn_id: str, why: str) -> bool:
        """Stop one turn, wherever it is; False when it has ended."""

        def find(tx: Tx) -> StopTargets:
            turn = tx.get_turn(turn_id)
            return StopTargets([] if turn and turn.ended_at else [turn_id], [], [], [])

        return bool(await self._stop(session, find, why))

    async def _stop(
        self, session: SessionRow, find: Callable[[Tx], StopTargets], why: str
    ) -> list[str]:
        """First in the journal, so that a restart does not undo it. A full disk does not delay a
        stop.
        """

        def request(tx: Tx) -> StopTargets:
            found = find(tx)
            for turn in (*found.texts, *found.turns, *(child for _, child in found.below)):
                tx.request_cancel(turn, reason(turn, found))
            return found

        def reason(turn: str, found: StopTargets) -> str:
            return STOPPED_BY_OTHER.format(why=why) if turn in found.of_others else why

        try:
            found = await self.store.write(request)
        except StoreUnavailable as error:
            found = await self.store.read(find)
            log.error(
                "%s: %d tasks are stopped, but a restart may undo it: %s",
                session.id,
                len(found.turns),
                error,
            )
        for turn in (*found.texts, *found.turns):
            self.sessions.cancel(session, turn, reason(turn, found))
        for row, turn in found.below:
            self.sessions.cancel(row, turn, why)
        return found.turns or [turn for _, turn in found.below]

    async def set_paused(self, session: SessionRow, *, paused: bool) -> None:
        """Its sub-agents hold and continue with it (A17)."""

        def work(tx: Tx) -> list[SessionRow]:
            rows = [
                tx.get_session(session.id) or session,
                *(row for row, _ in list_descendants(tx, session.id)),
            ]
            return [_put(tx, replace(row, paused=paused)) for row in rows]

        for row in await self.store.write(work):
            self.sessions.update_session(row)

    async def edit(self, session: SessionRow, edit: Callable[[SessionRow], SessionRow]) -> None:
        """Edit the settings in one write: of two edits at once both hold."""
        row = await self.store.write(
            lambda tx: _put(tx, edit(tx.get_session(session.id) or session))
        )
        self.sessions.update_session(row)

    async def choose_agent(self, session: SessionRow, name: str) -> list[str]:
        """It answers from the next message on; returns warnings about it. Raises ConfigError:
        nothing has changed.
        """
        warnings = self.specs.warnings_of(name)
        await self.edit(session, lambda row: replace(row, agent=name))
        return warnings


def list_descendants(tx: Tx, session: str) -> list[tuple[SessionRow, str]]:
    """The running sub-agents of this session and of those."""
    children = [
        (row, child.turn)
        for child in tx.list_running_children(session)
        if (row := tx.get_session(child.session))
    ]
    return [
        found for row, turn in children for found in ((row, turn), *list_descendants(tx, row.id))
    ]


def _put(tx: Tx, row: SessionRow) -> SessionRow:
    tx.put_session(row)
    return row
