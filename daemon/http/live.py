"""The live socket /live (C4, C8): what loops do, as it happens, and their verbs."""

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json

from daemon.client.loop_view import LoopView, loop_to_json
from daemon.client.protocol import DaemonClient
from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.core.trust import Person, Resource, Right
from daemon.http.auth import require_right, sees_others_only
from daemon.http.errors import explain_error
from daemon.http.loops import VERBS, LoopReviewBody, LoopStartBody, change, review, start
from daemon.http.responses import PERSON, Body, describe_faults, invalid
from daemon.http.routes import hide_private
from daemon.loops.changes import LoopEvent, LoopEvents
from daemon.loops.teardown import LoopTeardown

log = logging.getLogger(__name__)
LIVE = "/live"
MAX_MESSAGE = 64 * 1024
HEARTBEAT_S = 30.0
SEND_S = 30.0
PROTOCOL = "aidaemon"
ITERATION = "agent:loop_iteration"
Message = Mapping[str, Any]


class VerbBody(Body):
    """What every message has; the rest is as in the HTTP verb's body."""

    model_config = ConfigDict(extra="allow")

    type: str
    agent: str
    id: int | str | None = None


@value
class LiveEndpoint:
    """GET /live, upgraded to a WebSocket."""

    events: LoopEvents
    teardown: LoopTeardown

    async def serve(self, client: DaemonClient, request: web.Request) -> web.StreamResponse:
        """Until one side closes."""
        socket = web.WebSocketResponse(
            protocols=(PROTOCOL,), heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE
        )
        await socket.prepare(request)
        connection = LivePage(client, request[PERSON], socket)
        request.app[SOCKETS].add(socket)
        try:
            with self.events.watch() as events, self.teardown.connected(connection.person.name):
                await connection.greet()
                async with asyncio.TaskGroup() as group:
                    telling = group.create_task(connection.tell(events))
                    await connection.listen()
                    telling.cancel()
        except* (ConnectionError, TimeoutError):
            pass  # it closed the connection, or stopped reading
        except* AidaemonError as errors:
            log.warning("a live connection is closed, its page connects again: %s", errors)
        finally:
            request.app[SOCKETS].discard(socket)
            await socket.close()
        return socket


SOCKETS = web.AppKey("sockets", set[web.WebSocketResponse])


async def close_sockets(app: web.Application) -> None:
    """The server stops; pages connect again to the next one."""
    for socket in [*app[SOCKETS]]:
        await socket.close(code=1001, message=b"the daemon stops")


@dataclass(slots=True)
class LivePage:
    """The connection of one page."""

    client: DaemonClient
    person: Person
    socket: web.WebSocketResponse

    async def greet(self) -> None:
        """The loops that are active, so that nothing is missed before the first event."""
        loops = await self._find_loops()
        shown = [loop_to_json(loop) for loop in loops if not loop.ended]
        await self._send({"type": "hello", "loops": shown})

    async def tell(self, events: Any) -> None:
        """Each event that this person may see."""
        async for event in events:
            if await self._may_see(event):
                for message in render_event(event):
                    await self._send(message)

    async def listen(self) -> None:
        """Carry out each message, one after the other."""
        async for message in self.socket:
            if message.type is WSMsgType.TEXT:
                await self._send(await self._answer(message.data))

    async def _answer(self, text: str) -> Message:
        given: object = None
        try:
            given = from_json(text)
            return {"type": "result", **_echo_id(given), "loop": await self._act(given)}
        except (AidaemonError, ValueError) as error:
            fault = error if isinstance(error, AidaemonError) else invalid(f"message: {error}")
            shown = explain_error(fault, self.person)
            details = {"type": shown.error_type, "message": str(shown)}
            return {"type": "agent:error", **_echo_id(given), "error": details}

    async def _act(self, given: object) -> Message:
        verb = _read(VerbBody, given)
        require_right(self.person, Right.WORK)
        rest = verb.model_extra or {}
        match verb.type.partition("loop:")[2]:
            case "start":
                body = _read(LoopStartBody, rest)
                view = await start(self.client, self.person, verb.agent, body, live=True)
            case "approve":
                found = _read(LoopReviewBody, rest)
                loops = await self._find_loops(verb.agent)
                view = await review(self.client, self.person, verb.agent, loops, found)
            case action if action in VERBS:
                loops = await self._find_loops(verb.agent)
                view = await change(self.client, verb.agent, loops, VERBS[action])
            case _:
                known = ", ".join(f"loop:{name}" for name in ("start", *VERBS, "approve"))
                raise invalid(f"type: found {verb.type!r}, expected one of {known}")
        return loop_to_json(view)

    async def _find_loops(self, agent: str | None = None) -> list[LoopView]:
        loops = await self.client.list_loops(agent)
        return await hide_private(self.client, self.person, Resource.RUNS, loops)

    async def _may_see(self, event: LoopEvent) -> bool:
        if not sees_others_only(self.person, Resource.RUNS):
            return True
        return any(loop.loop_id == event.payload["loopId"] for loop in await self._find_loops())

    async def _send(self, message: Message) -> None:
        async with asyncio.timeout(SEND_S):
            await self.socket.send_str(json.dumps(message, ensure_ascii=False))


def _read(model: type[Any], given: object) -> Any:
    try:
        return TypeAdapter(model).validate_python(given)
    except ValidationError as error:
        raise invalid(describe_faults(error)) from error


def _echo_id(given: object) -> dict[str, object]:
    known = given.get("id") if isinstance(given, dict) else None
    return {"id": known} if isinstance(known, int | str) else {}


def render_event(event: LoopEvent) -> list[Message]:
    """The event by its name on the wire; what a person should see of it is a notification, too."""
    name = ITERATION if event.name == "iteration" else event.name
    messages: list[Message] = [{"type": name, **event.payload}]
    notice = {"type": "notification", **event.payload, "kind": "info"}
    match event.name:
        case "progress":
            messages.append({**notice, "text": event.payload["learning"]})
        case "manual_approval_required":
            asked = {"kind": "action_required", "actions": ["approve", "reject"]}
            messages.append({**notice, **asked, "text": event.payload["output"]})
        case "completed":
            messages.append({**notice, "text": event.payload["finalOutput"]})
        case "failed":
            messages.append({**notice, "text": event.payload["error"]})
    return messages
