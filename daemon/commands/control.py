"""/stop /cancel /pause /resume /clear: who runs, who waits, what is forgotten (D5, E7)."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from daemon.agent.closing import BY_STOP
from daemon.commands.base import Command, Desk, Spoken
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import SessionRow
from daemon.store.protocol import ReadTx, Tx

log = logging.getLogger(__name__)
OF_OTHERS = "{why}, which somebody else said"


@dataclass(frozen=True, slots=True)
class Stopped:
    """Turns that are stopped, texts that were on their way into them (by the turns they would begin), agents below them.
    `of_others`: those of them that whoever stops them did not ask for; who did is told of it with the turn.
    """

    turns: list[str]
    texts: Sequence[str] = ()
    below: Sequence[tuple[SessionRow, str]] = ()
    of_others: Collection[str] = ()

    def reason(self, turn: str, why: str) -> str:
        """Why this one was stopped."""
        return OF_OTHERS.format(why=why) if turn in self.of_others else why


async def stop_session(desk: Desk, session: SessionRow, why: str, by: str = "") -> list[str]:
    """Stop everything of a session: what runs, what waits for an answer, what is queued. Gives the turns. `by`: whose word it
    was, where that matters.

    A text that was on its way into one of them stops with it: it must not begin a turn of its own now. Loops that it started
    end, by the turns of their attempts.
    """
    attempts = await desk.loops.stop_of(session.id, why)

    def look(tx: ReadTx) -> Stopped:
        begun, waiting = tx.unfinished_turns(session.id), tx.waiting_inputs(session.id)
        turns = list(dict.fromkeys([turn.id for turn in begun] + [row.turn for row in waiting if not row.steers]))
        texts = [row.turn for row in waiting if row.steers]
        asked = [row for turn in (*turns, *texts) if by and (row := tx.input_of(turn))]
        return Stopped(turns, texts, below(tx, session.id), [row.turn for row in asked if row.sender != by])

    return attempts + await stop_turns(desk, session, look, why)


async def stop_turns(desk: Desk, session: SessionRow, look: Callable[[ReadTx], Stopped], why: str) -> list[str]:
    """Stop what `look` finds: first in the journal, so that a restart does not undo it. A full disk holds up no stop."""

    def note(tx: Tx) -> Stopped:
        found = look(tx)
        for turn in (*found.texts, *found.turns, *(child for _, child in found.below)):
            tx.note_cancel(turn, found.reason(turn, why))
        return found

    try:
        found = await desk.store.write(note)
    except StoreUnavailable as exc:
        found = await desk.store.read(look)
        log.error("%s: %d tasks are stopped, but a restart may undo it: %s", session.id, len(found.turns), exc)
    for turn in (*found.texts, *found.turns):
        desk.sessions.cancel(session, turn, found.reason(turn, why))
    for where, turn in found.below:
        desk.sessions.cancel(where, turn, why)
    return found.turns or [turn for _, turn in found.below]


def below(tx: ReadTx, session: str) -> list[tuple[SessionRow, str]]:
    """The agents at work for this session, those of theirs included: whoever stops a chat stops them, too (A17)."""
    found: list[tuple[SessionRow, str]] = []
    for child in tx.busy_children(session):
        where = tx.session(child.session)
        found += [(where, child.turn)] if where else []
        found += below(tx, child.session)
    return found


async def stop(desk: Desk, spoken: Spoken) -> str:
    """Through a running model call and a running tool, within a second."""
    turns = await stop_session(desk, spoken.session, BY_STOP, spoken.sender)
    return f"Stopping {len(turns)} {'task' if len(turns) == 1 else 'tasks'}." if turns else "Nothing is running here."


async def cancel(desk: Desk, spoken: Spoken) -> str:
    """One turn, by its id; without one it is /stop."""
    if not spoken.argument:
        return await stop(desk, spoken)

    def look(tx: ReadTx) -> Stopped:
        return Stopped([turn.id for turn in tx.unfinished_turns(spoken.session.id) if turn.id == spoken.argument])

    if not await stop_turns(desk, spoken.session, look, "stopped by /cancel"):
        return f"No task {spoken.argument} is running here. /tasks lists them."
    return f"Stopping {spoken.argument}."


async def pause(desk: Desk, spoken: Spoken) -> str:
    """Hold before the next step."""
    await _hold(desk, spoken.session, paused=True)
    return "Paused. What runs holds before its next step; new messages are kept. /resume goes on."


async def resume(desk: Desk, spoken: Spoken) -> str:
    """Go on."""
    await _hold(desk, spoken.session, paused=False)
    return "Going on."


async def _hold(desk: Desk, session: SessionRow, *, paused: bool) -> None:
    """The agents at work for it hold, and go on, with it (A17)."""

    def work(tx: Tx) -> list[SessionRow]:
        rows = [tx.session(session.id) or session, *(row for row, _ in below(tx, session.id))]
        edited = [replace(row, paused=paused) for row in rows]
        for row in edited:
            tx.put_session(row)
        return edited

    for row in await desk.store.write(work):
        desk.sessions.changed(row)


async def clear(desk: Desk, spoken: Spoken) -> str:
    """The model starts with an empty conversation; the journal keeps everything."""
    now = desk.clock.now()
    await change(desk, spoken.session, lambda row: replace(row, cleared_at=now))
    return "Cleared: I start afresh. What you asked me to remember stays, and the journal keeps everything."


async def change(desk: Desk, session: SessionRow, edit: Callable[[SessionRow], SessionRow]) -> None:
    """Edit the session's settings as they stand now, in one write, then let its lane know: two commands at once both hold."""

    def work(tx: Tx) -> SessionRow:
        edited = edit(tx.session(session.id) or session)
        tx.put_session(edited)
        return edited

    desk.sessions.changed(await desk.store.write(work))


COMMANDS = (
    Command("stop", "stop what runs, waits or is queued in this chat", stop),
    Command("cancel", "stop one task: /cancel ID", cancel),
    Command("pause", "hold before the next step", pause),
    Command("resume", "go on after /pause", resume),
    Command("clear", "start with an empty conversation", clear),
)
