"""/status /cost /tasks /whoami: what is going on, and what it costs; /stop /cancel /pause /resume
/clear /loop: what runs, what waits, what starts over; /model /models /auto /effort /agent: who
answers this chat, and how hard it thinks (A2, A14, A19, B1, C1, C6, D5, E7, E13).
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from textwrap import indent
from zoneinfo import ZoneInfo

from channels.markup.sanitize import shorten_line
from daemon.agent.budgets import UsageToday, list_uses
from daemon.agent.context.history import load_history, rebuild_turn
from daemon.agent.final_messages import BY_STOP
from daemon.agent.models import ModelRouting
from daemon.commands.registry import CommandCall
from daemon.core import value
from daemon.core.clock import Clock, find_midnight, show_time
from daemon.core.errors import CONFIG_FAULT, ConfigError, StoreUnavailable, UsageError
from daemon.core.messages import FAILURES_SHOWN, describe_failures
from daemon.core.provenance import find_taint
from daemon.core.requests import LoopOrder
from daemon.core.rows import LoopRow, LoopStage, OutboxRow, SessionRow, TurnRow, UsageRow
from daemon.core.trust import OWNER_NAME, Label, Role, Sources, join_sources
from daemon.core.turn import render_plan
from daemon.loops.config import LoopNotEnabled, LoopNotStarted
from daemon.services.sessions import SessionService
from daemon.store.journal import Tx
from daemon.store.tables.sessions import SHOWN_TURNS, is_cleared
from daemon.tools.base import ToolError
from daemon.tools.basic import find_zone

log = logging.getLogger(__name__)

LOOP_USAGE = (
    "Use /loop start MESSAGE, /loop stop, /loop pause, /loop resume, or /loop for its state."
)
WEEK, MAX_TASK, MAX_LISTED = timedelta(days=7), 80, 5
OWNERS_ZONE = "On the machine, aidaemon config set general.timezone Europe/Lisbon sets your zone."
ZONE_USAGE = "/timezone Europe/Lisbon, or a city, sets it; /timezone owner is the owner's."
FAILING = "{}; nothing new is accepted"
EFFORTS = ("low", "medium", "high", "max")


@value
class SessionCommands:
    """Each applies to the chat that it is given in; settings from its next message on. `state`:
    lines about channels and config.
    """

    clock: Clock
    service: SessionService
    routing: ModelRouting
    today: Callable[[], UsageToday]
    state: Callable[[], Awaitable[Sequence[str]]]

    async def stop(self, call: CommandCall) -> str:
        """/stop interrupts a model call or a tool within a second, and names what it overtook."""
        waiting = await self.service.store.read(lambda tx: tx.list_waiting_inputs(call.session.id))
        count = len(await self.service.stop_session(call.session, BY_STOP, call.sender))
        if not count:
            return "Nothing is running here."
        stopping = f"Stopping {count} {'task' if count == 1 else 'tasks'}."
        texts = [row.body or "(a file)" for row in waiting if row.sender == call.sender]
        own = [shorten_line(text, MAX_TASK) for text in texts]
        not_begun = [f"Not begun: {text}" for text in own[:MAX_LISTED]]
        more = [f"and {len(own) - MAX_LISTED} more"] if len(own) > MAX_LISTED else []
        again = ["Send again what you still want."] if own else []
        return "\n".join([stopping, *not_begun, *more, *again])

    async def cancel(self, call: CommandCall) -> str:
        """/cancel [ID]; without an id it is /stop."""
        session, turn = call.session, call.argument
        if not turn:
            return await self.stop(call)
        rows = await self.service.store.read(lambda tx: tx.list_unfinished_turns(session.id))
        is_known = turn in {row.id for row in rows}
        if is_known and await self.service.stop_turn(session, turn, "stopped by /cancel"):
            return f"Stopping {turn}."
        return f"No task {turn} is running here. /tasks lists them."

    async def pause(self, call: CommandCall) -> str:
        """Hold before the next step."""
        await self.service.edit(call.session, paused=True)
        return "Paused before the next step; new messages are kept. /resume continues."

    async def resume(self, call: CommandCall) -> str:
        """Continue after /pause."""
        await self.service.edit(call.session, paused=False)
        return "Resumed."

    async def clear(self, call: CommandCall) -> str:
        """The model starts with an empty conversation; the journal keeps everything."""
        await self.service.edit(call.session, cleared_at=self.clock.now())
        return "Cleared: the next message starts a new conversation. Memories and the journal stay."

    async def loop(self, call: CommandCall) -> str:
        """/loop [start MESSAGE|stop|pause|resume]; without a verb, the state of this chat's latest
        loop.
        """
        verb, _, rest = call.argument.partition(" ")
        if verb == "start":
            return await self._start_loop(call, rest.strip())
        loops = self.service.loops
        rows = await self.service.store.read(lambda tx: tx.list_loops())
        own = [row for row in rows if row.root == call.session.id]
        if not own:
            return f"There is no loop here. {LOOP_USAGE}"
        latest = next((row for row in own if not row.is_over), own[0])
        if verb in ("", "status"):
            return _describe_loop(latest)
        stop = partial(loops.stop, why="stopped by /loop stop")
        act = {"stop": stop, "pause": loops.pause, "resume": loops.resume}.get(verb)
        if act is None:
            return LOOP_USAGE
        done = await act(latest.id)
        return _describe_loop(done) if done else f"Nothing to {verb}. {_describe_loop(latest)}"

    async def _start_loop(self, call: CommandCall, message: str) -> str:
        """With the settings of the chat's agent only: its owner wrote them."""
        if not message:
            return LOOP_USAGE
        agent, session = call.session.agent, call.session.id
        order = LoopOrder(agent, message, session, sender=call.sender, role=call.role.value)
        try:
            loop = await self.service.loops.start(order)
        except (LoopNotEnabled, LoopNotStarted) as error:
            raise UsageError(str(error)) from error
        except ConfigError as error:
            raise UsageError(_explain(error, call)) from error
        return (
            f"Loop {loop.id} has started: at most {loop.max_iterations} attempts, each is"
            " reported here. /loop stop ends it."
        )

    async def model(self, call: CommandCall) -> str:
        """/model [NAME]"""
        name, pinned, names = call.argument, call.session.model, self.routing.list_models()
        if not name:
            return f"Model: {pinned} (pinned; /auto unpins)" if pinned else f"Model: {names[0]}"
        await self.service.edit(call.session, model=name)
        hint = " It is not in the config; the provider will be asked for it."
        return f"Model: {name}.{'' if name in names else hint}"

    async def models(self, call: CommandCall) -> str:
        """/models"""
        names = self.routing.list_models()
        chosen = call.session.model or names[0]
        listed = dict.fromkeys((*names, chosen))
        return "\n".join(f"{'*' if name == chosen else '-'} {name}" for name in listed)

    async def auto(self, call: CommandCall) -> str:
        """/auto"""
        await self.service.edit(call.session, model="")
        return f"Model: {self.routing.list_models()[0]}"

    async def effort(self, call: CommandCall) -> str:
        """/effort LEVEL"""
        if call.argument not in EFFORTS:
            levels, current = "|".join(EFFORTS), call.session.effort or "as configured"
            return f"Effort: {current}. /effort {levels} changes it."
        await self.service.edit(call.session, effort=call.argument)
        return f"Effort: {call.argument}"

    async def agent(self, call: CommandCall) -> str:
        """/agent [NAME]; the chosen one is listed even when its file is gone."""
        chosen = call.session.agent
        if not call.argument:
            names = dict.fromkeys((*self.service.specs.names(), chosen))
            marked = (f"{'*' if name == chosen else '-'} {self._describe(name)}" for name in names)
            return "\n".join(marked)
        try:
            warnings = await self.service.choose_agent(call.session, call.argument)
        except ConfigError as error:
            is_faulty = call.argument in self.service.specs.files()
            return f"Still agent {chosen}: {_explain(error, call) if is_faulty else error}"
        return "\n".join((f"Agent: {call.argument}.", *warnings))

    def _describe(self, name: str) -> str:
        try:
            text = self.service.specs.get(name).identity.description
        except ConfigError as error:
            text = f"cannot be used: {error}"
        return f"{name}: {text}" if text else name

    async def status(self, call: CommandCall) -> str:
        """This chat at a glance."""
        session, since = call.session, self.clock.now() - WEEK

        def look(tx: Tx) -> tuple[str, str, str, str, str, list[str]]:
            counts: dict[str, Sequence[object]] = {
                "started": tx.list_unfinished_turns(session.id),
                "queued": tx.list_waiting_inputs(session.id),
                "waiting for your answer": tx.list_pending(session.id),
            }
            if later := tx.list_approvals("waiting", session.id):
                counts["to be asked when those are answered"] = later
            tasks = ", ".join(f"{len(rows)} {state}" for state, rows in counts.items())
            stops = (f"{reason} {count}" for reason, count in sorted(tx.count_stops(since).items()))
            sources = ", ".join(_list_private_sources(tx, session))
            told = f" It has read of yours: {sources}." if sources else ""
            held = _describe_held(tx.list_outgoing(session.id), tx.list_waiting(session.id))
            uses = [_describe_use(tx, row) for row in tx.list_unfinished_turns(session.id)]
            taint = _find_taint_reason(tx, session)
            return tasks, ", ".join(stops) or "none", taint, told, held, uses

        tasks, stops, taint, private, held, uses = await self.service.store.read(look)
        taint = taint and (
            f"It has read text from outside, so it asks more: {taint}.{private} /clear starts over."
        )
        today = self.today()
        tokens = f" of {today.max_tokens:,}" if today.max_tokens else ""
        usd = f" of ${today.max_usd:g}" if today.max_usd else ""
        unpriced = ", and calls of unknown price" if today.unpriced else ""
        model = f"{session.model} (pinned)" if session.model else self.routing.list_models()[0]
        problem = self.service.store.problem
        lines = (
            f"Chat {session.id}, {session.label.value}{', paused' if session.paused else ''}",
            taint,
            f"Model: {model}",
            f"Agent: {session.agent}",
            f"Tasks: {tasks}",
            *uses,
            held,
            f"Journal: {FAILING.format(problem) if problem else 'ok'}",
            await self._show_failures() if call.role is Role.OWNER else "",
            *(await self.state() if call.role is Role.OWNER else ()),
            f"Today: {today.tokens:,} tokens{tokens}, ${today.usd:.4f}{usd}{unpriced}",
            f"Turns of seven days ended: {stops}",
        )
        return "\n".join(filter(None, lines))

    async def _show_failures(self) -> str:
        """What was not delivered; then the owner has seen it."""
        since = self.clock.now() - FAILURES_SHOWN
        store = self.service.store
        text = describe_failures(await store.read(lambda tx: tx.list_failed(since)))
        if text:
            with suppress(StoreUnavailable):
                await store.write(lambda tx: tx.forget_failed())
        return text

    async def cost(self, call: CommandCall) -> str:
        """Use by model: today, seven days, this chat; never 0 for an unknown price."""
        now, session = self.clock.now(), call.session.id

        def look(tx: Tx) -> list[str]:
            spans = {
                "Today": tx.sum_usage(find_midnight(now)),
                "Seven days": tx.sum_usage(now - WEEK),
                "This chat, seven days": tx.sum_usage(now - WEEK, session),
            }
            return [
                line
                for head, rows in spans.items()
                for line in (f"{head}:", *(map(_describe_usage, rows) if rows else ("  nothing",)))
            ]

        return "\n".join(await self.service.store.read(look))

    async def tasks(self, call: CommandCall) -> str:
        """What is not finished: turns with their plans, and sub-agents."""

        def look(tx: Tx) -> list[str]:
            lines = []
            for row in tx.list_unfinished_turns(call.session.id):
                turn = rebuild_turn(row.id, row.session, tx.list_events(row.id))
                lines.append(f"- {row.id}: {row.state}, {row.iterations} iterations")
                lines.append(indent(render_plan(turn.todos), "    "))
            for child in tx.list_running_children(call.session.id):
                task = shorten_line(child.task, MAX_TASK)
                lines.append(f"- {child.turn}: agent {child.agent} is working: {task}")
            left = [] if lines else load_history(tx, call.session).plan
            if any(one.state != "done" for one in left):
                lines += ["Nothing is running here. Left open; say go on:", render_plan(left)]
            return lines

        lines = await self.service.store.read(look)
        return "\n".join(filter(None, lines)) or "Nothing is running here."

    async def timezone(self, call: CommandCall) -> str:
        """/timezone [ZONE|owner]: of who gives it; the owner's is in the config (G5)."""
        store, wanted = self.service.store, call.argument.strip()
        if call.role is Role.OWNER:
            return f"The time here is {show_time(self.clock.now(), '%H:%M')}. {OWNERS_ZONE}"
        try:
            zone = "" if wanted == OWNER_NAME else str(find_zone(wanted)) if wanted else None
        except ToolError as error:
            raise UsageError(f"{error}. Nothing was changed.") from error
        if zone:
            await store.write(lambda tx: tx.put_zone(call.sender, zone))
        elif zone is not None:
            await store.write(lambda tx: tx.remove_zone(call.sender))
        known = await store.read(lambda tx: tx.get_zone(call.sender))
        now = self.clock.now().astimezone(ZoneInfo(known) if known else None)
        whose = known or "the owner's"
        return f"Your time zone is {whose}: it is {now:%H:%M} there now. {ZONE_USAGE}"

    async def whoami(self, call: CommandCall) -> str:
        """Who gives the command, with which role."""
        session = call.session
        return f"You are {call.sender}, {call.role.value}, in {session.id} ({session.label.value})."


def _describe_use(tx: Tx, row: TurnRow) -> str:
    """What a turn that runs has used up, beside its limits (D1)."""
    turn = rebuild_turn(row.id, row.session, tx.list_events(row.id))
    parts = []
    for use in list_uses(turn):
        most = None if use.limit is None else f"{use.limit:,.10g}"
        if use.of == "usd":
            parts.append(f"${use.used:.4f}{f' of ${most}' if most else ''}")
        else:
            of = f" of {most}" if most else ""
            parts.append(f"{use.used:,.0f}{of} {use.of.replace('_', ' ')}")
    return f"  {row.id}: {', '.join(parts)}"


def _describe_loop(row: LoopRow) -> str:
    head = (
        f"Loop {row.id} of {row.agent}: {row.stage.value}, attempt {row.attempt} of"
        f" {row.max_iterations}."
    )
    log = [f"{number}. {line}" for number, line in enumerate(row.learned, 1)]
    tails = {LoopStage.FAILED: row.error, LoopStage.REVIEWING: "Use /approve or /deny."}
    return "\n".join(filter(None, (head, *log, tails.get(row.stage))))


def _describe_held(rows: Sequence[OutboxRow], waiting: Sequence[OutboxRow]) -> str:
    mails, notices = _count_held(rows, "message"), _count_held(waiting, "notice")
    lines = (
        f"Held: {mails.format('to others')}; /undo withdraws the latest" if mails else "",
        f"Told later: {notices.format('for you')} ([notify])" if notices else "",
    )
    return "\n".join(filter(None, lines))


def _count_held(rows: Sequence[OutboxRow], name: str) -> str:
    """Such as: 2 messages {}, until 13:01; "" for none."""
    due = sorted(row.due for row in rows if row.state == "held" and row.due)
    if not due:
        return ""
    until = " to ".join(dict.fromkeys(show_time(one, "%H:%M") for one in (due[0], due[-1])))
    return f"{len(due)} {name}{'s' * (len(due) > 1)} {{}}, until {until}"


def _find_taint_reason(tx: Tx, session: SessionRow) -> str:
    """How outside text came into this chat since it was last cleared; "" when none did (F3)."""
    rows = [
        row
        for row in reversed(tx.list_turns(session.id, SHOWN_TURNS))
        if row.label is Label.UNTRUSTED and not is_cleared(row.started_at, session)
    ]
    for row in rows:
        if (found := find_taint(tx.list_events(row.id))) and not found.inherited:
            return f"{found.by} (in {row.id})"
    return "what was said before" if rows else ""


def _list_private_sources(tx: Tx, session: SessionRow) -> Sources:
    """Where this chat read something of the owner's since it was last cleared."""
    rows = [
        row
        for row in tx.list_turns(session.id, SHOWN_TURNS)
        if not is_cleared(row.started_at, session)
    ]
    return join_sources(row.private for row in rows)


def _describe_usage(row: UsageRow) -> str:
    tokens = f"{row.input_tokens:,} in ({row.cached_tokens:,} cached), {row.output_tokens:,} out"
    usd = "price unknown" if row.usd is None else f"${row.usd:.4f}"
    return f"  {row.model}: {row.calls} calls, {tokens}, {usd}"


def _explain(error: ConfigError, call: CommandCall) -> str:
    """Its lines are the owner's."""
    if call.role is Role.OWNER:
        return str(error)
    log.warning("/%s of %s: %s", call.name, call.sender, error)
    return CONFIG_FAULT
