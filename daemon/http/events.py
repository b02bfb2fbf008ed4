"""POST /v1/events/{name}: the untrusted door (A13, A16). Its tokens open this and nothing else, and no other opens it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web
from pydantic_core import from_json

from daemon.http.rights import EVENTS
from daemon.http.wire import answer, invalid, raw_body
from daemon.triggers.events import Arrived, Taken

EVENT_LIMIT = 256 * 1024
KEY = "Idempotency-Key"
LONGEST_KEY = 200


class Takes(Protocol):
    """Takes an event in; `daemon.triggers.events.Events` does."""

    async def take(self, arrived: Arrived) -> Taken:
        """Durable when it returns."""
        ...


@dataclass(frozen=True, slots=True)
class EventDoor:
    """Any JSON in; out comes where its run can be looked at, by whoever has a token of the house's people.

    `tokens`: by name of the sender.
    """

    events: Takes
    tokens: Mapping[str, str] = field(repr=False)

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.post(EVENTS, self.take)]

    async def take(self, request: web.Request) -> web.Response:
        """202 once it is on disk; the same Idempotency-Key again gets the same answer, whatever came with it."""
        key = _key(request)
        raw = await raw_body(request, EVENT_LIMIT)
        name = request.match_info["name"]
        try:
            taken = await self.events.take(Arrived(name, from_json(raw, allow_inf_nan=False), len(raw), key))
        except ValueError as error:
            raise invalid(f"body: is not JSON: {error}") from error
        return answer({"session": taken.session, "turn": taken.turn}, 202)


def _key(request: web.Request) -> str:
    """What the sender calls this event, so that sending it again is no second one."""
    key = request.headers.get(KEY)
    if key is None:
        return ""
    if not (key.isascii() and key.isprintable() and 0 < len(key) <= LONGEST_KEY):
        raise invalid(f"{KEY}: expected 1 to {LONGEST_KEY} printable ASCII characters")
    return key
