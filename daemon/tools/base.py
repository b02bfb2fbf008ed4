"""What a tool is: its definition, metadata, context and result. `signature.bind` makes one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from hashlib import sha256
from typing import Literal, Protocol

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import AidaemonError
from daemon.core.events import Event
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect, Label
from daemon.core.turn import Turn


class ToolError(AidaemonError):
    """A tool could not do it; the model reads the message."""


class BadArguments(ToolError):
    """The arguments of the call could not be used."""


class RetryableToolError(ToolError):
    """A temporary failure: retried, off-budget (E6)."""


class ServiceUnavailable(RetryableToolError):
    """The service behind a tool fails (5xx)."""


class TimedOut(ToolError):
    """The tool did not return in time."""


@value
class PersonQuestion:
    """What a running call needs to know of a person, with answers to choose from."""

    text: str
    options: tuple[str, ...] = ()


@value
class ToolOutput:
    """What a tool returns. `events` are recorded with the result; `offers` are tools to add to the
    list.

    `seconds` is the time it worked, where that is less than it took, because it waited for a
    person. `from_owner` is False for what another person wrote, however trusted: no argument may
    stand on it. `public`: it shows nothing of the owner's; None for what the tool's metadata say.
    `records`: JSON of the owner's own records that it lists. `holds`: private sources that what it
    shows may hold, by way of a file. `images`: files of pictures that it shows. `question`: this is
    no result; the call goes on when `run` is called again with the answer. `error_class`: what kind
    of failure it is; `ServiceUnavailable` is retried as the error of this name is.
    """

    text: str
    is_error: bool = False
    exit_code: int | None = None
    label: Label = Label.TRUSTED
    offers: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    seconds: float | None = None
    from_owner: bool = True
    public: bool | None = None
    records: str = ""
    holds: tuple[str, ...] = ()
    images: tuple[bytes, ...] = ()
    question: PersonQuestion | None = None
    error_class: str = ""


def make_key(turn: Turn, call_id: str) -> str:
    """Of a call, among those of all turns."""
    return f"{turn.id} {call_id}"


@value
class ToolContext:
    """What the executor knows of the call, never filled in by the model (A10). `record_event`
    commits. `check_address` is asked about every address that the call is led to beyond the one
    that was judged, such as a redirect's, before anything is sent there; raises ToolError.
    `check_content` is for the last moment before something runs: raises ToolError if it is not
    what was allowed any more. `carries`: the private sources that what it writes may hold.
    `unreadable`: patterns of paths that rules let nobody read unasked. `can_ask`: a person who
    began this may be asked for something meanwhile.
    """

    session_id: str
    turn: Turn
    call_id: str
    untrusted_source: bool
    clock: Clock
    on_output: Callable[[str], None]
    record_event: Callable[[Event], Awaitable[None]]
    check_address: Callable[[str], Awaitable[None]]
    check_content: Callable[[], Awaitable[None]]
    carries: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    can_ask: bool = False

    @property
    def key(self) -> str:
        """Of the call, among those of all turns."""
        return make_key(self.turn, self.call_id)


Arguments = Mapping[str, object]
Function = Callable[..., Awaitable[str | ToolOutput]]


@value
class ToolMeta:
    """How a tool is handled. As a decorator, it makes an async function a tool.

    `critical`: arguments that decide where its effect goes; None for all. `ids`: arguments that are
    ids, not addresses, whatever they look like. `paths`: arguments that are workspace paths.
    `warning`: added to the question to a person. `volatile`: a repeated call may give another
    result. `max_chars`: limit of the result, 0 for the default. `returns_outside_text`: an address
    in its result is one that the model has read, not one that it made (trust.md). `source`: the
    common origin of several tools. `public`: its results, or those for these arguments, show
    nothing of the owner's, such as public pages. `query`: the argument that a search engine is
    sent. `classify` gives the effect of a call where that depends on its arguments. `owner_only`:
    nobody else's turn may call it, nor one that came from outside, whoever would say yes;
    `no_others`: nor the turn of a person of a lower role, while what came from outside asks as
    ever. `evidence`: what its trusted results tell is the owner's own word (`known`), or an address
    in them was read (`read`). `lasts`: /undo does not restore a WRITE with these arguments.
    `asks`: it runs once a person has answered, whatever they answer (H1); `clean_only`: nobody is
    asked after text from outside was read.
    """

    effect: Effect = Effect.DESTRUCTIVE
    parallel: bool = False
    idempotent: bool | Callable[[Arguments], bool] = False
    retries: int = 0
    timeout_s: float = 60.0
    critical: tuple[str, ...] | None = None
    ids: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    warning: str = ""
    volatile: bool = False
    max_chars: int = 0
    returns_outside_text: bool = False
    source: str = ""
    public: bool | Callable[[Arguments], bool] = False
    query: str = ""
    classify: Callable[[Arguments], Effect] | None = None
    owner_only: bool = False
    no_others: bool = False
    evidence: Literal["", "known", "read"] = ""
    lasts: Callable[[Arguments], bool] | None = None
    asks: bool = False
    clean_only: bool = False

    def __call__(self, function: Function) -> "ToolDefinition":
        """Its plain parameters are the model's, ToolContext and `_...` the daemon's, the rest are
        parts for `bind`.
        """
        return ToolDefinition(function, self)

    def is_repeatable(self, arguments: Arguments) -> bool:
        """Running it twice does no harm: it only reads, or its author declared it so."""
        declared = self.idempotent
        return self.effect is Effect.READ or (
            declared if isinstance(declared, bool) else declared(arguments)
        )


@value
class BoundContent:
    """The state in which a yes to a call holds. `key` has a digest for each file, as a canonical
    text, "" for no file; `description` tells of the files, a line each.
    """

    key: str = ""
    description: str = ""


class Binder(Protocol):
    """Binds a yes to a call to the state of the files that it may run, not to its words alone."""

    async def look(self, arguments: Arguments, now: datetime) -> BoundContent:
        """The state now."""
        ...

    async def explain_change(self, former: str, key: str) -> str:
        """What is different between two keys, for a person."""
        ...


@value
class Tool:
    """A tool ready to run. `run` takes the model's arguments, without any that start with `_`;
    raises ToolError for bad ones.

    `check` raises the same ToolError before anybody is asked; `is_safe` knows arguments that need
    no approval, and show nothing at paths of these patterns (trust.md); `preview` is what a person
    is shown beside the arguments before they say yes: a change as a diff, a command explained;
    `binds` finds the content that a yes is for; `narrow` is the tool as a call of this turn is
    judged: what can be chosen now; `abandon` ends a call of that key that waits for an answer (see
    `ToolOutput.question`).
    """

    spec: ToolSpec
    meta: ToolMeta
    run: Callable[[Arguments, ToolContext], Awaitable[ToolOutput]] = field(repr=False)
    check: Callable[[Arguments], object] | None = field(default=None, repr=False)
    is_safe: Callable[[Arguments, Sequence[str]], bool] | None = field(default=None, repr=False)
    preview: Callable[[Arguments], str] | None = field(default=None, repr=False)
    binds: Binder | None = field(default=None, repr=False)
    narrow: Callable[[Arguments, Turn], "Tool"] | None = field(default=None, repr=False)
    abandon: Callable[[str], None] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def identity(self) -> str:
        """Of a server's tool: a hash of what it says of itself, and of its effect; "" for ours."""
        meta = self.meta
        said = (self.spec, meta.effect, meta.source)
        return sha256(repr(said).encode("utf-8", "replace")).hexdigest()[:16] if meta.source else ""

    def effect_of(self, arguments: Arguments) -> Effect:
        """What a call with these arguments does to the world."""
        classify = self.meta.classify
        return classify(arguments) if classify else self.meta.effect

    def is_public(self, arguments: Arguments) -> bool:
        """A call with these arguments shows nothing of the owner's."""
        public = self.meta.public
        return public if isinstance(public, bool) else public(arguments)

    def name_source(self, arguments: Arguments) -> str:
        """What a call shows of the owner's: its files, or the tool."""
        places: Sequence[str] = self.meta.paths
        if self.meta.effect is Effect.FETCH:
            places = self.meta.critical or ()
        return ", ".join(str(arguments.get(one) or ".") for one in places) or self.name

    def is_lasting(self, arguments: Arguments) -> bool:
        """Such a write is not restored by /undo: a note of a service, or what the tool says."""
        lasts = self.meta.lasts
        return bool(self.meta.source or (lasts and lasts(arguments)))


@value
class ToolDefinition:
    """A tool as written, before `bind` gives it its parts."""

    function: Function = field(repr=False)
    meta: ToolMeta

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return getattr(self.function, "__name__", "")
