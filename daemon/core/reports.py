"""What is told of the daemon as a whole: its cost, its parts, its agents and its rules. Light."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, MaxLen

from daemon.core import value

Criterion = Literal["max_iterations", "regex", "test_pass", "manual"]


@value
class Spent:
    """What was used under one name: a day, a model or a conversation. usd is None where a price is
    unknown.
    """

    name: str
    tokens: int
    usd: float | None
    calls: int = 0


@value
class CostView:
    """What models cost: by day, oldest first; by model; the conversations that cost most, "" for
    all that are gone; and what the day of today has used up and may. A limit of 0 is none.
    """

    days: list[Spent]
    models: list[Spent]
    sessions: list[Spent]
    today_usd: float
    today_tokens: int
    max_usd: float
    max_tokens: int


@value
class StatusView:
    """The daemon's parts: channels and MCP servers by name with what is wrong ("" for nothing), the
    models in the order in which they are asked, the newest backup.
    """

    version: str
    problems: list[str]
    notes: list[str]
    channels: dict[str, str]
    servers: dict[str, str]
    models: list[str]
    snapshot: str | None = None


@value
class LoopSettings:
    """An agent's own: whether it may be run again and again, until when, and how often at most."""

    enabled: bool = False
    criterion: Criterion = "max_iterations"
    value: Annotated[str, MaxLen(10_000)] = ""
    max_iterations: Annotated[int, Ge(1), Le(100)] = 10


@value
class AgentView:
    """An agent; `fault` says why its file cannot be used, and `warnings` what will not do what was
    probably meant.
    """

    name: str
    loop: LoopSettings
    fault: str = ""
    warnings: tuple[str, ...] = ()


@value
class ForkChange:
    """What is to be otherwise from there on: `prompt` replaces the message at event 1, and later is
    said in addition; `answer`, to what waits there: yes, no, or words; `max_usd` of the turn.
    """

    model: Annotated[str, MaxLen(200)] = ""
    prompt: Annotated[str, MaxLen(100_000)] = ""
    answer: Annotated[str, MaxLen(2000)] = ""
    max_usd: Annotated[float, Gt(0), Le(1_000_000)] | None = None


@value
class ModelAnswer:
    """What a model replied, and what it cost; usd is None where the price is unknown. In place of a
    text there may be a `fault`.
    """

    text: str = ""
    usd: float | None = 0.0
    fault: str = ""


@value
class ForkView:
    """The turn that goes on, and its conversation."""

    turn: str
    session: str


@value
class RuleView:
    """A rule in the owner's words, and how it is read. `session` "" is everywhere."""

    id: str
    said: str
    reading: str
    session: str
    confirmed: bool
