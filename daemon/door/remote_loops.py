"""Loops of a daemon that runs in another process."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from pydantic import TypeAdapter

from daemon.core.loops import Order
from daemon.door.loops import LoopView

UPPER = re.compile("([A-Z])")


class Ask(Protocol):
    """Puts a request to the daemon; gives the body. Raises DaemonRefused, DaemonGone."""

    async def __call__(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        also: int = 200,
    ) -> bytes:
        """`also` is a status that counts as an answer, too."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteLoops:
    """`Loops` over HTTP."""

    ask: Ask

    async def start(self, order: Order) -> LoopView:
        """Begin one; the daemon goes by the token for who starts it."""
        told = {
            "message": order.message,
            "session": order.session,
            "criterion": order.criterion,
            "value": order.value,
            "maxIterations": order.max_iterations,
        }
        body = {name: value for name, value in told.items() if value is not None}
        return _view(await self.ask("POST", _path(order.agent, "start"), body=body))

    async def all(self, agent: str | None = None) -> list[LoopView]:
        """Loops, newest first."""
        raw = await self.ask("GET", "/api/loops", params={} if agent is None else {"agent": agent})
        return [from_wire(one) for one in TypeAdapter(list[dict[str, object]]).validate_json(raw)]

    async def stop(self, loop: LoopView) -> LoopView | None:
        """End it now."""
        return await self._do(loop, "stop")

    async def pause(self, loop: LoopView) -> LoopView | None:
        """Not another attempt."""
        return await self._do(loop, "pause")

    async def resume(self, loop: LoopView) -> LoopView | None:
        """Go on."""
        return await self._do(loop, "resume")

    async def review(self, loop: LoopView, *, approved: bool, by: str, reason: str = "") -> LoopView | None:
        """Say whether the attempt will do."""
        return await self._do(loop, "approve", loopId=loop.loop_id, approved=approved, reason=reason)

    async def _do(self, loop: LoopView, verb: str, **body: object) -> LoopView | None:
        """409 says that it was not in a state for that."""
        raw = TypeAdapter(dict[str, object]).validate_json(await self.ask("POST", _path(loop.agent, verb), body=body, also=409))
        return from_wire(raw) if "loopId" in raw else None


def from_wire(raw: Mapping[str, object]) -> LoopView:
    """LoopState back again."""
    return TypeAdapter(LoopView).validate_python(_snaked(raw))


def _snaked(value: object) -> object:
    match value:
        case dict():
            return {UPPER.sub(r"_\1", str(name)).lower(): _snaked(inner) for name, inner in value.items()}
        case list():
            return [_snaked(inner) for inner in value]
        case _:
            return value


def _path(agent: str, verb: str) -> str:
    return f"/api/agents/{quote(agent, safe='')}/loop/{verb}"


def _view(raw: bytes) -> LoopView:
    return from_wire(TypeAdapter(dict[str, object]).validate_json(raw))
