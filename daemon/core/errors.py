"""One tree of errors, by what the receiver can do about them. A class's docstring is its default
message.
"""

from enum import StrEnum

from daemon.core import value


class AidaemonError(Exception):
    """Something went wrong."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class UsageError(AidaemonError):
    """The command line was not understood."""


class ConfigError(AidaemonError):
    """The configuration is not usable."""


CONFIG_FAULT = "something is wrong in the daemon's settings; its owner finds it in the log"
"""What others than the owner are told of a ConfigError, which may name files and quote them."""


class SecretRefused(AidaemonError):
    """There is no such secret, or it may not be sent there."""


class HomeInUse(AidaemonError):
    """Another daemon runs on this home directory."""


class Fenced(AidaemonError):
    """Another worker owns this session now; nothing was written."""


class StoreUnavailable(AidaemonError):
    """The journal cannot be written; nothing was acknowledged and no tool was started."""


class Conflict(AidaemonError):
    """A row of this id stands in the journal already; nothing was written."""


class IdReused(AidaemonError):
    """This id belongs to another message here; nothing was accepted. Send it with a new id."""


class UnknownTurn(AidaemonError):
    """This turn has not begun in this session; nothing was written."""


class ErrorClass(StrEnum):
    """What kind of trouble a provider is in; each has one answer (A7)."""

    AUTH = "auth"
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    NETWORK = "network"
    SERVER = "server"
    MALFORMED = "malformed"
    NOT_FOUND = "not_found"
    CONTEXT_TOO_LONG = "context_too_long"
    BAD_REQUEST = "bad_request"
    FILTERED = "filtered"
    UNKNOWN = "unknown"


UNBILLED = (
    ErrorClass.AUTH, ErrorClass.BILLING, ErrorClass.NOT_FOUND, ErrorClass.BAD_REQUEST,
    ErrorClass.FILTERED,
    ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED, ErrorClass.CONTEXT_TOO_LONG,
)  # fmt: skip


class ProviderError(AidaemonError):
    """The model could not be reached or would not answer. `parameters`: what of the request could
    be left out.
    """

    def __init__(
        self,
        kind: ErrorClass,
        message: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        parameters: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        self.status = status
        self.parameters = parameters


class UnreadableDocument(AidaemonError):
    """What a file says is not known; the message says why, as in "it has a password"."""


@value
class Shortage:
    """Which account stands in the way, of what kind, and what it has used up of how much; `missing`
    is what there would have to be on top, for the call that was meant. `reservations`: how many
    calls may still give something back.
    """

    budget: str
    kind: str
    used: float
    cap: float
    missing: float = 0.0
    reservations: int = 0


class BudgetExceeded(AidaemonError):
    """The next model call could cost more than what is left."""

    def __init__(self, shortage: Shortage) -> None:
        super().__init__(shortage.kind)
        self.shortage = shortage
