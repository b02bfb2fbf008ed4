"""A dispatcher with real tools over a turn whose journal is a list, for tests of tools."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic

from daemon.core.errors import StoreUnavailable
from daemon.core.event_bus import EventBus
from daemon.core.events import (
    Answer,
    ApprovalAnswered,
    Event,
    Limits,
    ModelReplied,
    RecordedEvent,
    ToolFinished,
    UserSaid,
)
from daemon.core.messages import ToolCall, Usage
from daemon.core.provenance import TrustContext
from daemon.core.rows import Disclosure
from daemon.core.trust import Label, ToolApprovals
from daemon.core.turn import Turn
from daemon.tools.base import Tool, ToolContext
from daemon.tools.executor import ToolExecutor
from daemon.tools.policy.gate import PolicyGate
from daemon.tools.policy.grants import GrantRequest
from daemon.tools.policy.rules import RuleSet
from daemon.tools.registry import ToolRegistry
from daemon.tools.signature import ToolDefinition, bind

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass
class SteadyClock:
    """A wall clock that stands at noon; the stopwatch is real."""

    at: datetime = NOON

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return monotonic()


@dataclass
class ListJournal:
    """Keeps commits as they came. `broken` makes the next ones fail, `slow` holds them up until it is set."""

    commits: list[tuple[RecordedEvent, ...]] = field(default_factory=list)
    broken: int = 0
    slow: asyncio.Event | None = None
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def append(self, turn_id: str, recorded: Sequence[RecordedEvent]) -> None:
        self.reached.set()
        if self.slow:
            await self.slow.wait()
        if self.broken:
            self.broken -= 1
            raise StoreUnavailable("the disk is full")
        self.commits.append(tuple(recorded))

    @property
    def events(self) -> list[Event]:
        return [one.event for commit in self.commits for one in commit]


@dataclass
class SomeGrants:
    """Standing permissions for these tools, whatever the arguments."""

    tools: tuple[str, ...] = ()

    async def use_grant(self, session: str, wanted: GrantRequest, call: str) -> bool:
        return wanted.tool in self.tools

    async def count_disclosure(self, disclosure: Disclosure) -> str:
        return ""

    async def count_order(self, deed: Disclosure, *, bare: bool) -> bool:
        return False

    async def explain_crowd(self, turn: Turn) -> str:
        return ""

    async def is_shared(self, session: str) -> bool:
        return False

    async def find_former(self, session: str, wanted: GrantRequest) -> str | None:
        return None


@dataclass
class Naps:
    """A sleep that only notes how long it should have been."""

    taken: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


@dataclass
class Bench:
    """A turn, its journal, and a dispatcher over some tools."""

    tools: Sequence[ToolDefinition | Tool] = ()
    parts: dict[type, object] = field(default_factory=dict)
    label: Label = Label.TRUSTED
    session_label: Label = Label.TRUSTED
    approvals: ToolApprovals = field(default_factory=ToolApprovals)
    granted: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    max_output_chars: int = 4000
    journal: ListJournal = field(default_factory=ListJournal)
    clock: SteadyClock = field(default_factory=SteadyClock)
    naps: Naps = field(default_factory=Naps)
    live: EventBus = field(default_factory=EventBus)

    def __post_init__(self) -> None:
        self.turn = self.fresh_turn()
        self.turn.record(UserSaid("go", "me", "in1", self.label, 0.5, self.limits), NOON)
        definitions = [one for one in self.tools if isinstance(one, ToolDefinition)]
        ready = [one for one in self.tools if isinstance(one, Tool)]
        toolbox = ToolRegistry([*bind(definitions, self.parts), *ready])
        gate = PolicyGate(
            registry=toolbox, grants=SomeGrants(self.granted), rules=RuleSet(toolbox), approvals=self.approvals,
            protected_paths=self.protected,
        )  # fmt: skip
        self.dispatcher = ToolExecutor(
            registry=toolbox, gate=gate, live=self.live, clock=self.clock,
            max_output_chars=self.max_output_chars, sleep=self.naps,
        )  # fmt: skip

    def fresh_turn(self) -> Turn:
        return Turn("t1", "terminal:test", self.journal)

    def asks(self, *calls: tuple[str, str]) -> None:
        """The model replies with these calls."""
        wanted = tuple(ToolCall("call_0", name, arguments) for name, arguments in calls)
        self.turn.record(ModelReplied("", wanted, Usage(), "p", "m", "tool_calls", 0.5), NOON)

    async def run(self, *calls: tuple[str, str]) -> list[ToolFinished | None]:
        """The model asks for these; what came of each."""
        self.asks(*calls)
        await self.again()
        return self.results

    async def one(self, name: str, arguments: str = "{}") -> ToolFinished:
        """One call that must have a result."""
        result = (await self.run((name, arguments)))[0]
        assert result is not None
        return result

    def context(self) -> ToolContext:
        """What the tool of the first call is given."""

        async def nothing(*_: object) -> None: ...

        return ToolContext(
            "terminal:test", self.turn, self.turn.calls[0].call_id, False, self.clock,
            lambda text: None, nothing, nothing, nothing,
        )  # fmt: skip

    async def again(self) -> None:
        """Dispatch what is pending."""
        await self.dispatcher.run_pending(self.turn, TrustContext(self.session_label))

    def answer(self, call_id: str, answer: Answer = Answer.ONCE, reason: str = "") -> None:
        """A person answers."""
        self.turn.record(
            ApprovalAnswered(call_id, answer, "owner", reason), NOON + timedelta(minutes=1)
        )

    def restart(self) -> None:
        """A crash: all that is left is what was committed."""
        turn = self.fresh_turn()
        for commit in self.journal.commits:
            for recorded in commit:
                turn.replay(recorded)
        self.turn = turn

    @property
    def results(self) -> list[ToolFinished | None]:
        return [state.result for state in self.turn.calls]

    def recorded(self, kind: type[Event]) -> list[Event]:
        return [one.event for one in self.turn.events if isinstance(one.event, kind)]
