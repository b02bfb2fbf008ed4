"""Loops as a client sees them: one shape, in-process and over HTTP (C8).

What can be done with people at a door: let one in by a code, list them, remove one.

The one door: what anybody outside the loop can ask of the daemon. In-process or over HTTP, it is the same (DESIGN 3).

Names and shapes of the views are CONTRACT's; they go over the wire as they stand.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, field
from typing import Protocol

from pydantic import TypeAdapter

from daemon.access.directory import NewCode, PairedPerson
from daemon.core import value
from daemon.core.events import Answer
from daemon.core.journal import ReadTx, Store
from daemon.core.rows import (
    EXACT_CALL,
    REVIEW_QUESTION,
    GrantBounds,
    LoopOrder,
    LoopRow,
    LoopStage,
    TurnRow,
)
from daemon.core.trust import OWNER, Person, Role

MAX_LOOPS = 20
STATUS_NAMES = {LoopStage.REVIEWING: "paused"}


@value
class AttemptView:
    """One attempt: the run that it was, and all it said. `output` is None while it runs."""

    iteration: int
    turn: str
    state: str
    stop_reason: str | None = None
    output: str | None = None


@value
class CriteriaView:
    """When the loop is done."""

    type: str
    value: str


@value
class LoopView:
    """A loop as it stands. status: running, paused, completed, failed; `review` is the question that waits for a person."""

    loop_id: str
    agent: str
    iteration: int
    max_iterations: int
    criteria: CriteriaView
    status: str
    session: str
    message: str
    progress_log: list[str] = field(default_factory=list)
    attempts: list[AttemptView] = field(default_factory=list)
    final_output: str | None = None
    error: str | None = None
    review: str | None = None
    started: str = ""
    ended: str | None = None


class LoopClient(Protocol):
    """What a client can do with loops; all but `all` by the loop's id."""

    async def start(self, order: LoopOrder) -> LoopView:
        """Begin one. Raises ConfigError, UsageError, LoopRefused; over HTTP DaemonRefused."""
        ...

    async def list_loops(self, agent: str | None = None) -> list[LoopView]:
        """Loops, newest first; of one agent, or of all."""
        ...

    async def stop(self, loop: LoopView) -> LoopView | None:
        """End it now; None when it had ended."""
        ...

    async def pause(self, loop: LoopView) -> LoopView | None:
        """Not another attempt; None when there is nothing to pause."""
        ...

    async def resume(self, loop: LoopView) -> LoopView | None:
        """Go on; None when it is not paused."""
        ...

    async def review(
        self, loop: LoopView, *, approved: bool, by: str, reason: str = ""
    ) -> LoopView | None:
        """Say whether the attempt will do; None when that is not asked."""
        ...


@value
class LoopReader:
    """The half that only looks."""

    store: Store

    async def list_loops(self, agent: str | None = None) -> list[LoopView]:
        """Loops, newest first."""
        return await self.store.read(
            lambda tx: [loop_view(tx, row) for row in tx.list_loops(agent, MAX_LOOPS)]
        )


def loop_view(tx: ReadTx, row: LoopRow) -> LoopView:
    """The loop with its attempts, whose full output stays readable (C5)."""
    tried = [(number, tx.get_turn(row.turn_id(number))) for number in range(1, row.attempt + 1)]
    return LoopView(
        loop_id=row.id,
        agent=row.agent,
        iteration=row.attempt,
        max_iterations=row.max_iterations,
        criteria=CriteriaView(row.criterion, row.value),
        status=STATUS_NAMES.get(row.stage, row.stage.value),
        session=row.root,
        message=row.message,
        progress_log=list(row.learned),
        attempts=[_attempt(row, number, turn) for number, turn in tried],
        final_output=row.final_output if row.stage is LoopStage.COMPLETED else None,
        error=row.error or None,
        review=REVIEW_QUESTION if row.stage is LoopStage.REVIEWING else None,
        started=row.started_at.isoformat(),
        ended=row.ended_at.isoformat() if row.ended_at else None,
    )


def _attempt(row: LoopRow, number: int, turn: TurnRow | None) -> AttemptView:
    if turn is None:
        return AttemptView(number, row.turn_id(number), "queued")
    stop = turn.stop_reason.value if turn.stop_reason else None
    return AttemptView(number, turn.id, turn.state, stop, turn.reply if turn.ended_at else None)


def loop_to_json(view: LoopView) -> dict[str, object]:
    """LoopState, in the names that its clients know."""
    return {_camel_case(name): _camelize(value) for name, value in asdict(view).items()}


def _camelize(value: object) -> object:
    match value:
        case dict():
            return {_camel_case(name): _camelize(inner) for name, inner in value.items()}
        case list():
            return [_camelize(inner) for inner in value]
        case _:
            return value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def find_loop(loops: Sequence[LoopView], name: str, *, open_only: bool) -> LoopView | None:
    """The loop of this id, or the latest of this agent; without a name the latest. `open_only`: one that has not ended."""
    found = [
        view
        for view in loops
        if name in ("", view.loop_id, view.agent) and not (open_only and view.ended)
    ]
    return found[0] if found else None


CODES_PATH, PEOPLE_PATH, REMOVE_PATH = "/v1/people/codes", "/v1/people", "/v1/people/remove"


class PeopleClient(Protocol):
    """Who is known. `daemon.access.directory.People` is one."""

    async def invite(self, role: Role, channel: str = "") -> NewCode:
        """A code that makes whoever sends it first such a person."""
        ...

    async def list_people(self) -> list[PairedPerson]:
        """Everybody who had a code."""
        ...

    async def remove(self, name: str) -> bool:
        """They are strangers again; False when nobody is known by this name."""
        ...


class PeopleRequest(Protocol):
    """Puts a request to the daemon; gives the body. Raises DaemonRefused, DaemonGone."""

    async def __call__(
        self, method: str, path: str, *, body: Mapping[str, object] | None = None
    ) -> bytes:
        """The answer."""
        ...


@value
class HttpPeople:
    """`Register` over HTTP."""

    ask: PeopleRequest

    async def invite(self, role: Role, channel: str = "") -> NewCode:
        """A code; the daemon keeps its digest."""
        raw = await self.ask("POST", CODES_PATH, body={"role": role.value, "channel": channel})
        return TypeAdapter(NewCode).validate_json(raw)

    async def list_people(self) -> list[PairedPerson]:
        """Everybody who had a code."""
        return TypeAdapter(list[PairedPerson]).validate_json(await self.ask("GET", PEOPLE_PATH))

    async def remove(self, name: str) -> bool:
        """They are strangers again."""
        raw = await self.ask("POST", REMOVE_PATH, body={"name": name})
        return TypeAdapter(dict[str, bool]).validate_json(raw)["removed"]


SESSION_NAME = re.compile(r"(?!\.{1,2}\Z)[^:/\x00-\x1f\x7f\ud800-\udfff]{1,100}")
"""What a person may call a conversation, the same at every door; it is a part of an address too, hence no ".."."""


@value
class SendResult:
    """What became of a sent text: a new turn, a steered one, or a command and its reply."""

    turn: str = ""
    steered: str = ""
    command: str = ""
    reply: str = ""


@value
class UsageView:
    """Tokens and USD of a run; usd is None where a price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = 0.0


@value
class CallView:
    """One tool call of a run. `result` is None while there is none."""

    call_id: str
    tool: str
    arguments: str
    effect: str | None
    decision: str | None
    result: str | None
    is_error: bool


@value
class RunView:
    """One run. state: queued, running, suspended, ended, quarantined. `children`: runs of agents that it set to work.

    `tainted`: what made it untrusted, and at which event; "" while it is trusted. `reactions`: the signs that people left on what
    it said.
    """

    turn: str
    session: str
    state: str
    stop_reason: str | None = None
    reply: str | None = None
    label: str = "trusted"
    iterations: int = 0
    usage: UsageView = field(default_factory=UsageView)
    notices: list[str] = field(default_factory=list)
    calls: list[CallView] = field(default_factory=list)
    started: str | None = None
    ended: str | None = None
    agent: str = "default"
    parent: str | None = None
    children: list[str] = field(default_factory=list)
    tainted: str = ""
    reactions: list[str] = field(default_factory=list)


@value
class RunLine:
    """One run in a list."""

    turn: str
    session: str
    state: str
    stop_reason: str | None
    started: str | None
    ended: str | None
    agent: str = "default"
    parent: str | None = None


@value
class ApprovalView:
    """A question that waits for a person. `preview` is what to show beside the arguments: a change as a diff, say."""

    turn: str
    call_id: str
    session: str
    tool: str
    arguments: str
    effect: str
    label: str
    expires: str
    preview: str = ""


@value
class GrantView:
    """A standing permission. session "" is everywhere, paths "" is exactly these arguments, uses_left None any number."""

    id: str
    session: str
    tool: str
    arguments: str
    paths: str
    granted_by: str
    created: str
    expires: str | None
    uses_left: int | None
    uses: int


@value
class SessionView:
    """One session."""

    id: str
    label: str
    paused: bool
    model: str
    created: str
    agent: str = "default"


@value
class UndeliveredText:
    """Something that was said to a session and may not have reached it yet."""

    turn: str
    part: int
    kind: str
    body: str


@value
class LiveEvent:
    """One thing a watcher sees, by B5's names. seq is None for drafts, which cannot be resumed from. One recorded event may
    be told as several; `rest` is how many of them follow, so that a watcher who left in between can be given just those.

    cycle.start {iteration, max_iterations, model}     model.delta {text}     model.reset {}
    model.retry {error, message, wait_s, next_model}
    model.response {iteration, text, text_length, tool_calls, finish_reason, usage}
    tool_call {call_id, tool, arguments}     tool.started {call_id, tool}
    tool.output {call_id, text}              tool.retry {call_id, error, wait_s}
    tool_result {call_id, tool, outcome, is_error, text, exit_code}
    tool.results {iteration, count}
    approval.asked {call_id, tool, arguments, effect, expires, preview}
    approval.answered {call_id, answer, by, reason}
    steered {text}   coached {kind, text}    intent {intent}
    budget.extended {reason, max_iterations} cycle.refunded {call_ids}
    budget.raised {question, max_input_tokens, max_usd, day_tokens, day_usd}
    todos {items}                            verified {check, passed, feedback, note}
    history.compressed {strategy, summary, tokens_before, tokens_after}
    model.consulted {purpose, model, error, usage}
    agent.started {key, turn, session, agent, task, background}: its own run tells what it does
    agent.ended {key, turn, stop_reason, text}: a step of a composite; else `tool_result` of call `key`, or a message, says so
    alarm {kind, text}
    run.suspended {waiting_for}              run.resumed {why}
    run.terminated_by {reason, detail, ok}
    run.completed {reply, text_length, stop_reason, iterations, usage, label}: always the last
    """

    name: str
    data: Mapping[str, object]
    seq: int | None = None
    rest: int = 0


@value
class HealthView:
    """Whether the daemon serves, and if not what ails it."""

    ok: bool
    version: str
    problems: list[str] = field(default_factory=list)


class DaemonClient(Protocol):
    """Everything a client can do."""

    async def send(
        self,
        session: str,
        text: str,
        client_id: str | None = None,
        *,
        stream: bool = True,
        by: Person = OWNER,
    ) -> SendResult:
        """A person says this in this session. Durable when it returns; the same client_id again gets the same answer.

        `stream` false says that nobody will watch the draft, only `settled` or `run`: the model is then asked in one piece.
        """
        ...

    async def set_agent(self, session: str, agent: str) -> None:
        """This agent answers in the session, from the next message on. Raises UsageError for one that cannot be used."""
        ...

    async def wait_until_ended(self, turn: str) -> RunView:
        """The run once it has ended or was quarantined, waiting for that as long as it takes. Raises KeyError for no such run."""
        ...

    async def get_run(self, turn: str) -> RunView | None:
        """The run as it is now; None when there is none of that id."""
        ...

    def stream_events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        """What happened after event `after`, then what happens, until run.completed. A quarantined run ends so too."""
        ...

    async def get_transcript(self, turn: str) -> list[dict[str, object]]:
        """The events as they are in the journal: {seq, at, kind, ...payload}."""
        ...

    async def list_runs(self, session: str | None = None, limit: int = 50) -> list[RunLine]:
        """Runs, newest first; queued ones too."""
        ...

    async def list_unfinished(self, session: str) -> list[str]:
        """Runs of a session that are queued, running or suspended, oldest first."""
        ...

    async def cancel_run(self, turn: str) -> bool:
        """Stop this run; False when it had ended."""
        ...

    async def stop_session(self, session: str) -> list[str]:
        """Stop what runs in the session; the runs that were stopped."""
        ...

    async def list_approvals(
        self, state: str = "pending", session: str | None = None
    ) -> list[ApprovalView]:
        """Questions to a person."""
        ...

    async def answer_approval(
        self,
        turn: str,
        call_id: str,
        answer: Answer,
        by: Person = OWNER,
        reason: str = "",
        bounds: GrantBounds = EXACT_CALL,
    ) -> bool:
        """Answer one; False when it is not pending any more. Raises MayNotAnswer, and UsageError for bounds that do not fit."""
        ...

    async def list_grants(self) -> list[GrantView]:
        """What needs no question any more, oldest first."""
        ...

    async def revoke_grant(self, grant_id: str) -> bool:
        """Take a permission back; False when there is none of that id."""
        ...

    async def list_sessions(self) -> list[SessionView]:
        """All sessions, newest first."""
        ...

    async def list_undelivered(self, session: str) -> list[UndeliveredText]:
        """What was said to the session and not yet marked as delivered, in order."""
        ...

    async def mark_delivered(self, turn: str, part: int) -> None:
        """It has been shown."""
        ...

    def people(self) -> PeopleClient:
        """Who is known, and letting one more in."""
        ...

    def loops(self) -> LoopClient:
        """What can be done with loops."""
        ...

    async def get_health(self) -> HealthView:
        """How the daemon is."""
        ...
