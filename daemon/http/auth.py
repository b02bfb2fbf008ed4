"""Checks each request: Host and Origin against pages of other sites, the token, and what the
address asks of the person (C9): every route names the right that it needs.
"""

import hmac
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from urllib.parse import SplitResult, urlsplit

from aiohttp import BasicAuth, web

from daemon.client.protocol import SESSION_NAME, DaemonClient
from daemon.core.errors import ConfigError
from daemon.core.trust import (
    OWNER,
    Access,
    Person,
    Resource,
    Right,
    Role,
    find_access,
    has_right,
)
from daemon.http.config import is_loopback
from daemon.http.page import FILES_PATH, PLACES, VENDOR_PATH
from daemon.http.responses import BODY_HASH, PERSON, HttpError, invalid
from daemon.http.sign_in import LOOK, REDEEM, SIGN_OUT, SignIns, find_signature, name_cookie

POLICY = 403, "POLICY_ERROR"
CREATABLE_CHANNELS = ("web", "terminal")
SIGNED_OUT = "you are signed out: open the page again by the command `aidaemon open`"
FORGED = frozenset("@/?#\\")
"""Signs that no name of a machine has."""
WRONG_CODE = (
    "this link has been used, or is older than five minutes: the command `aidaemon open` makes a"
    " new one"
)
RIGHT_TEXTS = {
    Resource.RUNS: "look at what others do",
    Right.TALK: "talk to the assistant",
    Right.WORK: "start, stop or approve work",
    Right.ANSWER: "say yes to what it asks",
    Right.MANAGE: "manage the daemon",
}
Handler = Callable[[DaemonClient, web.Request], Awaitable[web.StreamResponse]]


async def serve(
    client: DaemonClient, right: Right | Resource, handler: Handler, request: web.Request
) -> web.StreamResponse:
    """Serve a request of a person who has this right, or sees this resource. Raises HttpError for
    anybody else, and where it is about a conversation of the owner's own that they do not see.
    """
    person = request[PERSON]
    require_right(person, right)
    about = right if isinstance(right, Resource) else Resource.RUNS
    # who answers a question is checked with the question
    if right is not Right.TALK and sees_others_only(person, about):
        await require_shared(client, person, request)
    return await handler(client, request)


def require_right(person: Person, right: Right | Resource) -> None:
    """Raises HttpError for somebody who does not have it."""
    if not has_right(person.role, right):
        article = "an" if person.role.value[0] in "aeo" else "a"
        raise HttpError(
            *POLICY,
            f"{person.name} is {article} {person.role.value} here and may not"
            f" {RIGHT_TEXTS.get(right, 'do this')}; nothing was done",
        )


def sees_others_only(person: Person, resource: Resource) -> bool:
    """All but what is in conversations of the owner's own."""
    return find_access(person.role, resource) is Access.OTHERS


async def require_shared(client: DaemonClient, person: Person, request: web.Request) -> None:
    """Raises HttpError where the request names a run or conversation of the owner's own."""
    session, turn = request.match_info.get("session"), request.match_info.get("turn")
    if turn is not None:
        view = await client.get_run(turn)
        session = view.session if view else None
    if session and await client.find_private([session]):
        raise HttpError(
            *POLICY, f"this conversation is the owner's own; {person.name} may not read it"
        )


def require_own_session(person: Person, session: str) -> None:
    """Raises HttpError unless the person may write in this session: the owner in all, others in
    those of their name.
    """
    own = f"web:{person.name}"
    if person.role is not Role.OWNER and session != own and not session.startswith(f"{own}."):
        raise HttpError(
            *POLICY,
            f"{person.name} may write in {own} and in {own}.ANYTHING, and in no other conversation",
        )


def parse_session(
    person: Person, name: str | None, channels: Sequence[str] = CREATABLE_CHANNELS
) -> str:
    """The session that NAME or CHANNEL:NAME means, without a name the person's own. Raises
    HttpError for one where the person may not write.
    """
    if name is None:
        name = "default" if person.role is Role.OWNER else person.name
    channel, colon, chat = name.rpartition(":")
    channel = channel if colon else channels[0]
    if channel not in channels or not SESSION_NAME.fullmatch(chat):
        forms = " or ".join(f"{channel}:NAME" for channel in channels)
        raise invalid(
            f"session: expected NAME or {forms}, with no ':' or '/' in it and at most 100"
            " characters; sessions of other channels cannot be written to from here"
        )
    session = f"{channel}:{chat}"
    require_own_session(person, session)
    return session


HEALTH = "/health"
EVENTS_PATH = "/v1/events/{name}"
MAX_WRONG_TOKENS = 10
WINDOW_S = 60.0
OPEN_PATHS = frozenset({HEALTH, FILES_PATH, VENDOR_PATH, LOOK, REDEEM, SIGN_OUT, *PLACES})
"""They need no token: nothing of anybody is there."""


@dataclass(slots=True)
class Authenticator:
    """`people` by their tokens, tokens of `senders` of events by their names; names of those that
    sign.

    Only wrong tokens are limited: the right one always works, so that an old script cannot lock its
    owner out.
    """

    token: str = field(repr=False)
    monotonic: Callable[[], float]
    people: Mapping[str, Person] = field(default_factory=dict, repr=False)
    senders: Mapping[str, str] = field(default_factory=dict, repr=False)
    signed: Collection[str] = ()
    sign_ins: SignIns | None = None
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
        if address is None or FORGED & {*host} or not is_loopback(address.hostname or ""):
            raise HttpError(403, "forbidden", "the Host header is not a name of this machine")
        origin = request.headers.get("Origin")
        if origin is not None and not _is_same_origin(_parse_url(origin), address):
            raise HttpError(403, "forbidden", "pages of other sites may not use the daemon")
        resource = request.match_info.route.resource
        place = resource.canonical if resource else ""
        if place in OPEN_PATHS:
            return
        is_event = place == EVENTS_PATH
        if is_event and request.match_info["name"] in self.signed:
            return  # its signature is over the body, which is read later
        scheme, token = _find_token(request, is_event)
        if not (scheme or is_event) and (person := self._find_signed_in(request)):
            request[PERSON] = person
            return
        if scheme.lower() != "bearer" or not token:
            message = "expected the header: Authorization: Bearer TOKEN"
            raise HttpError(401, "unauthorized", message)
        if is_event:
            # only the token of this name counts; the response does not say which names exist
            known = self.senders.get(request.match_info["name"], "")
            if not (_tokens_match(token, known or self.token) and known):
                raise self.count_wrong_token("the token is not the token of this event")
            return
        # compare with every token, so that the time says nothing
        tokens = ((self.token, OWNER), *self.people.items())
        people = [person for known, person in tokens if _tokens_match(token, known)]
        if not people:
            raise self.count_wrong_token("the token is not the daemon's")
        request[PERSON] = people[0]

    def _find_signed_in(self, request: web.Request) -> Person | None:
        """Whose browser it is. Raises HttpError for one that has to sign in again."""
        cookie, signature = request.cookies.get(name_cookie(request)), find_signature(request)
        if self.sign_ins is None or not (cookie or signature):
            return None
        signed = f"{request.method} {request.raw_path}"
        found = self.sign_ins.find_person(cookie or "", signature, signed)
        if found is None:
            raise HttpError(401, "signed_out", SIGNED_OUT)
        person, request[BODY_HASH] = found
        return person

    def refuse_code(self) -> HttpError:
        """A code is wrong: counted as a wrong token."""
        return self.count_wrong_token(WRONG_CODE)

    def count_wrong_token(self, message: str) -> HttpError:
        now = self.monotonic()
        if len(self._wrong) == MAX_WRONG_TOKENS and now - self._wrong[0] < WINDOW_S:
            wait = max(1, ceil(self._wrong[0] + WINDOW_S - now))
            text = f"too many wrong tokens; nothing was accepted, try again in {wait} s"
            return HttpError(429, "too_many_attempts", text, wait)
        self._wrong.append(now)
        return HttpError(401, "unauthorized", message)


def _find_token(request: web.Request, is_event: bool) -> tuple[str, str]:
    """(scheme, token). Senders of events may send it as GitLab does, or as a password."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if is_event and not scheme and (given := request.headers.get("X-Gitlab-Token")):
        return "bearer", given.strip()
    if is_event and scheme.lower() == "basic":
        with suppress(ValueError):
            return "bearer", BasicAuth.decode(f"{scheme} {token}", "utf-8").password
    return scheme, token


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


@lru_cache(64)
def _parse_url(address: str) -> SplitResult | None:
    try:
        url = urlsplit(address)
        _ = url.port  # raises for a port that is no number
    except ValueError:
        return None
    return url
