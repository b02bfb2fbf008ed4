"""Stop, pause and configure sessions, with all that works for them (D5, E7, A17)."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from daemon.agent.spec.registry import AgentRegistry
from daemon.core import value
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import SessionRow
from daemon.loops.engine import LoopEngine
from daemon.sessions.manager import SessionManager
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
STOPPED_BY_OTHER = "{why}, requested by somebody else"
StopTargets = tuple[list[tuple[SessionRow, str, str]], list[str]]
"""Session, turn and reason of each to stop, and the turns to report."""


@value
class SessionService:
    """For every channel and client."""

    store: Store
    sessions: SessionManager
    loops: LoopEngine
    specs: AgentRegistry

    async def stop_session(self, session: SessionRow, why: str, by: str = "") -> list[str]:
        """Stop what runs, waits for an answer or is queued, loops and texts on their way into a
        turn too; returns the turns. `by`: who asked; who began a turn of somebody else's is told
        about it with the turn.
        """

        def find(tx: Tx) -> StopTargets:
            waiting = tx.list_waiting_inputs(session.id)
            turns = [turn.id for turn in tx.list_unfinished_turns(session.id)]
            turns = list(dict.fromkeys(turns + [row.turn for row in waiting if not row.steers]))
            targets = []
            for turn in [row.turn for row in waiting if row.steers] + turns:
                first = tx.get_turn_input(turn) if by else None
                is_other = first and first.sender != by
                reason = STOPPED_BY_OTHER.format(why=why) if is_other else why
                targets.append((session, turn, reason))
            below = list_descendants(tx, session.id)
            targets += [(row, turn, why) for row, turn in below]
            return targets, turns or [turn for _, turn in below]

        return await self.loops.stop_loops_of(session.id, why) + await self._stop(find)

    async def stop_turn(self, session: SessionRow, turn_id: str, why: str) -> bool:
        """Stop one turn, wherever it is; False when it has ended."""

        def find(tx: Tx) -> StopTargets:
            turn = tx.get_turn(turn_id)
            is_over = turn and turn.ended_at
            return ([], []) if is_over else ([(session, turn_id, why)], [turn_id])

        return bool(await self._stop(find))

    async def _stop(self, find: Callable[[Tx], StopTargets]) -> list[str]:
        """First in the journal, so that a restart does not undo it. A full disk does not delay a
        stop.
        """

        def request(tx: Tx) -> StopTargets:
            found = find(tx)
            for _, turn, reason in found[0]:
                tx.request_cancel(turn, reason)
                tx.void_approvals(turn)
            return found

        try:
            targets, turns = await self.store.write(request)
        except StoreUnavailable as error:
            targets, turns = await self.store.read(find)
            log.error("%s: stopped, but a restart may undo it: %s", ", ".join(turns), error)
        for target in targets:
            self.sessions.cancel(*target)
        return turns

    async def edit(self, session: SessionRow, **changes: Any) -> None:
        """Edit the settings in one write: of two edits at once both hold. Its sub-agents are paused
        and resumed with it (A17).
        """

        def work(tx: Tx) -> list[SessionRow]:
            below = list_descendants(tx, session.id) if "paused" in changes else []
            rows = [tx.get_session(session.id) or session, *(row for row, _ in below)]
            rows = [replace(row, **changes) for row in rows]
            for row in rows:
                tx.put_session(row)
            return rows

        for row in await self.store.write(work):
            self.sessions.update_session(row)

    async def choose_agent(self, session: SessionRow, name: str) -> list[str]:
        """It answers from the next message on; returns warnings about it. Raises ConfigError:
        nothing has changed.
        """
        warnings = self.specs.warnings_of(name)
        await self.edit(session, agent=name)
        return warnings


def list_descendants(tx: Tx, session: str) -> list[tuple[SessionRow, str]]:
    """The running sub-agents of this session and of those."""
    found = []
    for child in tx.list_running_children(session):
        if row := tx.get_session(child.session):
            found += [(row, child.turn), *list_descendants(tx, row.id)]
    return found
