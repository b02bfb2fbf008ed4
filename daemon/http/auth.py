"""Checks each request: Host and Origin against pages of other sites, and the token."""

import hmac
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from aiohttp import web

from daemon.core.errors import ConfigError
from daemon.core.trust import OWNER, Person
from daemon.http.config import is_loopback
from daemon.http.permissions import PERSON
from daemon.http.responses import HttpError

HEALTH = "/health"
EVENTS_PATH = "/v1/events/{name}"
MAX_WRONG_TOKENS = 10
WINDOW_S = 60.0


@dataclass(slots=True)
class Authenticator:
    """`people` by their tokens, tokens of `senders` of events by their names.

    Only wrong tokens are limited: the right one always works, so that an old script cannot lock its
    owner out.
    """

    token: str = field(repr=False)
    monotonic: Callable[[], float]
    people: Mapping[str, Person] = field(default_factory=dict, repr=False)
    senders: Mapping[str, str] = field(default_factory=dict, repr=False)
    _wrong: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_WRONG_TOKENS))

    def __post_init__(self) -> None:
        if not self.token:
            raise ValueError("the owner's token is empty")
        for name, token in self.senders.items():
            if token in {self.token, *self.people}:
                raise ConfigError(
                    f"events.tokens.{name}: is a person's HTTP token too; expected one of its own"
                )

    def authenticate(self, request: web.Request) -> None:
        """Put the person into the request under PERSON.

        Raises HttpError: 403 for a foreign Host or Origin, 401 without a token, 429 after many
        wrong ones.
        """
        host = request.headers.get("Host", "")
        address = _parse_url(f"//{host}")
        # a page can make its own name resolve to this machine (DNS rebinding), but sends that name
        if address is None or "@" in host or not is_loopback(address.hostname or ""):
            raise HttpError(403, "forbidden", "the Host header is not a name of this machine")
        origin = request.headers.get("Origin")
        if origin is not None and not _is_same_origin(_parse_url(origin), address):
            raise HttpError(403, "forbidden", "pages of other sites may not use the daemon")
        if request.path == HEALTH:
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            message = "expected the header: Authorization: Bearer TOKEN"
            raise HttpError(401, "unauthorized", message)
        resource = request.match_info.route.resource
        if resource is not None and resource.canonical == EVENTS_PATH:
            # only the token of this name counts; the response does not say which names exist
            known = self.senders.get(request.match_info["name"], "")
            if not (_tokens_match(token, known or self.token) and known):
                raise self._count_wrong_token("the token is not the token of this event")
            return
        # compare with every token, so that the time says nothing
        tokens = ((self.token, OWNER), *self.people.items())
        people = [person for known, person in tokens if _tokens_match(token, known)]
        if not people:
            raise self._count_wrong_token("the token is not the daemon's")
        request[PERSON] = people[0]

    def _count_wrong_token(self, message: str) -> HttpError:
        now = self.monotonic()
        if len(self._wrong) == MAX_WRONG_TOKENS and now - self._wrong[0] < WINDOW_S:
            return HttpError(429, "too_many_attempts", "too many wrong tokens; wait a minute")
        self._wrong.append(now)
        return HttpError(401, "unauthorized", message)


def _tokens_match(token: str, known: str) -> bool:
    encoded = (text.encode("utf-8", "surrogateescape") for text in (token, known))
    return hmac.compare_digest(*encoded)


def _is_same_origin(origin: SplitResult | None, host: SplitResult) -> bool:
    return (
        origin is not None
        and origin.scheme == "http"
        and is_loopback(origin.hostname or "")
        and (origin.port or 80) == (host.port or 80)
    )


def _parse_url(address: str) -> SplitResult | None:
    try:
        url = urlsplit(address)
        _ = url.port  # raises for a port that is no number
    except ValueError:
        return None
    return url
