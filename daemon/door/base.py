"""The one door: what anybody outside the loop can ask of the daemon. In-process or over HTTP, it is the same (DESIGN 3).

Names and shapes of the views are CONTRACT's; they go over the wire as they stand.
"""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from daemon.core.asking import EXACT, Bounds
from daemon.core.events import Answer
from daemon.core.roles import OWNER, Person
from daemon.door.loops import Loops
from daemon.door.people import Register

SESSION_NAME = re.compile(r"(?!\.{1,2}\Z)[^:/\x00-\x1f\x7f\ud800-\udfff]{1,100}")
"""What a person may call a conversation, the same at every door; it is a part of an address too, hence no ".."."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a sent text: a new turn, a steered one, or a command and its reply."""

    turn: str = ""
    steered: str = ""
    command: str = ""
    reply: str = ""


@dataclass(frozen=True, slots=True)
class UsageView:
    """Tokens and USD of a run; usd is None where a price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = 0.0


@dataclass(frozen=True, slots=True)
class CallView:
    """One tool call of a run. `result` is None while there is none."""

    call_id: str
    tool: str
    arguments: str
    effect: str | None
    decision: str | None
    result: str | None
    is_error: bool


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session."""

    id: str
    label: str
    paused: bool
    model: str
    created: str
    agent: str = "default"


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something that was said to a session and may not have reached it yet."""

    turn: str
    part: int
    kind: str
    body: str


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class HealthView:
    """Whether the daemon serves, and if not what ails it."""

    ok: bool
    version: str
    problems: list[str] = field(default_factory=list)


class Door(Protocol):
    """Everything a client can do."""

    async def send(
        self, session: str, text: str, client_id: str | None = None, *, stream: bool = True, by: Person = OWNER
    ) -> Accepted:
        """A person says this in this session. Durable when it returns; the same client_id again gets the same answer.

        `stream` false says that nobody will watch the draft, only `settled` or `run`: the model is then asked in one piece.
        """
        ...

    async def choose(self, session: str, agent: str) -> None:
        """This agent answers in the session, from the next message on. Raises UsageError for one that cannot be used."""
        ...

    async def settled(self, turn: str) -> RunView:
        """The run once it has ended or was quarantined, waiting for that as long as it takes. Raises KeyError for no such run."""
        ...

    async def run(self, turn: str) -> RunView | None:
        """The run as it is now; None when there is none of that id."""
        ...

    def events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        """What happened after event `after`, then what happens, until run.completed. A quarantined run ends so too."""
        ...

    async def transcript(self, turn: str) -> list[dict[str, object]]:
        """The events as they are in the journal: {seq, at, kind, ...payload}."""
        ...

    async def runs(self, session: str | None = None, limit: int = 50) -> list[RunLine]:
        """Runs, newest first; queued ones too."""
        ...

    async def unfinished(self, session: str) -> list[str]:
        """Runs of a session that are queued, running or suspended, oldest first."""
        ...

    async def cancel(self, turn: str) -> bool:
        """Stop this run; False when it had ended."""
        ...

    async def stop(self, session: str) -> list[str]:
        """Stop what runs in the session; the runs that were stopped."""
        ...

    async def approvals(self, state: str = "pending", session: str | None = None) -> list[ApprovalView]:
        """Questions to a person."""
        ...

    async def answer(
        self, turn: str, call_id: str, answer: Answer, by: Person = OWNER, reason: str = "", bounds: Bounds = EXACT
    ) -> bool:
        """Answer one; False when it is not pending any more. Raises MayNotAnswer, and UsageError for bounds that do not fit."""
        ...

    async def grants(self) -> list[GrantView]:
        """What needs no question any more, oldest first."""
        ...

    async def revoke(self, grant_id: str) -> bool:
        """Take a permission back; False when there is none of that id."""
        ...

    async def sessions(self) -> list[SessionView]:
        """All sessions, newest first."""
        ...

    async def undelivered(self, session: str) -> list[Delivery]:
        """What was said to the session and not yet marked as delivered, in order."""
        ...

    async def delivered(self, turn: str, part: int) -> None:
        """It has been shown."""
        ...

    def people(self) -> Register:
        """Who is known, and letting one more in."""
        ...

    def loops(self) -> Loops:
        """What can be done with loops."""
        ...

    async def health(self) -> HealthView:
        """How the daemon is."""
        ...
