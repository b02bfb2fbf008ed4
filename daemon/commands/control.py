"""/stop /cancel /pause /resume /clear: who runs, who waits, what is forgotten (D5, E7)."""

from collections.abc import Callable
from dataclasses import replace

from daemon.commands.base import Command, Desk, Spoken
from daemon.core.rows import SessionRow
from daemon.store.protocol import ReadTx, Tx


async def stop_session(desk: Desk, session: SessionRow, why: str) -> list[str]:
    """Stop everything of a session: what runs, what waits for an answer, what is queued. Gives the turns.

    A text that was on its way into one of them stops with it: it must not begin a turn of its own now.
    """

    def look(tx: ReadTx) -> tuple[list[str], list[str]]:
        begun, waiting = tx.unfinished_turns(session.id), tx.waiting_inputs(session.id)
        turns = [turn.id for turn in begun] + [row.turn for row in waiting if not row.steers]
        return list(dict.fromkeys(turns)), [row.turn for row in waiting if row.steers]

    turns, steering = await desk.store.read(look)
    for turn in (*steering, *turns):
        desk.sessions.cancel(session, turn, why)
    return turns


async def stop(desk: Desk, spoken: Spoken) -> str:
    """Through a running model call and a running tool, within a second."""
    turns = await stop_session(desk, spoken.session, "stopped by /stop")
    return f"Stopping {len(turns)} {'task' if len(turns) == 1 else 'tasks'}." if turns else "Nothing is running here."


async def cancel(desk: Desk, spoken: Spoken) -> str:
    """One turn, by its id; without one it is /stop."""
    if not spoken.argument:
        return await stop(desk, spoken)
    turn = await desk.store.read(lambda tx: tx.turn(spoken.argument))
    if turn is None or turn.session != spoken.session.id or turn.state not in ("running", "suspended"):
        return f"No task {spoken.argument} is running here. /tasks lists them."
    desk.sessions.cancel(spoken.session, turn.id, "stopped by /cancel")
    return f"Stopping {turn.id}."


async def pause(desk: Desk, spoken: Spoken) -> str:
    """Hold before the next step."""
    await change(desk, spoken.session, lambda row: replace(row, paused=True))
    return "Paused. What runs holds before its next step; new messages are kept. /resume goes on."


async def resume(desk: Desk, spoken: Spoken) -> str:
    """Go on."""
    await change(desk, spoken.session, lambda row: replace(row, paused=False))
    return "Going on."


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
