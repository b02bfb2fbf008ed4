"""Socket Mode: one connection after another, each watched; what was missed between them is fetched
(K13).
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from aiohttp import ClientError, ClientWebSocketResponse, ClientWSTimeout, WSMsgType

from channels.base import DeliveryUnknown, Host, NotAccepted, RetryLater
from channels.json_access import Json, UnreadablePayload, find_object, find_text, parse_json
from channels.slack.config import SlackTiming
from channels.slack.history import SlackBackfill
from channels.slack.intake import SlackCursor, SlackIntake
from channels.slack.interactions import SlackInteractions
from channels.slack.web import SlackWeb
from channels.transport import Backoff

PROBE_CHATS = 5
MAX_PINGS = 4
log = logging.getLogger(__name__)


class SlackListener:
    """`now`: seconds since 1970; `monotonic`: seconds that never go back."""

    def __init__(
        self,
        web: SlackWeb,
        host: Host,
        timing: SlackTiming,
        intake: SlackIntake,
        interactions: SlackInteractions,
        backfill: SlackBackfill,
        cursor: SlackCursor,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._web, self._host, self._timing = web, host, timing
        self._intake, self._interactions, self._backfill, self._cursor = (
            intake,
            interactions,
            backfill,
            cursor,
        )
        self._now, self._monotonic = now, monotonic
        self._tasks = asyncio.TaskGroup()
        self._backfilling: asyncio.Task[None] | None = None
        self._is_behind = False
        self._hold_timer: asyncio.TimerHandle | None = None
        self._received_at = self._checked_at = self._probed_at = 0.0

    async def run(self) -> None:
        """Until cancelled. Raises Revoked."""
        await self._cursor.begin()
        backoff = Backoff(self._timing.first_s, self._timing.longest_s)
        try:
            async with self._tasks as tasks:
                tasks.create_task(self._intake.run(self.catch_up))
                while True:
                    started_at = self._monotonic()
                    trouble: Exception | None = None
                    try:
                        await self._connect()
                    except (RetryLater, DeliveryUnknown) as error:
                        self._host.report_trouble(str(error))
                        trouble = error
                    lasted_s = self._monotonic() - started_at
                    if lasted_s > self._timing.longest_s:
                        backoff.reset()
                    pause_s = backoff.next(trouble)
                    await asyncio.sleep(pause_s if trouble else pause_s - lasted_s)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            with contextlib.suppress(
                TimeoutError
            ):  # an older one only means that more is looked through
                async with asyncio.timeout(self._timing.close_s):
                    await self._cursor.save(at_once=True)

    def catch_up(self) -> None:
        """Something may be missing: fetch it; meanwhile nothing newer is accepted, for a while."""
        self._is_behind = True
        self._cursor.note_missed()  # now, for what is accepted meanwhile moves it on
        self._intake.is_open.clear()
        if self._hold_timer:
            self._hold_timer.cancel()
        loop = asyncio.get_running_loop()
        self._hold_timer = loop.call_later(self._timing.hold_s, self._intake.is_open.set)
        if self._backfilling is None or self._backfilling.done():
            self._backfilling = self._tasks.create_task(self._catch_up())

    async def _connect(self) -> None:
        """One connection, from beginning to end. Raises RetryLater, Revoked."""
        url, http, timing = await self._web.open_socket(), self._web.http, self._timing
        self._intake.is_open.clear()
        socket: ClientWebSocketResponse | None = None
        try:
            with http.translate_errors("when events were asked for", sends=False):
                async with asyncio.timeout(timing.hello_s):
                    ending = ClientWSTimeout(ws_close=timing.close_s)
                    socket = await http.session.ws_connect(
                        url, autoping=False, max_msg_size=0, proxy=http.proxy, timeout=ending
                    )
                await self._receive(socket)
        finally:
            if self._backfilling is not None and not self._backfilling.done():
                self._backfilling.cancel()
                await asyncio.wait([self._backfilling])
            if socket is not None:
                await socket.close()

    async def _receive(self, socket: ClientWebSocketResponse) -> None:
        """Until Slack wants a new connection. Raises RetryLater when it is lost, Revoked."""
        self._received_at = self._checked_at = self._probed_at = self._monotonic()
        is_greeted, pings = False, 0
        while True:
            try:
                async with asyncio.timeout(
                    self._timing.ping_s if is_greeted else self._timing.hello_s
                ):
                    message = await socket.receive()
            except TimeoutError:
                if not is_greeted:
                    raise RetryLater("Slack: connected, but Slack does not greet") from None
                if pings >= MAX_PINGS:
                    raise RetryLater("Slack: the connection was lost") from None
                pings += 1
                await socket.ping()
                await self._check()
                await self._cursor.save()
                continue
            pings = 0
            match message.type:
                case WSMsgType.TEXT:
                    self._received_at = self._monotonic()
                    envelope = parse_json(message.data)
                    if not isinstance(envelope, dict):
                        log.warning(
                            "Slack sent something that is not a JSON object: %.200r", message.data
                        )
                    elif envelope.get("type") == "hello":
                        is_greeted = True
                        self.catch_up()
                    elif envelope.get("type") == "disconnect":
                        return
                    else:
                        self._dispatch(socket, envelope)
                case WSMsgType.PING:
                    await socket.pong(message.data)
                case WSMsgType.PONG:
                    pass
                case _:
                    raise RetryLater("Slack: the connection was lost")
            self._host.report_alive()

    def _dispatch(self, socket: ClientWebSocketResponse, envelope: Mapping[str, Any]) -> None:
        payload, envelope_id = find_object(envelope, "payload"), find_text(envelope, "envelope_id")
        acknowledge = partial(self._acknowledge, socket, envelope_id)
        match envelope.get("type"):
            case "events_api":
                self._intake.enqueue(payload, acknowledge)
            case "interactive" | "slash_commands" as kind:
                payload = {"envelope_id": envelope_id, **payload}
                self._tasks.create_task(self._interact(kind, payload, acknowledge))
            case _ if envelope_id:
                self._tasks.create_task(acknowledge())

    async def _acknowledge(
        self,
        socket: ClientWebSocketResponse,
        envelope_id: str,
        payload: dict[str, object] | None = None,
    ) -> bool:
        """False where it could not be sent: Slack sends the event again; a reply in `payload` was
        not shown.
        """
        answer = {"envelope_id": envelope_id} | ({"payload": payload} if payload else {})
        with contextlib.suppress(ClientError, ConnectionError, RuntimeError, TimeoutError):
            async with asyncio.timeout(self._timing.close_s):
                await socket.send_str(json.dumps(answer))
                return True
        return False

    async def _interact(self, kind: str, payload: Json, acknowledge: Callable[..., Any]) -> None:
        try:
            await self._interactions.handle(kind, payload, acknowledge)
        except UnreadablePayload as error:
            await acknowledge()
            try:
                await self._intake.accept([self._intake.unreadable(payload, error)])
            except NotAccepted as full:
                log.warning("Slack sent what can be neither read (%s) nor saved (%s)", error, full)

    async def _check(self) -> None:
        """A connection may be open and bring nothing. Raises RetryLater, Revoked."""
        now, timing = self._monotonic(), self._timing
        if now - max(self._received_at, self._checked_at) > timing.check_s:
            await self._web.get_identity()
            self._checked_at = self._monotonic()
        is_backfilling = self._backfilling is not None and not self._backfilling.done()
        if now - max(self._received_at, self._probed_at) > timing.quiet_s and not is_backfilling:
            known = list(await self._host.list_conversations())[:PROBE_CHATS]
            start = self._cursor.backfill_start(timing.margin_s)
            latest = self._now() - timing.settle_s
            for message in await self._backfill.fetch_since(start, known, limit=PROBE_CHATS):
                is_known = self._intake.was_accepted(message.external_id)
                if not is_known and float(message.message_id) < latest:
                    raise RetryLater("Slack: connected, but messages do not come; connecting again")
            self._probed_at = self._monotonic()

    async def _catch_up(self) -> None:
        """What is not accepted while the history is read may be where that was read already: then
        all is read again.
        """
        backoff = Backoff(self._timing.first_s, self._timing.settle_s)
        try:
            while self._is_behind:
                self._is_behind = False
                try:
                    known = list(await self._host.list_conversations())
                    start = self._cursor.backfill_start(self._timing.margin_s)
                    found = await self._backfill.fetch_since(start, known)
                    await self._intake.accept(found)
                except (RetryLater, NotAccepted) as error:
                    log.info("Slack: what was missed cannot be fetched yet: %s", error)
                    self._is_behind = True
                    await backoff.wait(error)
                    continue
                if found:
                    self._cursor.advance(found[-1].message_id)
        finally:
            if self._hold_timer:
                self._hold_timer.cancel()
        self._cursor.clear_missed()
        self._intake.is_open.set()
