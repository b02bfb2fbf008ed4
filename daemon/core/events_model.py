"""Events of talking to models: the calls of the loop itself, and the small ones beside it."""

from dataclasses import dataclass
from datetime import datetime

from daemon.core.label import Label
from daemon.core.messages import Native, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """Written before each model call: what replay needs, and the reservation that counts as spent until settled.

    `reserved_usd` is None only in journals of before there was a worst case for unknown prices. `label` is that of the words in
    which the tools are described: those of a server's tools are a stranger's (A22).
    """

    iteration: int
    provider: str
    model: str
    prompt_hash: str
    tools_hash: str
    tools: tuple[str, ...]
    memory_hits: tuple[str, ...]
    clock: datetime
    seed: int
    reserved_tokens: int
    reserved_usd: float | None
    closing: bool = False
    label: Label = Label.TRUSTED


@dataclass(frozen=True, slots=True)
class ModelRetried:
    """A call failed and another follows, off-budget: the same model after `wait_s`, or `next_model` (A7)."""

    provider: str
    model: str
    error: str
    message: str
    wait_s: float
    next_provider: str
    next_model: str


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """No model would answer; the turn ends FAILED."""

    error: str
    message: str


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """The reply, whole. A `closing` one makes no iteration, even when the model asks for tools that it was not given (A12).

    `cycle` says that it makes one even without a call (B3). `charged_usd` is what budgets count: the worst case where the
    price is not known (F2).
    """

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    provider: str
    model: str
    finish: str
    importance: float
    seconds: float = 0.0
    closing: bool = False
    native: Native | None = None
    cycle: bool = False
    charged_usd: float | None = None

    @property
    def counts(self) -> bool:
        """It makes an iteration."""
        return (self.cycle or bool(self.calls)) and not self.closing

    @property
    def charged(self) -> float:
        """What budgets count, in USD."""
        return (self.usage.usd or 0.0) if self.charged_usd is None else self.charged_usd


@dataclass(frozen=True, slots=True)
class Consulting:
    """A small question to a model beside the loop is about to be asked: a summary, a verdict, a class, a reflection."""

    purpose: str
    provider: str
    model: str
    reserved_tokens: int
    reserved_usd: float


@dataclass(frozen=True, slots=True)
class Consulted:
    """What came of it; `error` where nothing did. It is charged like any other call (F2)."""

    purpose: str
    text: str
    usage: Usage
    provider: str
    model: str
    charged_usd: float = 0.0
    seconds: float = 0.0
    error: str = ""
