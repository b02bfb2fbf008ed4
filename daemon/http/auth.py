"""Who may come in: pages of other sites may not (Host, Origin), nor may anyone without the token."""

import hmac
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from aiohttp import web

from daemon.http.config import is_loopback
from daemon.http.wire import Problem

OPEN_PATHS = frozenset({"/health"})
WRONG_TOKENS = 10
WINDOW_S = 60.0


@dataclass(slots=True)
class Gate:
    """Checks each request before it reaches a handler.

    The token is long and random, so guessing is slowed only for those who guess: a right token always opens, or else a
    forgotten script with an old token would lock its owner out.
    """

    token: str = field(repr=False)
    monotonic: Callable[[], float]
    _wrong: deque[float] = field(default_factory=lambda: deque(maxlen=WRONG_TOKENS))

    def __post_init__(self) -> None:
        if not self.token:
            raise ValueError("a gate needs a token")

    def admit(self, request: web.BaseRequest) -> None:
        """Raises Problem: 403 for a foreign Host or Origin, 401 without the token, 429 for a row of wrong ones."""
        host = request.headers.get("Host", "")
        _check_host(host)
        origin = request.headers.get("Origin")
        if origin is not None:
            _check_origin(origin, host)
        if request.path not in OPEN_PATHS:
            self._check_token(request.headers.get("Authorization", ""))

    def _check_token(self, authorization: str) -> None:
        scheme, _, shown = authorization.partition(" ")
        if scheme.lower() != "bearer" or not shown:
            raise Problem(401, "unauthorized", "expected the header: Authorization: Bearer TOKEN")
        if hmac.compare_digest(_bytes(shown.strip()), _bytes(self.token)):
            return
        now = self.monotonic()
        if len(self._wrong) == WRONG_TOKENS and now - self._wrong[0] < WINDOW_S:
            raise Problem(429, "too_many_attempts", "too many wrong tokens; wait a minute")
        self._wrong.append(now)
        raise Problem(401, "unauthorized", "the token is not the daemon's")


def _check_host(host: str) -> None:
    """A page that makes its own name resolve to this machine still sends that name (DNS rebinding)."""
    where = _split(f"//{host}")
    if where is None or "@" in host or not is_loopback(where.hostname or ""):
        raise Problem(403, "forbidden", "the Host header is not a name of this machine")


def _check_origin(origin: str, host: str) -> None:
    where, ours = _split(origin), _split(f"//{host}")
    same = (
        where is not None
        and ours is not None
        and where.scheme == "http"
        and is_loopback(where.hostname or "")
        and (where.port or 80) == (ours.port or 80)
    )
    if not same:
        raise Problem(403, "forbidden", "pages of other sites may not talk to the daemon")


def _split(address: str) -> SplitResult | None:
    try:
        where = urlsplit(address)
        _ = where.port  # a port that is no number is found out only here
    except ValueError:
        return None
    return where


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
