"""What a client is told of an error."""

import logging

from daemon.core.errors import (
    CONFIG_FAULT,
    ConfigError,
    Fenced,
    IdReused,
    StoreUnavailable,
    UsageError,
)
from daemon.core.rows import NotAllowedToAnswer
from daemon.core.trust import Person, Role
from daemon.http.auth import POLICY
from daemon.http.responses import HttpError
from daemon.loops.config import LoopNotEnabled, LoopNotStarted, UnknownAgent
from daemon.sessions.brakes import TooMany

log = logging.getLogger(__name__)
ERRORS = (
    (NotAllowedToAnswer, *POLICY),
    (UnknownAgent, 404, "no_agent"),
    (LoopNotEnabled, 409, "not_enabled"),
    (LoopNotStarted, 409, "refused"),
    (IdReused, 409, "id_reused"),
    (UsageError | ConfigError, 400, "invalid"),
    (TooMany, 429, "too_many"),
    (StoreUnavailable | Fenced, 503, "unavailable"),
    (Exception, 500, "internal"),
)


def explain_error(error: Exception, person: Person | None) -> HttpError:
    """With its status and type. What is wrong with the config is for its owner only."""
    if isinstance(error, HttpError):
        return error
    status, kind = next((s, k) for known, s, k in ERRORS if isinstance(error, known))
    message = "something went wrong in the daemon; see its log" if status == 500 else str(error)
    if isinstance(error, ConfigError) and (person is None or person.role is not Role.OWNER):
        log.warning("a request of somebody else: %s", error)
        message = CONFIG_FAULT
    wait = error.retry_after if isinstance(error, TooMany) else None
    return HttpError(status, kind, message, wait)
