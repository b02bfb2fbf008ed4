"""What a client can ask of the daemon, in this process or over HTTP, and the views that it gets.

Light: commands that ask a running daemon import this. The views' names and forms are CONTRACT's;
HTTP sends them as they are.
"""

import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from daemon.client.loop_view import LoopAction, LoopView
from daemon.client.view_types import (
    ApprovalView,
    GrantView,
    HealthView,
    LiveEvent,
    MessageView,
    RunLine,
    RunView,
    SendResult,
    SessionView,
    UndeliveredText,
)
from daemon.core import value
from daemon.core.reports import (
    AgentView,
    CostView,
    Criterion,
    ForkView,
    ModelAnswer,
    RuleView,
    StatusView,
)
from daemon.core.trust import OWNER, Answer, NewCode, PairedPerson, Person, Resource, Right, Role

if TYPE_CHECKING:
    from daemon.core.requests import LoopOrder
    from daemon.core.rows import GrantBounds
    from daemon.triggers.orders import ScheduleOrder

SESSION_NAME = re.compile(r"(?!\.{1,2}\Z)[^:/\x00-\x1f\x7f\ud800-\udfff]{1,100}")
"""The name of a session as a person gives it; it is a part of an address too, hence no ".."."""
COMPLETED = "run.completed"
SESSIONS_PAGE, MESSAGES_PAGE = 100, 30
MAX_ROWS, MAX_SECRET_CHARS = 1000, 64 * 1024
Limit = Annotated[int, Ge(1), Le(MAX_ROWS)]
Position = Annotated[int, Ge(0), Le(2**53)]
Name = Annotated[str, MinLen(1), MaxLen(1000)]
Text = Annotated[str, MinLen(1), MaxLen(200_000)]
ScheduleVerb = Literal["run", "pause", "resume"]
GoalVerb = Literal["run", "pause", "resume", "stop"]
ApprovalState = Literal["waiting", "pending", "answered", "consumed", "expired", "void"]


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
    async def get_transcript(
        self, turn: str, after: Position = 0, limit: Position = 0
    ) -> list[dict[str, object]]:
        """Its events: {seq, at, kind, ...payload}; those after event `after`, so many (0: all)."""
        ...

    @Endpoint("GET", "/v1/runs/{turn}/tree", dict, missing="run")
    async def get_tree(self, turn: str) -> dict[str, object]:
        """The run as the tree that the page draws; long texts are shortened."""
        ...

    @Endpoint("GET", "/v1/runs", list[RunLine])
    async def list_runs(
        self,
        session: str | None = None,
        limit: Limit = 50,
        prefix: str = "",
        agent: str = "",
        state: str = "",
        after: str = "",
    ) -> list[RunLine]:
        """Newest first, those that have not begun included. `prefix`: the begin of their ids;
        `state`: a state, or the reason of the end; `after`: the last id of the page before.
        """
        ...

    @Endpoint("GET", "/v1/sessions/{session}/messages", list[MessageView], missing="session")
    async def list_messages(
        self, session: str, limit: Limit = MESSAGES_PAGE, after: str = ""
    ) -> list[MessageView]:
        """What was said in a session and answered, newest first; `after` as in `list_runs`."""
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
    async def list_sessions(
        self, limit: Limit = SESSIONS_PAGE, after: str = ""
    ) -> list[SessionView]:
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
        the same client_id again gets the same result. Raises IdReused for another text.

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

    async def was_sent(self, session: str, client_id: str, by: Person = OWNER) -> bool:
        """Whether this person sent a message of this id there. Not a request of its own."""
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
        self, state: ApprovalState = "pending", session: str | None = None
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
    async def list_memories(self, limit: Limit = 50, waiting: str = "") -> list[dict[str, object]]:
        """What is remembered, newest first; with `?waiting=1` what waits for the owner's yes."""
        ...

    @Endpoint("GET", "/v1/memories/search", list, right=Right.MANAGE)
    async def search_memories(
        self, query: str, limit: Limit = 10, session: str = ""
    ) -> list[dict[str, object]]:
        """What was said that fits, the best first; facts before. `why`: parts of the score."""
        ...

    @Endpoint("GET", "/v1/memories/status", dict, right=Right.MANAGE)
    async def get_memory_status(self) -> dict[str, object]:
        """How many rows there are, how many wait for vectors, by what; what the owner is asked."""
        ...

    @Endpoint("GET", "/v1/memories/export", dict, right=Right.MANAGE)
    async def export_memories(self, after: Position = 0) -> dict[str, object]:
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

    @Endpoint("POST", "/v1/schedules/{name}/change", bool, "changed", "schedule", Right.MANAGE)
    async def change_schedule(self, name: str, verb: ScheduleVerb) -> bool:
        """Run it once now, pause or resume it; False for an unknown one. Raises UsageError where
        its state does not allow that.
        """
        ...

    @Endpoint("POST", "/v1/goals/{id}/change", bool, "changed", right=Right.MANAGE)
    async def change_goal(self, id: str, verb: GoalVerb) -> bool:
        """Run it once now, pause, resume or stop it. Raises UsageError where that cannot be."""
        ...

    @Endpoint("GET", "/v1/rules", list[RuleView], right=Resource.GRANTS)
    async def list_rules(self) -> list[RuleView]:
        """The owner's rules, and how each is read."""
        ...

    @Endpoint("POST", "/v1/rules/{id}/confirm", bool, "confirmed", "rule", Right.MANAGE)
    async def confirm_rule(self, id: str) -> bool:
        """It is read as it was meant; False for an unknown one."""
        ...

    @Endpoint("DELETE", "/v1/rules/{id}", bool, "removed", "rule", Right.MANAGE)
    async def remove_rule(self, id: str) -> bool:
        """It holds no longer; False for an unknown one."""
        ...

    @Endpoint("GET", "/api/agents", list[AgentView], right=Right.WORK)
    async def list_agents(self, by: Person = OWNER) -> list[AgentView]:
        """Agents with their loops' settings, the default one first. What is wrong with a file, and
        commands, are for the owner only.
        """
        ...

    @Endpoint("POST", "/api/agents/{agent}/loop/settings", AgentView, right=Right.MANAGE)
    async def set_loop_settings(
        self,
        agent: str,
        enabled: bool,
        criterion: Criterion = "max_iterations",
        value: Annotated[str, MaxLen(10_000)] = "",
        max_iterations: Annotated[int, Ge(1), Le(100)] = 10,
    ) -> AgentView:
        """Write them into the agent's file (C7). Raises ConfigError, UsageError: nothing was."""
        ...

    @Endpoint("POST", "/v1/runs/{turn}/fork", ForkView, missing="run", right=Right.MANAGE)
    async def fork_run(
        self,
        turn: str,
        at: Annotated[int, Ge(1)],
        model: Annotated[str, MaxLen(200)] = "",
        prompt: Annotated[str, MaxLen(100_000)] = "",
        answer: Annotated[str, MaxLen(2000)] = "",
        max_usd: Annotated[float, Gt(0), Le(1_000_000)] | None = None,
    ) -> ForkView | None:
        """Go on from event `at` of the run, in a conversation of its own, with what is given
        instead (ForkChange). Raises UsageError: nothing was begun.
        """
        ...

    @Endpoint("POST", "/v1/sessions/{session}/judge", ModelAnswer, right=Right.MANAGE)
    async def ask_judge(self, session: str, rules: Text, said: Sequence[Text]) -> ModelAnswer:
        """Ask the model `smart` beside all turns, without tools and history; its cost is that of
        this session. `said`: in turn by the user and the model.
        """
        ...

    @Endpoint("GET", "/v1/costs", CostView, right=Resource.COST)
    async def get_costs(self, days: Annotated[int, Ge(1), Le(366)] = 30) -> CostView:
        """What models cost in so many days: by day, model and conversation."""
        ...

    @Endpoint("GET", "/v1/status", StatusView, right=Right.MANAGE)
    async def get_status(self) -> StatusView:
        """Channels, MCP servers, models, the newest backup, and what is wrong."""
        ...

    @Endpoint("POST", "/v1/runs/{turn}/delivered", right=Right.MANAGE)
    async def mark_delivered(self, turn: str, part: Position) -> None:
        """The text has been shown."""
        ...

    @Endpoint("POST", "/v1/people/codes", NewCode, right=Right.MANAGE)
    async def invite(
        self, role: Role = Role.EDITOR, channel: Annotated[str, MaxLen(64)] = ""
    ) -> NewCode:
        """A pairing code: who sends it first gets this role."""
        ...

    @Endpoint("GET", "/v1/people", list[PairedPerson], right=Resource.PEOPLE)
    async def list_people(self) -> list[PairedPerson]:
        """People who were paired by a code."""
        ...

    @Endpoint("POST", "/v1/people/remove", bool, "removed", right=Right.MANAGE)
    async def remove_person(self, name: Name) -> bool:
        """Unpair them; False when nobody has this name."""
        ...

    @Endpoint("POST", "/v1/runs/{turn}/secret", bool, "kept", "run", right=Right.MANAGE)
    async def keep_secret(
        self,
        turn: str,
        call_id: Annotated[str, MinLen(1), MaxLen(200)],
        value: Annotated[str, MinLen(1), MaxLen(MAX_SECRET_CHARS)],
        by: Person = OWNER,
    ) -> bool:
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
