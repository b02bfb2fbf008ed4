"""Sign-in to the page: a one-time code in a link, then a cookie and a key.

A cookie goes to every port of this machine, so the cookie alone opens nothing: each request of the
page is signed with the key, which the browser keeps for this address and sends to nobody. Both are
made of the person's token and a secret of the daemon's; nothing is stored, and a changed token ends
every sign-in.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from secrets import token_urlsafe
from urllib.parse import urlsplit

from aiohttp import web

from daemon.core import value
from daemon.core.trust import RIGHTS, Person
from daemon.http.responses import PERSON, Body, json_response, read_body

SIGNATURE, SIGNED_PROTOCOL = "X-Aidaemon-Signature", "sig."
CODE_S, MAX_CODES, CODE_BYTES = 300.0, 4, 1024
SESSION_S, SIGNATURE_S = 30 * 86_400, 60
SIGN_IN, LOOK, REDEEM, SIGN_OUT, WHO = (
    "/v1/sign-in",
    "/v1/sign-in/look",
    "/v1/sign-in/redeem",
    "/v1/sign-out",
    "/v1/me",
)


@value
class Session:
    """What a browser gets."""

    cookie: str = field(repr=False)
    key: str = field(repr=False)


@dataclass(slots=True)
class SignIns:
    """Codes that wait to be used, and the check of cookies and signatures. `people` by their
    tokens; `now` is in seconds since 1970; `secret` is the daemon's own.
    """

    people: Mapping[str, Person] = field(repr=False)
    monotonic: Callable[[], float]
    now: Callable[[], float]
    secret: str = field(repr=False)
    _codes: dict[str, tuple[Person, float]] = field(default_factory=dict, repr=False)
    _used: dict[str, float] = field(default_factory=dict, repr=False)

    def make_code(self, person: Person) -> str:
        """A code that signs this person in, once, within five minutes; they have four at most."""
        self._drop_old()
        own = [code for code, (whose, _) in self._codes.items() if whose == person]
        for code in own[: max(0, len(own) + 1 - MAX_CODES)]:
            del self._codes[code]
        code = token_urlsafe(32)
        self._codes[code] = person, self.monotonic() + CODE_S
        return code

    def look(self, code: str) -> Person | None:
        """Whom the code signs in; it can still be used."""
        self._drop_old()
        return self._codes.get(code, (None, 0.0))[0]

    def redeem(self, code: str) -> tuple[Person, Session] | None:
        """Use the code; None for one that is unknown, used or too old."""
        self._drop_old()
        person, _ = self._codes.pop(code, (None, 0.0))
        token = self._find_token(person.name) if person else ""
        if person is None or not token:
            return None
        core = f"{person.name}.{int(self.now()) + SESSION_S}.{token_urlsafe(12)}"
        cookie = f"{core}.{self._sign(token, 'cookie', core)}"
        return person, Session(cookie, self._sign(token, "key", core))

    def find_person(self, cookie: str, signature: str, signed: str) -> tuple[Person, str] | None:
        """Who signed `signed` (method and address), and the hash of the body; None where cookie or
        signature are wrong, too old, or were used before.
        """
        core, _, mac = cookie.rpartition(".")
        name, _, rest = core.partition(".")
        token, expires = self._find_token(name), rest.partition(".")[0]
        fits = _is_same(mac, self._sign(token, "cookie", core))
        head, _, given = signature.rpartition(".")
        key = bytes.fromhex(self._sign(token, "key", core))
        fits &= _is_same(given, _digest(key, f"{signed} {head}"))
        at, _, rest = head.partition(".")
        _, _, body_hash = rest.partition(".")
        now = self.now()
        if not (token and fits and expires.isdigit() and now < int(expires)):
            return None
        if not (at.isdigit() and abs(int(at) / 1000 - now) <= SIGNATURE_S) or given in self._used:
            return None
        self._used = {one: until for one, until in self._used.items() if until > now}
        self._used[given] = now + 2 * SIGNATURE_S
        return self.people[token], body_hash

    def _sign(self, token: str, purpose: str, text: str) -> str:
        key = f"{self.secret}\n{token}".encode("utf-8", "surrogateescape")
        return _digest(key, f"aidaemon {purpose} {text}")

    def _find_token(self, name: str) -> str:
        return next((token for token, one in self.people.items() if one.name == name), "")

    def _drop_old(self) -> None:
        now = self.monotonic()
        for code in [code for code, (_, until) in self._codes.items() if until <= now]:
            del self._codes[code]


def _digest(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode("utf-8", "surrogateescape"), "sha256").hex()


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def name_cookie(request: web.Request) -> str:
    """The cookie of this port: two daemons on one machine have two."""
    return f"aidaemon_{urlsplit(f'//{request.host}').port or 80}"


def find_signature(request: web.Request) -> str:
    """In its header; a live socket cannot send one, so it names a protocol."""
    if signature := request.headers.get(SIGNATURE, ""):
        return signature
    offered = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
    named = (one.strip() for one in offered)
    return next((one[4:] for one in named if one.startswith(SIGNED_PROTOCOL)), "")


def sign_request(key: str, method: str, address: str, at: float, nonce: str, body: bytes) -> str:
    """The signature that the page makes; for other programs."""
    head = f"{int(at * 1000)}.{nonce}.{sha256(body).hexdigest()}"
    return f"{head}.{_digest(bytes.fromhex(key), f'{method} {address} {head}')}"


class RedeemBody(Body):
    """The code of a link."""

    code: str


def describe_person(person: Person) -> dict[str, object]:
    """Who it is and what they may do, for the page."""
    rights = [right.name.lower() for right in RIGHTS[person.role]]
    return {"name": person.name, "role": person.role, "rights": sorted(rights)}


def add_sign_in(app: web.Application, sign_ins: SignIns, refuse: Callable[[], Exception]) -> None:
    """Serve signing in and out. `refuse` makes the error for a wrong code."""
    app.router.add_route("POST", SIGN_IN, partial(_make_link, sign_ins))
    app.router.add_route("POST", LOOK, partial(_look, sign_ins, refuse))
    app.router.add_route("POST", REDEEM, partial(_redeem, sign_ins, refuse))
    app.router.add_route("POST", SIGN_OUT, _sign_out)
    app.router.add_route("GET", WHO, _show_person)


async def _make_link(sign_ins: SignIns, request: web.Request) -> web.Response:
    """A link that signs the person of the request in."""
    code = sign_ins.make_code(request[PERSON])
    return json_response({"link": f"{request.url.origin()}/#code={code}"}, 201)


async def _look(
    sign_ins: SignIns, refuse: Callable[[], Exception], request: web.Request
) -> web.Response:
    """Whom the code signs in: nobody signs in as somebody else by a link unasked."""
    person = sign_ins.look((await read_body(request, RedeemBody, CODE_BYTES)).code)
    if person is None:
        raise refuse()
    return json_response(describe_person(person))


async def _redeem(
    sign_ins: SignIns, refuse: Callable[[], Exception], request: web.Request
) -> web.Response:
    """Set the cookie; the response has the key."""
    found = sign_ins.redeem((await read_body(request, RedeemBody, CODE_BYTES)).code)
    if found is None:
        raise refuse()
    person, session = found
    response = json_response({"key": session.key, **describe_person(person)})
    response.set_cookie(
        name_cookie(request), session.cookie, max_age=SESSION_S, httponly=True, samesite="Strict"
    )
    return response


async def _sign_out(request: web.Request) -> web.Response:
    """The browser forgets its cookie."""
    response = json_response({})
    response.del_cookie(name_cookie(request), httponly=True, samesite="Strict")
    return response


async def _show_person(request: web.Request) -> web.Response:
    return json_response(describe_person(request[PERSON]))
