"""What a tool is: one decorated function (the decorator is in tools/decorate.py), its metadata, its result."""

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
    """The tool could not do it. The model is shown the message."""


class RetryableToolError(ToolError):
    """A passing trouble: worth another try, off-budget (E6)."""


class ServiceUnavailable(RetryableToolError):
    """The service behind a tool is failing (5xx)."""


@value
class ToolOutput:
    """What a tool gives back. `also` are events recorded with the result; `offers` names tools to add to the list; `seconds` is
    how long it worked, where that is less than it took: it waited for a person. `owned` is False for what somebody else than the
    owner wrote, however much they are trusted: no argument may stand on it.
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
    """What the dispatcher knows of the call; filled by the house, never by the model (A10). `note` writes an event down now."""

    session_id: str
    turn: Turn
    call_id: str
    untrusted_source: bool
    clock: Clock
    on_output: Callable[[str], None]
    record_event: Callable[[Event], Awaitable[None]]


@value
class ToolMeta:
    """How a tool may be handled. `critical` names the arguments that decide where an effect goes; None means all of them.

    `paths` names the arguments that are paths in the workspace; `warning` is added to what a person is told before saying yes.
    `volatile`: asked again, it may well say something else, so it is run again. `max_chars`: how long its result may be, where
    that is not what holds for all. `outside`: its results bring text from outside as it stood there, so an address in them is
    one that the model has read, not one that it made (DESIGN 6); `source` is whose they are, where several tools share one.
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
    """The check of a tool that looks at its arguments only when it runs."""


def never_safe(arguments: Mapping[str, object]) -> bool:
    """For tools that have no grammar of harmless arguments."""
    return False


def no_preview(arguments: Mapping[str, object]) -> str:
    """For tools whose arguments say all there is to know."""
    return ""


@value
class Tool:
    """A tool ready to run. `run` takes the model's arguments, without any that start with `_`; raises ToolError for bad ones.

    `check` raises the same ToolError before anybody is asked; `is_safe` knows arguments that need no approval (DESIGN 6);
    `preview` is what a person is shown beside the arguments before they say yes: a change as a diff, a command explained.
    """

    spec: ToolSpec
    meta: ToolMeta
    run: Run = field(repr=False)
    check: Check = field(default=accept_any_arguments, repr=False)
    is_safe: IsSafe = field(default=never_safe, repr=False)
    preview: Preview = field(default=no_preview, repr=False)

    @property
    def name(self) -> str:
        """The name the model calls it by."""
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
        """A person has allowed this, here or everywhere; True uses the permission up by one.

        `paths`: where the call goes, when nothing else about it counts; `untrusted`: the session is one from outside; `call`
        is the call's own name, and the same one uses a permission once, however often it is asked for (K7).
        """
        ...
