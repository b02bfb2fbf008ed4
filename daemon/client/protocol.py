"""What a client can ask of the daemon, in this process or over HTTP, and the views that it gets.

Light: commands that ask a running daemon import this. The views' names and forms are CONTRACT's;
HTTP sends them as they are.
"""

import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

from daemon.client.loop_view import LoopAction, LoopView
from daemon.core import value
from daemon.core.trust import OWNER, Answer, NewCode, PairedPerson, Person, Resource, Right, Role

if TYPE_CHECKING:
    from daemon.core.rows import GrantBounds, LoopOrder
    from daemon.triggers.orders import ScheduleOrder

SESSION_NAME = re.compile(r"(?!\.{1,2}\Z)[^:/\x00-\x1f\x7f\ud800-\udfff]{1,100}")
"""The name of a session as a person gives it; it is a part of an address too, hence no ".."."""
COMPLETED = "run.completed"
SESSIONS_PAGE = 100


@value
class SendResult:
    """What a sent text became: a new turn, a part of a running one, or a command with its reply."""

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
    """One run. state: queued, running, suspended, ended, quarantined. `children`: runs of its sub-
    agents; `tree`: what it and they have used.

    `tainted`: what made it untrusted, and at which event; "" while it is trusted. `private`: where
    it read something of the owner's. `reactions`: emojis that people put on its replies.
    `outgoing`: its messages to others than the owner, and how far each is; and what was not
    delivered.
    """

    turn: str
    session: str
    state: str
    stop_reason: str | None = None
    reply: str | None = None
    label: str = "trusted"
    iterations: int = 0
    usage: UsageView = field(default_factory=UsageView)
    tree: UsageView = field(default_factory=UsageView)
    notices: list[str] = field(default_factory=list)
    calls: list[CallView] = field(default_factory=list)
    started: str | None = None
    ended: str | None = None
    agent: str = "default"
    parent: str | None = None
    children: list[str] = field(default_factory=list)
    tainted: str = ""
    private: list[str] = field(default_factory=list)
    reactions: list[str] = field(default_factory=list)
    outgoing: list[str] = field(default_factory=list)


@value
class RunLine:
    """One run in a list. `text`: the first words of its message; `usd` is its agents', too; None
    where a price is unknown.
    """

    turn: str
    session: str
    state: str
    stop_reason: str | None
    started: str | None
    ended: str | None
    agent: str = "default"
    parent: str | None = None
    text: str = ""
    usd: float | None = 0.0


@value
class ApprovalView:
    """A question that waits for a person. `preview` is shown beside the arguments: a change as a
    diff, say. `question` tells it from the same call asked anew.
    """

    turn: str
    call_id: str
    session: str
    tool: str
    arguments: str
    effect: str
    label: str
    expires: str
    preview: str = ""
    question: str = ""


@value
class GrantView:
    """A standing permission. session "" is everywhere, paths "" is exactly these arguments,
    uses_left None any number.
    """

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
    """One session; model "" is the configured one. `root`: the session that this one works for.
    Of its runs: how many, when the latest began, and the first words of its message. `usd`: what
    its runs and those for it have cost that are over; None where a price is unknown.
    """

    id: str
    label: str
    paused: bool
    model: str
    created: str
    agent: str = "default"
    root: str = ""
    turns: int = 0
    used: str | None = None
    text: str = ""
    usd: float | None = 0.0


@value
class UndeliveredText:
    """A text for a session that may not have been shown yet."""

    turn: str
    part: int
    kind: str
    body: str


EventData = Mapping[str, object]


@value
class LiveEvent:
    """One event of a run, by B5's names. Drafts have no `seq`: nobody resumes from them. One
    recorded event may become
    several; `rest` says how many of them follow, for a client that resumes in between.

    cycle.start {iteration, max_iterations, model, window}   model.delta {text}     model.reset {}
    model.retry {error, message, wait_s, next_model}
    message.queued {call_id, kind, channel, chat, due}
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
    agent.ended {key, turn, stop_reason, text}: a step of a composite; else `tool_result` of call
    `key`, or a message, says so
    alarm {kind, text}
    run.suspended {waiting_for}              run.resumed {why}
    run.terminated_by {reason, detail, ok}
    run.completed {reply, text_length, stop_reason, iterations, usage, label}: always the last
    """

    name: str
    data: EventData
    seq: int | None = None
    rest: int = 0


@value
class HealthView:
    """Whether the daemon serves, and its problems."""

    ok: bool
    version: str
    problems: list[str] = field(default_factory=list)


MethodT = TypeVar("MethodT", bound=Callable[..., Any])


@value
class Endpoint:
    """Where a method of `DaemonClient` is served over HTTP. As a decorator it makes the method a
    request: its parameters fill the path, then the query of a GET or the JSON body.

    `result` is the type of the result; `key` its name in the response, where it is not the whole;
    `missing` the thing that 404 or 409 is about: the result is then None, False or empty.
    """

    method: str
    path: str
    result: Any = None
    key: str = ""
    missing: str = ""
    right: Right | Resource = Resource.RUNS

    def __call__(self, declared: MethodT) -> MethodT:
        names = [*signature(declared).parameters][1:]

        @wraps(declared)
        async def request(client: Any, *args: object, **kwargs: object) -> object:
            given = dict(zip(names, args, strict=False)) | kwargs
            return await client.request(self, given)

        vars(request)["endpoint"] = self
        return cast(MethodT, request)


class RunReader:
    """The part that only reads."""

    @Endpoint("GET", "/v1/runs/{turn}", RunView, missing="run")
    async def get_run(self, turn: str) -> RunView | None:
        """The run as it is now."""
        ...

    @Endpoint("GET", "/v1/runs/{turn}/transcript", list, missing="run")
    async def get_transcript(self, turn: str) -> list[dict[str, object]]:
        """Its events: {seq, at, kind, ...payload}."""
        ...

    @Endpoint("GET", "/v1/runs", list[RunLine])
    async def list_runs(
        self, session: str | None = None, limit: int = 50, prefix: str = ""
    ) -> list[RunLine]:
        """Newest first, those that have not begun included; those whose ids begin so."""
        ...

    @Endpoint("GET", "/v1/sessions/{session}/unfinished", list)
    async def list_unfinished(self, session: str) -> list[str]:
        """Runs of a session that are queued, running or suspended, oldest first."""
        ...

    @Endpoint("GET", "/v1/sessions/{session}", SessionView, missing="session")
    async def get_session(self, session: str) -> SessionView | None:
        """The session of this id."""
        ...

    @Endpoint("GET", "/v1/sessions", list[SessionView])
    async def list_sessions(self, limit: int = SESSIONS_PAGE, after: str = "") -> list[SessionView]:
        """A page of sessions, newest first; `after` is the last id of the page before."""
        ...

    @Endpoint("GET", "/v1/sessions/{session}/undelivered", list[UndeliveredText])
    async def list_undelivered(self, session: str) -> list[UndeliveredText]:
        """Texts for the session that are not marked as delivered, in order."""
        ...

    @Endpoint("GET", "/api/loops", list[LoopView])
    async def list_loops(self, agent: str | None = None) -> list[LoopView]:
        """Loops, newest first; of one agent, or of all."""
        ...


class DaemonClient(RunReader):
    """Everything a client can do. Over HTTP the token says who the person is, whatever `by` is."""

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
        """Send a text to a session, with files by their tokens. It is durable when this returns;
        the same client_id again gets the same result.

        `stream` false: nobody watches the draft, so the model is asked for the reply in one piece.
        `data`: parts of the text that were pasted or piped in: they are nobody's orders.
        """
        ...

    async def upload(self, name: str, data: bytes, by: Person = OWNER) -> str:
        """Keep a file for a message that follows; its token. Raises UsageError."""
        ...

    @Endpoint("POST", "/v1/sessions/{session}/agent", right=Right.TALK)
    async def set_agent(self, session: str, agent: str) -> None:
        """This agent answers in the session, from the next message on. Raises UsageError for one
        that cannot be used.
        """
        ...

    async def find_private(self, sessions: Collection[str]) -> set[str]:
        """Those of these sessions whose runs only the owner sees. Not a request of its own."""
        ...

    async def wait_until_ended(self, turn: str) -> RunView:
        """The run once it has ended or is quarantined, however long that takes. Raises KeyError for
        no such run.
        """
        ...

    def stream_events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        """Events after event `after`, then new ones, until run.completed. Raises KeyError for no
        such run.
        """
        ...

    @Endpoint("POST", "/v1/runs/{turn}/cancel", bool, "cancelled", "run", right=Right.WORK)
    async def cancel_run(self, turn: str) -> bool:
        """Stop this run; False when it had ended."""
        ...

    @Endpoint("POST", "/v1/sessions/{session}/stop", list, "stopped", "session", right=Right.WORK)
    async def stop_session(self, session: str) -> list[str]:
        """Stop the runs of the session; their ids."""
        ...

    @Endpoint("GET", "/v1/approvals", list[ApprovalView], right=Resource.APPROVALS)
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
        bounds: "GrantBounds | None" = None,
    ) -> bool:
        """Answer one; False when it is not pending. With CALL_ID/QUESTION, the question of its
        view, it is also False for the same call asked anew. Raises NotAllowedToAnswer, and
        UsageError.
        """
        ...

    @Endpoint("GET", "/v1/grants", list[GrantView], right=Resource.GRANTS)
    async def list_grants(self) -> list[GrantView]:
        """Standing permissions that are valid, oldest first."""
        ...

    @Endpoint("DELETE", "/v1/grants/{id}", bool, "revoked", "grant", right=Right.ANSWER)
    async def revoke_grant(self, id: str) -> bool:
        """Take a permission back; False for an unknown id."""
        ...

    @Endpoint("GET", "/v1/memories", list, right=Resource.MEMORIES)
    async def list_memories(self, limit: int = 50, waiting: str = "") -> list[dict[str, object]]:
        """What is remembered, newest first; with `?waiting=1` what waits for the owner's yes."""
        ...

    @Endpoint("GET", "/v1/memories/search", list, right=Right.MANAGE)
    async def search_memories(
        self, query: str, limit: int = 10, session: str = ""
    ) -> list[dict[str, object]]:
        """What was said that fits, the best first; facts before. `why`: parts of the score."""
        ...

    @Endpoint("GET", "/v1/memories/status", dict, right=Right.MANAGE)
    async def get_memory_status(self) -> dict[str, object]:
        """How many rows there are, how many wait for vectors, by what; what the owner is asked."""
        ...

    @Endpoint("GET", "/v1/memories/export", dict, right=Right.MANAGE)
    async def export_memories(self, after: int = 0) -> dict[str, object]:
        """`lines` as `import_memories` takes them, and `after` which to go on, until none come."""
        ...

    @Endpoint("POST", "/v1/memories/import", int, "added", right=Right.MANAGE)
    async def import_memories(self, lines: Sequence[object], *, trusted: bool = False) -> int:
        """Keep messages of elsewhere; how many are new."""
        ...

    @Endpoint("POST", "/v1/memories/{id}/approve", bool, "approved", "memory", Right.MANAGE)
    async def approve_memory(self, id: str, by: Person = OWNER) -> bool:
        """It is trusted from now on; False when it does not wait."""
        ...

    @Endpoint("POST", "/v1/memories/{id}/reject", bool, "rejected", "memory", Right.MANAGE)
    async def reject_memory(self, id: str, by: Person = OWNER) -> bool:
        """Its text is removed; False when it does not wait."""
        ...

    @Endpoint("DELETE", "/v1/memories/{id}", bool, "forgotten", "memory", right=Right.MANAGE)
    async def forget_memory(self, id: str) -> bool:
        """Remove it for good; False for an unknown id."""
        ...

    @Endpoint("GET", "/v1/schedules", list, right=Resource.SCHEDULES)
    async def list_schedules(self) -> list[dict[str, object]]:
        """What begins by itself, oldest first."""
        ...

    @Endpoint("GET", "/v1/goals", list, right=Resource.GOALS)
    async def list_goals(self) -> list[dict[str, object]]:
        """Work of many days: what is not over first, the newest first."""
        ...

    @Endpoint("POST", "/v1/schedules", str, "said", right=Right.MANAGE)
    async def add_schedule(self, order: "ScheduleOrder") -> str:
        """Do this at its time; what was scheduled, in words. Raises UsageError: nothing was."""
        ...

    @Endpoint("DELETE", "/v1/schedules/{name}", bool, "removed", "schedule", right=Right.MANAGE)
    async def remove_schedule(self, name: str) -> bool:
        """Remove the one of this name or id; False for an unknown one."""
        ...

    @Endpoint("POST", "/v1/runs/{turn}/delivered", right=Right.MANAGE)
    async def mark_delivered(self, turn: str, part: int) -> None:
        """The text has been shown."""
        ...

    @Endpoint("POST", "/v1/people/codes", NewCode, right=Right.MANAGE)
    async def invite(self, role: Role, channel: str = "") -> NewCode:
        """A pairing code: who sends it first gets this role."""
        ...

    @Endpoint("GET", "/v1/people", list[PairedPerson], right=Resource.PEOPLE)
    async def list_people(self) -> list[PairedPerson]:
        """People who were paired by a code."""
        ...

    @Endpoint("POST", "/v1/people/remove", bool, "removed", right=Right.MANAGE)
    async def remove_person(self, name: str) -> bool:
        """Unpair them; False when nobody has this name."""
        ...

    @Endpoint("POST", "/v1/runs/{turn}/secret", bool, "kept", "run", right=Right.MANAGE)
    async def keep_secret(self, turn: str, call_id: str, value: str, by: Person = OWNER) -> bool:
        """Keep what the question of this call asks for; False when it waits no longer."""
        ...

    async def start_loop(self, order: "LoopOrder") -> LoopView:
        """Raises ConfigError, UsageError, LoopNotStarted; over HTTP RequestRefused."""
        ...

    async def change_loop(self, loop: LoopView, action: LoopAction) -> LoopView | None:
        """Stop, pause or resume it; None when its state does not allow that."""
        ...

    async def review_loop(
        self, loop: LoopView, *, approved: bool, by: str, reason: str = ""
    ) -> LoopView | None:
        """Accept or reject the attempt; None when no review is asked for."""
        ...

    @Endpoint("GET", "/health", HealthView, right=Right.CONTACT)
    async def get_health(self) -> HealthView:
        """The daemon's health."""
        ...
