"""What a tool is: its definition, metadata, context and result. `signature.tool` makes one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import AidaemonError
from daemon.core.events import Event
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect, Label
from daemon.core.turn import Turn


class ToolError(AidaemonError):
    """`run` gets the model's arguments, without any that begin with `_`; raises ToolError.

    `check` raises ToolError before anybody is asked; `is_safe`: these arguments need no approval;
    `preview` is shown to a person beside the arguments: a diff, or a command explained.
    """


class RetryableToolError(ToolError):
    """A temporary failure: retried, off-budget (E6)."""


class ServiceUnavailable(RetryableToolError):
    """The service behind a tool fails (5xx)."""


@value
class ToolOutput:
    """What a tool returns. `events` are recorded with the result; `offers` are tools to add to the
    list.

    `seconds` is the time it worked, where that is less than it took, because it waited for a
    person. `from_owner` is False for what another person wrote, however trusted: no argument may
    stand on it.
    """

    text: str
    is_error: bool = False
    exit_code: int | None = None
    label: Label = Label.TRUSTED
    offers: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    seconds: float | None = None
    from_owner: bool = True


@value
class ToolContext:
    """What the executor knows of the call, never filled in by the model (A10). `record_event`
    commits.
    """

    session_id: str
    turn: Turn
    call_id: str
    untrusted_source: bool
    clock: Clock
    on_output: Callable[[str], None]
    record_event: Callable[[Event], Awaitable[None]]


@value
class ToolMeta:
    """How a tool is handled. `critical`: arguments that decide where its effect goes; None for all.

    `paths`: arguments that are workspace paths. `warning`: added to the question to a person.
    `volatile`: a repeated call may give another result. `max_chars`: limit of the result, 0 for the
    default. `returns_outside_text`: an address in its result is one that the model has read, not
    one that it made (trust.md). `source`: the common origin of several tools.
    """

    effect: Effect = Effect.DESTRUCTIVE
    parallel: bool = False
    idempotent: bool = False
    retries: int = 0
    timeout_s: float = 60.0
    critical: tuple[str, ...] | None = None
    paths: tuple[str, ...] = ()
    warning: str = ""
    volatile: bool = False
    max_chars: int = 0
    returns_outside_text: bool = False
    source: str = ""


Run = Callable[[Mapping[str, object], ToolContext], Awaitable[ToolOutput]]
Check = Callable[[Mapping[str, object]], None]
IsSafe = Callable[[Mapping[str, object]], bool]
Preview = Callable[[Mapping[str, object]], str]


def accept_any_arguments(arguments: Mapping[str, object]) -> None:
    """Default: the arguments are checked when the tool runs."""


def never_safe(arguments: Mapping[str, object]) -> bool:
    """Default: no arguments are known to be harmless."""
    return False


def no_preview(arguments: Mapping[str, object]) -> str:
    """Default: the arguments say it all."""
    return ""


@value
class Tool:
    """A tool ready to run. `run` takes the model's arguments, without any that start with `_`;
    raises ToolError for bad ones.

    `check` raises the same ToolError before anybody is asked; `is_safe` knows arguments that need
    no approval (trust.md); `preview` is what a person is shown beside the arguments before they say
    yes: a change as a diff, a command explained.
    """

    spec: ToolSpec
    meta: ToolMeta
    run: Run = field(repr=False)
    check: Check = field(default=accept_any_arguments, repr=False)
    is_safe: IsSafe = field(default=never_safe, repr=False)
    preview: Preview = field(default=no_preview, repr=False)

    @property
    def name(self) -> str:
        return self.spec.name


class GrantStore(Protocol):
    """Standing permissions."""

    async def use_grant(
        self,
        session: str,
        tool: str,
        args_hash: str,
        *,
        paths: Sequence[str],
        untrusted: bool,
        call: str,
    ) -> bool:
        """True if a person has allowed this; it uses the grant up by one.

        `paths`: the places of the call, if only they decide; `untrusted`: the session is from
        outside; `call` is the id of the call, which uses a grant at most once (K7).
        """
        ...
