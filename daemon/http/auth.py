"""Who comes in, and who that is: pages of other sites may not (Host, Origin), nor may anyone without a token."""

import hmac
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from aiohttp import web

from daemon.core.errors import ConfigError
from daemon.core.trust import OWNER, Person
from daemon.http.config import is_loopback
from daemon.http.permissions import EVENTS_PATH, PERSON, require_right, route_key
from daemon.http.responses import HttpError

HEALTH = "/health"
WRONG_TOKENS = 10
WINDOW_S = 60.0


@dataclass(slots=True)
class Authenticator:
    """Checks each request before it reaches a handler; `people` and `senders` of events are known by their tokens.

    Tokens are long and random, so guessing is slowed only for those who guess: a right token always opens, or else a
    forgotten script with an old token would lock its owner out.
    """

    token: str = field(repr=False)
    monotonic: Callable[[], float]
    people: Mapping[str, Person] = field(default_factory=dict, repr=False)
    senders: Mapping[str, str] = field(default_factory=dict, repr=False)
    _wrong: deque[float] = field(default_factory=lambda: deque(maxlen=WRONG_TOKENS))

    def __post_init__(self) -> None:
        if not self.token:
            raise ValueError("a gate needs a token")
        shared = next(
            (name for name, token in self.senders.items() if token in {self.token, *self.people}),
            "",
        )
        if shared:
            raise ConfigError(
                f"events.tokens.{shared}: is a person's token at the HTTP door too; expected one of its own"
            )

    def authenticate(self, request: web.Request) -> None:
        """Raises Problem: 403 for a foreign Host or Origin or what the person may not do, 401 without a token, 429 for a row
        of wrong ones. A person who is let in stands in the request, under WHO.
        """
        host = request.headers.get("Host", "")
        _check_host(host)
        origin = request.headers.get("Origin")
        if origin is not None:
            _check_origin(origin, host)
        if request.path == HEALTH:
            return
        shown, place = _bearer_token(request.headers.get("Authorization", "")), route_key(request)
        if place and place[1] == EVENTS_PATH:
            self._check_sender(shown, request.match_info["name"])
            return
        person = self._person(shown)
        request[PERSON] = person
        if place:
            require_right(person, place)

    def _check_sender(self, shown: str, name: str) -> None:
        """The token of this name; nobody else's, not even the owner's. Which names there are is not told."""
        known = self.senders.get(name, "")
        if not (_tokens_match(shown, known or self.token) and known):
            raise self._count_wrong_token("the token is not that of this event")

    def _person(self, shown: str) -> Person:
        """Compared with every token there is, so that the time it takes tells nothing."""
        known = [(self.token, OWNER), *self.people.items()]
        found = [person for token, person in known if _tokens_match(shown, token)]
        if not found:
            raise self._count_wrong_token("the token is not the daemon's")
        return found[0]

    def _count_wrong_token(self, message: str) -> HttpError:
        now = self.monotonic()
        if len(self._wrong) == WRONG_TOKENS and now - self._wrong[0] < WINDOW_S:
            return HttpError(429, "too_many_attempts", "too many wrong tokens; wait a minute")
        self._wrong.append(now)
        return HttpError(401, "unauthorized", message)


def _bearer_token(authorization: str) -> str:
    scheme, _, shown = authorization.partition(" ")
    if scheme.lower() != "bearer" or not shown:
        raise HttpError(401, "unauthorized", "expected the header: Authorization: Bearer TOKEN")
    return shown.strip()


def _tokens_match(shown: str, token: str) -> bool:
    return hmac.compare_digest(_encode(shown), _encode(token))


def _check_host(host: str) -> None:
    """A page that makes its own name resolve to this machine still sends that name (DNS rebinding)."""
    where = _parse_url(f"//{host}")
    if where is None or "@" in host or not is_loopback(where.hostname or ""):
        raise HttpError(403, "forbidden", "the Host header is not a name of this machine")


def _check_origin(origin: str, host: str) -> None:
    where, ours = _parse_url(origin), _parse_url(f"//{host}")
    same = (
        where is not None
        and ours is not None
        and where.scheme == "http"
        and is_loopback(where.hostname or "")
        and (where.port or 80) == (ours.port or 80)
    )
    if not same:
        raise HttpError(403, "forbidden", "pages of other sites may not talk to the daemon")


def _parse_url(address: str) -> SplitResult | None:
    try:
        where = urlsplit(address)
        _ = where.port  # a port that is no number is found out only here
    except ValueError:
        return None
    return where


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
