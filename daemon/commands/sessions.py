"""/stop /cancel /pause /resume /clear: who runs, who waits, what is forgotten (D5, E7).

/loop: one agent at one task until it is done; asked and told in this chat (C1, C6).
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from daemon.agent.final_messages import BY_STOP
from daemon.commands.registry import Command, CommandCall, Services
from daemon.core import value
from daemon.core.errors import ConfigError, StoreUnavailable, UsageError
from daemon.core.journal import ReadTx, Tx
from daemon.core.rows import LoopOrder, LoopRow, LoopStage, SessionRow
from daemon.loops.config import LoopNotStarted

log = logging.getLogger(__name__)
STOPPED_BY_OTHER = "{why}, which somebody else said"


@value
class StopTargets:
    """Turns that are stopped, texts that were on their way into them (by the turns they would begin), agents below them.
    `of_others`: those of them that whoever stops them did not ask for; who did is told of it with the turn.
    """

    turns: list[str]
    texts: Sequence[str] = ()
    below: Sequence[tuple[SessionRow, str]] = ()
    of_others: Collection[str] = ()

    def reason(self, turn: str, why: str) -> str:
        """Why this one was stopped."""
        return STOPPED_BY_OTHER.format(why=why) if turn in self.of_others else why


async def stop_session(desk: Services, session: SessionRow, why: str, by: str = "") -> list[str]:
    """Stop everything of a session: what runs, what waits for an answer, what is queued. Gives the turns. `by`: whose word it
    was, where that matters.

    A text that was on its way into one of them stops with it: it must not begin a turn of its own now. Loops that it started
    end, by the turns of their attempts.
    """
    attempts = await desk.loops.stop_loops_of(session.id, why)

    def look(tx: ReadTx) -> StopTargets:
        begun, waiting = tx.list_unfinished_turns(session.id), tx.list_waiting_inputs(session.id)
        turns = list(
            dict.fromkeys(
                [turn.id for turn in begun] + [row.turn for row in waiting if not row.steers]
            )
        )
        texts = [row.turn for row in waiting if row.steers]
        asked = [row for turn in (*turns, *texts) if by and (row := tx.get_turn_input(turn))]
        return StopTargets(
            turns,
            texts,
            list_descendants(tx, session.id),
            [row.turn for row in asked if row.sender != by],
        )

    return attempts + await stop_turns(desk, session, look, why)


async def stop_turns(
    desk: Services, session: SessionRow, look: Callable[[ReadTx], StopTargets], why: str
) -> list[str]:
    """Stop what `look` finds: first in the journal, so that a restart does not undo it. A full disk holds up no stop."""

    def note(tx: Tx) -> StopTargets:
        found = look(tx)
        for turn in (*found.texts, *found.turns, *(child for _, child in found.below)):
            tx.request_cancel(turn, found.reason(turn, why))
        return found

    try:
        found = await desk.store.write(note)
    except StoreUnavailable as exc:
        found = await desk.store.read(look)
        log.error(
            "%s: %d tasks are stopped, but a restart may undo it: %s",
            session.id,
            len(found.turns),
            exc,
        )
    for turn in (*found.texts, *found.turns):
        desk.sessions.cancel(session, turn, found.reason(turn, why))
    for where, turn in found.below:
        desk.sessions.cancel(where, turn, why)
    return found.turns or [turn for _, turn in found.below]


def list_descendants(tx: ReadTx, session: str) -> list[tuple[SessionRow, str]]:
    """The agents at work for this session, those of theirs included: whoever stops a chat stops them, too (A17)."""
    found: list[tuple[SessionRow, str]] = []
    for child in tx.list_running_children(session):
        where = tx.get_session(child.session)
        found += [(where, child.turn)] if where else []
        found += list_descendants(tx, child.session)
    return found


async def run_stop(desk: Services, spoken: CommandCall) -> str:
    """Through a running model call and a running tool, within a second."""
    turns = await stop_session(desk, spoken.session, BY_STOP, spoken.sender)
    return (
        f"Stopping {len(turns)} {'task' if len(turns) == 1 else 'tasks'}."
        if turns
        else "Nothing is running here."
    )


async def run_cancel(desk: Services, spoken: CommandCall) -> str:
    """One turn, by its id; without one it is /stop."""
    if not spoken.argument:
        return await run_stop(desk, spoken)

    def look(tx: ReadTx) -> StopTargets:
        return StopTargets(
            [
                turn.id
                for turn in tx.list_unfinished_turns(spoken.session.id)
                if turn.id == spoken.argument
            ]
        )

    if not await stop_turns(desk, spoken.session, look, "stopped by /cancel"):
        return f"No task {spoken.argument} is running here. /tasks lists them."
    return f"Stopping {spoken.argument}."


async def run_pause(desk: Services, spoken: CommandCall) -> str:
    """Hold before the next step."""
    await _set_paused(desk, spoken.session, paused=True)
    return "Paused. What runs holds before its next step; new messages are kept. /resume goes on."


async def run_resume(desk: Services, spoken: CommandCall) -> str:
    """Go on."""
    await _set_paused(desk, spoken.session, paused=False)
    return "Going on."


async def _set_paused(desk: Services, session: SessionRow, *, paused: bool) -> None:
    """The agents at work for it hold, and go on, with it (A17)."""

    def work(tx: Tx) -> list[SessionRow]:
        rows = [
            tx.get_session(session.id) or session,
            *(row for row, _ in list_descendants(tx, session.id)),
        ]
        edited = [replace(row, paused=paused) for row in rows]
        for row in edited:
            tx.put_session(row)
        return edited

    for row in await desk.store.write(work):
        desk.sessions.update_session(row)


async def run_clear(desk: Services, spoken: CommandCall) -> str:
    """The model starts with an empty conversation; the journal keeps everything."""
    now = desk.clock.now()
    await edit_session(desk, spoken.session, lambda row: replace(row, cleared_at=now))
    return "Cleared: I start afresh. What you asked me to remember stays, and the journal keeps everything."


async def edit_session(
    desk: Services, session: SessionRow, edit: Callable[[SessionRow], SessionRow]
) -> None:
    """Edit the session's settings as they stand now, in one write, then let its lane know: two commands at once both hold."""

    def work(tx: Tx) -> SessionRow:
        edited = edit(tx.get_session(session.id) or session)
        tx.put_session(edited)
        return edited

    desk.sessions.update_session(await desk.store.write(work))


COMMANDS = (
    Command("stop", "stop what runs, waits or is queued in this chat", run_stop),
    Command("cancel", "stop one task: /cancel ID", run_cancel),
    Command("pause", "hold before the next step", run_pause),
    Command("resume", "go on after /pause", run_resume),
    Command("clear", "start with an empty conversation", run_clear),
)


LOOP_USAGE = (
    "Say /loop start MESSAGE, /loop stop, /loop pause, /loop resume, or /loop for how it stands."
)
LOOP_STOP_REASON = "stopped by /loop stop"


async def run_loop(desk: Services, spoken: CommandCall) -> str:
    """What the first word says; without one, how this chat's latest loop stands."""
    verb, _, rest = spoken.argument.partition(" ")
    if verb == "start":
        return await _start_loop(desk, spoken, rest.strip())
    latest = await _latest_loop(desk, spoken)
    if latest is None:
        return f"There is no loop here. {LOOP_USAGE}"
    match verb:
        case "" | "status":
            return _loop_line(latest)
        case "stop":
            done = await desk.loops.stop(latest.id, LOOP_STOP_REASON)
        case "pause":
            done = await desk.loops.pause(latest.id)
        case "resume":
            done = await desk.loops.resume(latest.id)
        case _:
            return LOOP_USAGE
    return _loop_line(done) if done else f"Nothing to {verb}. {_loop_line(latest)}"


async def _start_loop(desk: Services, spoken: CommandCall, message: str) -> str:
    """With the settings of the agent that answers in this chat, and no others: its owner wrote them."""
    if not message:
        return LOOP_USAGE
    order = LoopOrder(
        spoken.session.agent, message, spoken.session.id, spoken.sender, role=spoken.role.value
    )
    try:
        begun = await desk.loops.start(order)
    except (ConfigError, UsageError, LoopNotStarted) as error:
        return str(error)
    return f"Loop {begun.id} has begun: at most {begun.max_iterations} attempts. I will tell you of each; /loop stop ends it."


async def _latest_loop(desk: Services, spoken: CommandCall) -> LoopRow | None:
    """The chat's own: one that is at work rather than one that has ended."""
    rows = await desk.store.read(lambda tx: tx.list_loops())
    own = [row for row in rows if row.root == spoken.session.id]
    return next((row for row in own if not row.is_over), own[0] if own else None)


def _loop_line(row: LoopRow) -> str:
    head = f"Loop {row.id} of {row.agent}: {row.stage.value}, attempt {row.attempt} of {row.max_iterations}."
    log = [f"{number}. {line}" for number, line in enumerate(row.learned, 1)]
    tail = {LoopStage.FAILED: row.error, LoopStage.REVIEWING: "Say /approve or /deny."}.get(
        row.stage, ""
    )
    return "\n".join(part for part in (head, *log, tail) if part)


LOOP_COMMANDS = (
    Command(
        "loop",
        "one task again and again until it is done: /loop start MESSAGE, stop, pause, resume",
        run_loop,
    ),
)
