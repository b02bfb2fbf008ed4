"""The client of the daemon in this process, and the reader of a journal that no daemon uses."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, replace

from daemon import VERSION
from daemon.access.directory import NewCode, PairedPerson
from daemon.access.owner_sessions import OwnerSessions
from daemon.agent.outside_turns import OutsideCaller
from daemon.client.loop_view import LoopAction, LoopView
from daemon.client.protocol import DaemonClient, GoalVerb, ScheduleVerb
from daemon.client.reader import JournalReader
from daemon.client.view_types import (
    ApprovalView,
    GrantView,
    HealthView,
    LiveEvent,
    RunView,
    SendResult,
)
from daemon.client.views import (
    EventFormatter,
    build_view,
    loop_view,
    row_from_turn,
    run_view,
    view_approval,
)
from daemon.commands.registry import (
    ASKS_TO_START,
    CommandCall,
    CommandRunner,
    drop_argument,
    fence_argument,
    parse_command,
)
from daemon.commands.rules import RuleCommands
from daemon.core import value
from daemon.core.errors import ConfigError, IdReused, StoreUnavailable, UsageError
from daemon.core.event_bus import EventBus, LiveItem, Quarantined, TurnFinished, is_turn_over
from daemon.core.events import ChildSpawned
from daemon.core.messages import FAILURES_SHOWN, MessageQueued, describe_failures
from daemon.core.quoted import is_typed
from daemon.core.reports import (
    AgentView,
    CostView,
    Criterion,
    ForkChange,
    ForkView,
    LoopSettings,
    ModelAnswer,
    RuleView,
    StatusView,
)
from daemon.core.requests import LoopOrder
from daemon.core.rows import EXACT_CALL, ApprovalRow, GrantBounds, LoopRow, SessionRow
from daemon.core.trust import OWNER, Answer, Label, Person, Right, Role, has_right, label_for_role
from daemon.loops.engine import LoopEngine
from daemon.recall.endpoint import EndpointConsent
from daemon.recall.imports import (
    ImportedLine,
    list_exported,
    list_imported,
    list_imported_facts,
)
from daemon.services.admin import PeopleService
from daemon.services.agent_settings import AgentSettings, hide_own
from daemon.services.approvals import ApprovalService, name_question
from daemon.services.forks import ForkService
from daemon.services.overview import Overview
from daemon.services.sessions import SessionService
from daemon.sessions.inbox import Inbox, InboxMessage
from daemon.store.journal import Tx
from daemon.tools.documents.uploads import Uploads
from daemon.tools.workspace.inbox_folder import attachments_to_json
from daemon.triggers.goals import GoalEngine, show_goal
from daemon.triggers.orders import ScheduleOrder, show_row
from daemon.triggers.schedules import ScheduleEngine
from memory.conversations import Conversations
from memory.facts import Fact, FactSource
from memory.memory import Memory
from memory.search import Found, Scope

END_STATES = ("ended", "quarantined")
STOPPED_BY = "stopped by the owner"
EXPORTED_ROWS, EXPORTED_FACTS = 500, 100_000


def _show(
    one: Fact | Found, key: str, why: dict[str, float], speaker: str = ""
) -> dict[str, object]:
    """A hit of the memory, as JSON."""
    return {
        "id": key, "at": one.at.isoformat(), "text": one.text, "score": one.score,
        "label": one.label, "session": one.session, "speaker": speaker, "why": why,
    }  # fmt: skip


def _make_key(session: str, client_id: str, by: Person) -> str:
    """What makes a message the same one: two people may use one id in one session."""
    return f"{session}/{client_id}" if by == OWNER else f"{session}/@{by.name}/{client_id}"


@value
class LocalClient(JournalReader, DaemonClient):
    """Everything a client can do, done here."""

    inbox: Inbox
    commands: CommandRunner
    approvals: ApprovalService
    sessions: SessionService
    people: PeopleService
    loops: LoopEngine
    memory: Memory
    conversations: Conversations
    consent: EndpointConsent
    schedules: ScheduleEngine
    goals: GoalEngine
    owner_sessions: OwnerSessions
    uploads: Uploads
    events: EventBus
    rules: RuleCommands
    forks: ForkService
    agent_settings: AgentSettings
    overview: Overview
    beside: OutsideCaller
    window: int = 0

    async def send(
        self,
        session: str,
        text: str,
        client_id: str | None = None,
        *,
        stream: bool = True,
        by: Person = OWNER,
        data: Sequence[str] = (),
        files: Sequence[str] = (),
    ) -> SendResult:
        text = self.inbox.redactor.redact_text(text)
        channel, _, chat = session.partition(":")
        find = self.uploads.find
        attached = await asyncio.to_thread(find, files, again=bool(client_id)) if files else ()
        message = InboxMessage(
            channel,
            chat,
            session,
            by.name,
            _make_key(session, client_id or self.inbox.new_id(), by),
            text,
            label_for_role(by.role),
            stream=stream,
            role=by.role.value,
            data=tuple(data),
            attachments=attachments_to_json(attached) if attached else "",
        )
        command = parse_command(text) if is_typed(text, data) else None
        if not data and has_right(by.role, Right.TALK) and ASKS_TO_START.fullmatch(text):
            command = ("start", "")
        receipt = await self.inbox.accept(message, command=bool(command))
        if receipt.is_other:
            raise IdReused
        if not command:
            if receipt.joined_turn:
                return SendResult(steered=receipt.joined_turn)
            return SendResult(turn=receipt.row.turn)
        name, argument = command
        argument = fence_argument(name, drop_argument(argument, receipt.row), data)
        if receipt.duplicate:
            return SendResult(command=name, reply=await self.commands.earlier_reply(receipt.row))
        call = CommandCall(await self._find_session(session), by.name, name, argument, by.role)
        reply = await self.commands.run(receipt.row, call, shown=True)
        return SendResult(command=name, reply=reply)

    async def was_sent(self, session: str, client_id: str, by: Person = OWNER) -> bool:
        key = session.partition(":")[0], "", _make_key(session, client_id, by)
        return await self.store.read(lambda tx: tx.find_input(*key)) is not None

    async def upload(self, name: str, data: bytes, by: Person = OWNER) -> str:
        return await asyncio.to_thread(self.uploads.add, name, data, by.name)

    async def _find_session(self, session: str) -> SessionRow:
        row = await self.store.read(lambda tx: tx.get_session(session))
        if row is None:
            raise KeyError(session)
        return row

    async def set_agent(self, session: str, agent: str) -> None:
        row = await self.store.read(lambda tx: tx.get_session(session))
        if row is None:
            channel, _, chat = session.partition(":")
            row = SessionRow(session, channel, chat, Label.TRUSTED, self.inbox.clock.now())
        try:
            await self.sessions.choose_agent(row, agent)
        except ConfigError as error:
            if agent in self.sessions.specs.files():
                raise
            raise UsageError(str(error)) from error

    async def find_private(self, sessions: Collection[str]) -> set[str]:
        return {one for one in sessions if await self.owner_sessions.is_private(one)}

    async def wait_until_ended(self, turn: str) -> RunView:
        with self.events.subscribe(turn, is_turn_over) as items:
            if turn not in self.inbox.sessions.owned_turns:
                view = await self._find_run(turn)
                if view.state in END_STATES:
                    return view
            item = await items.get()
        if isinstance(item, TurnFinished) and not any(
            isinstance(entry.event, MessageQueued | ChildSpawned) for entry in item.turn.events
        ):
            return run_view(row_from_turn(item.turn), item.turn.events)
        return await self._find_run(turn)

    async def _find_run(self, turn: str) -> RunView:
        view = await self.get_run(turn)
        if view is None:
            raise KeyError(turn)
        return view

    async def stream_events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        formatter = EventFormatter(after, self.window)
        with self.events.subscribe(turn) as items:
            view = await self._find_run(turn)
            known: list[LiveItem] = [*await self.store.read(lambda tx: tx.list_events(turn))]
            if view.state == "quarantined":
                known.append(Quarantined("\n".join(view.notices)))
            for item in known:
                for event in formatter.format(item):
                    yield event
            if view.state in END_STATES or formatter.turn.ended:
                return
            while True:
                item = await items.get()
                for event in formatter.format(item):
                    yield event
                if formatter.turn.ended or isinstance(item, Quarantined):
                    return

    async def cancel_run(self, turn: str) -> bool:
        view = await self.get_run(turn)
        if view is None or view.state in END_STATES:
            return False
        session = await self._find_session(view.session)

        return await self.sessions.stop_turn(session, turn, STOPPED_BY)

    async def stop_session(self, session: str) -> list[str]:
        row = await self.store.read(lambda tx: tx.get_session(session))
        return await self.sessions.stop_session(row, STOPPED_BY) if row else []

    async def list_approvals(
        self, state: str = "pending", session: str | None = None
    ) -> list[ApprovalView]:
        def read(tx: Tx) -> list[tuple[ApprovalRow, str]]:
            rows = tx.list_approvals(state, session)
            return [(row, tx.find_top_session(row.session)) for row in rows]

        now = self.inbox.clock.now()
        return [
            view_approval(row, name_question(row), root)
            for row, root in await self.store.read(read)
            if row.state != "pending" or row.expires > now
        ]

    async def answer_approval(
        self,
        turn: str,
        call_id: str,
        answer: Answer,
        by: Person = OWNER,
        reason: str = "",
        bounds: GrantBounds | None = None,
    ) -> bool:
        reason = self.inbox.redactor.redact_text(reason)
        bounds = bounds or EXACT_CALL
        return bool(await self.approvals.answer(turn, call_id, answer, by, reason, bounds))

    async def keep_secret(self, turn: str, call_id: str, value: str, by: Person = OWNER) -> bool:
        return await self.approvals.keep_secret(turn, call_id, value, by)

    async def list_grants(self) -> list[GrantView]:
        return [build_view(GrantView, row) for row in await self.approvals.list_grants()]

    async def revoke_grant(self, id: str) -> bool:
        return await self.approvals.revoke_grant(id)

    async def list_memories(self, limit: int = 50, waiting: str = "") -> list[dict[str, object]]:
        facts = await (self.memory.pending(limit) if waiting else self.memory.facts(limit))
        return [{**asdict(fact), "at": fact.at.isoformat()} for fact in facts]

    async def search_memories(
        self, query: str, limit: int = 10, session: str = ""
    ) -> list[dict[str, object]]:
        facts = () if session else await self.memory.recall(query, limit)
        said = await self.conversations.search(query, Scope(own=False, session=session), limit)
        shown = [_show(one, one.id, {"fact": one.score}) for one in facts]
        shown += [_show(one, one.key, dict(one.why), one.speaker) for one in said]
        return shown[:limit]

    async def get_memory_status(self) -> dict[str, object]:
        conversations = self.conversations
        rows, pending = await conversations.count(), await conversations.count_unembedded()
        model = conversations.embedder  # as of now: it may have been loaded meanwhile
        found: dict[str, object] = {
            "rows": rows,
            "pending": pending if model else 0,
            "embedder": conversations.embedder_kind,
            "model": model,
        }
        return found | ({"asks": self.consent.question} if self.consent.waits else {})

    async def export_memories(self, after: int = 0) -> dict[str, object]:
        facts = [] if after else await self.memory.list_with_history(EXPORTED_FACTS)
        lines, last = await list_exported(self.conversations, facts, after, EXPORTED_ROWS)
        return {"lines": [one.model_dump(mode="json") for one in lines], "after": last}

    async def import_memories(self, lines: Sequence[object], *, trusted: bool = False) -> int:
        known, redact = map(ImportedLine.model_validate, lines), self.inbox.redactor.redact_text
        given = [*known]
        said = list_imported(given, trusted=trusted)
        added = await self.conversations.add([replace(one, text=redact(one.text)) for one in said])
        for one in list_imported_facts(given, trusted=trusted):
            text, where = redact(one.text), FactSource(session=one.session, key=one.key)
            fact_id = await self.memory.remember(
                text, at=one.at, source=one.source, owned=one.owned, where=where
            )
            if one.pinned:
                await self.memory.pin(fact_id)
            added += 1
        await self.conversations.close_idle(self.inbox.clock.now())
        return added

    async def approve_memory(self, id: str, by: Person = OWNER) -> bool:
        return await self.memory.approve(id, by.name, self.inbox.clock.now())

    async def reject_memory(self, id: str, by: Person = OWNER) -> bool:
        return await self.memory.reject(id, by.name, self.inbox.clock.now())

    async def forget_memory(self, id: str) -> bool:
        return await self.memory.forget(id)

    async def list_schedules(self) -> list[dict[str, object]]:
        return [show_row(row) for row in await self.schedules.list_all()]

    async def list_goals(self) -> list[dict[str, object]]:
        return [show_goal(view) for view in await self.goals.list_all()]

    async def add_schedule(self, order: ScheduleOrder) -> str:
        row = await self.schedules.add(self.inbox.redactor.redact_value(order))
        return f"Scheduled as {row.name}. {self.schedules.describe(row)}"

    async def remove_schedule(self, name: str) -> bool:
        return bool(await self.schedules.change(name, "remove"))

    async def change_schedule(self, name: str, verb: ScheduleVerb) -> bool:
        return bool(await self.schedules.change(name, verb))

    async def change_goal(self, id: str, verb: GoalVerb) -> bool:
        if verb == "run":
            await self.goals.run(id)
        else:
            await self.goals.change(id, verb)
        return True

    async def list_agents(self, by: Person = OWNER) -> list[AgentView]:
        found = await asyncio.to_thread(self.agent_settings.list_agents)
        return found if by.role is Role.OWNER else [hide_own(one) for one in found]

    async def set_loop_settings(
        self,
        agent: str,
        enabled: bool,
        criterion: Criterion = "max_iterations",
        value: str = "",
        max_iterations: int = 10,
    ) -> AgentView:
        settings = LoopSettings(enabled, criterion, value, max_iterations)
        return await self.agent_settings.set_loop(agent, settings)

    async def list_rules(self) -> list[RuleView]:
        return self.rules.list_views()

    async def confirm_rule(self, id: str) -> bool:
        return await self.rules.change(id, confirms=True) is not None

    async def remove_rule(self, id: str) -> bool:
        return await self.rules.change(id, confirms=False) is not None

    async def fork_run(
        self,
        turn: str,
        at: int,
        model: str = "",
        prompt: str = "",
        answer: str = "",
        max_usd: float | None = None,
    ) -> ForkView | None:
        change = self.inbox.redactor.redact_value(ForkChange(model, prompt, answer, max_usd))
        return await self.forks.fork(turn, at, change)

    async def ask_judge(self, session: str, rules: str, said: Sequence[str]) -> ModelAnswer:
        return await self.beside.judge(session, rules, said)

    async def get_costs(self, days: int = 30) -> CostView:
        return await self.overview.compute_costs(days)

    async def get_status(self) -> StatusView:
        return await asyncio.to_thread(self.overview.describe)

    async def mark_delivered(self, turn: str, part: int) -> None:
        at = self.inbox.clock.now()
        await self.store.write(lambda tx: tx.mark_delivery(turn, part, "sent", at=at))

    async def invite(self, role: Role = Role.EDITOR, channel: str = "") -> NewCode:
        return await self.people.invite(role, channel)

    async def list_people(self) -> list[PairedPerson]:
        return await self.people.list_people()

    async def remove_person(self, name: str) -> bool:
        return await self.people.remove(name)

    async def start_loop(self, order: LoopOrder) -> LoopView:
        row = await self.loops.start(self.inbox.redactor.redact_value(order))
        return await self.store.read(lambda tx: loop_view(tx, row))

    async def change_loop(self, loop: LoopView, action: LoopAction) -> LoopView | None:
        if action is LoopAction.STOP:
            return await self._view_loop(await self.loops.stop(loop.loop_id, STOPPED_BY))
        change = self.loops.pause if action is LoopAction.PAUSE else self.loops.resume
        return await self._view_loop(await change(loop.loop_id))

    async def review_loop(
        self, loop: LoopView, *, approved: bool, by: str, reason: str = ""
    ) -> LoopView | None:
        reason = self.inbox.redactor.redact_text(reason)
        row = await self.loops.review(loop.loop_id, approved=approved, by=by, reason=reason)
        return await self._view_loop(row)

    async def _view_loop(self, row: LoopRow | None) -> LoopView | None:
        return await self.store.read(lambda tx: loop_view(tx, row)) if row else None

    async def get_health(self) -> HealthView:
        problems, since = list(self.overview.problems()), self.inbox.clock.now() - FAILURES_SHOWN
        shown = [*problems, *self.overview.notes()]
        with suppress(StoreUnavailable):
            failed = await self.store.read(lambda tx: tx.list_failed(since))
            shown.append(describe_failures(failed, public=True))
        return HealthView(not problems, VERSION, [line for line in shown if line])
