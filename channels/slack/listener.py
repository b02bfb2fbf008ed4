"""One Socket Mode connection, in the library's client: it only carries; when it ends, the channel makes a new one (K13).

Listening, for as long as the tokens are good: one connection after the other, each watched, what fell between them fetched.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from time import time

from aiohttp import ClientError, WSMessage
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse

from channels.base import DeliveryUnknown, Host, NotAccepted, RetryLater
from channels.slack.config import SlackTiming
from channels.slack.history import SlackBackfill
from channels.slack.intake import SlackCursor, SlackIntake
from channels.slack.interactions import SlackInteractions
from channels.slack.web import (
    Json,
    SlackWeb,
    UnreadablePayload,
    find_text,
    get_object,
    silent_logger,
)

OnText = Callable[[str], None]


class _Client(SocketModeClient):
    """The library would start a task for each message, so that they overtake each other, and connect again by itself for ever."""

    on_text: OnText

    async def enqueue_message(self, message: str) -> None:
        self.on_text(message)


class SocketConnection:
    """`heard` gets each text in order, and must not wait."""

    def __init__(self, web: SlackWeb, app_token: str, pace: SlackTiming, heard: OnText) -> None:
        self._pace = pace
        self._ended = asyncio.Event()
        self.reason, self.is_refresh = "the connection was lost", False
        ping = pace.ping_s
        self._client = _Client(
            app_token,
            silent_logger(),
            web.client,
            auto_reconnect_enabled=False,
            ping_interval=ping,
            on_close_listeners=[self._on_close],
        )
        self._client.on_text, self._client.proxy = heard, web.proxy
        self._opened_at = time()

    async def connect(self, url: str) -> None:
        """Open it. Raises Later."""
        self._client.wss_uri = url
        try:
            async with asyncio.timeout(self._pace.hello_s):
                await self._client.connect()  # tries this address again until then
        except TimeoutError as no:
            raise RetryLater("Slack: no connection for events") from no

    def refresh(self, why: str) -> None:
        """Slack wants us to connect anew; nothing is wrong."""
        self.reason, self.is_refresh = f"Slack ended the connection: {why}", True
        self._ended.set()

    async def wait_closed(self, seconds: float) -> bool:
        """It has ended; looked at for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        return self._ended.is_set() or not await self._client.is_connected()

    @property
    def last_pong(self) -> float:
        """When the last sign of life was answered, in seconds since 1970."""
        return self._client.last_ping_pong_time or self._opened_at

    async def acknowledge(self, envelope_id: str, payload: dict[str, object] | None = None) -> bool:
        """Tell Slack that it is ours now; False where that cannot be told. That is no harm: Slack sends it again, and it is
        known; but a reply in `payload` was not shown.
        """
        answer = SocketModeResponse(envelope_id, payload)
        with contextlib.suppress(
            ClientError, ConnectionError, RuntimeError, AttributeError, TimeoutError
        ):
            async with asyncio.timeout(self._pace.close_s):
                await self._client.send_message(json.dumps(answer.to_dict()))
                return True
        return False

    async def aclose(self) -> None:
        """Close it; a network that has forgotten it does not hold us up. What the client still does is ended, too."""
        client = self._client
        client.closed = True
        tasks = [
            task
            for task in (
                client.message_processor,
                client.message_receiver,
                client.current_session_monitor,
            )
            if task
        ]
        with contextlib.suppress(ClientError, ConnectionError, RuntimeError, TimeoutError):
            async with asyncio.timeout(self._pace.close_s):
                await client.close()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=self._pace.close_s)
        await client.aiohttp_client_session.close()

    async def _on_close(self, _: WSMessage) -> None:
        self._ended.set()


FEW = 5
A_MOMENT_S = 0.05
log = logging.getLogger(__name__)


class SlackListener:
    """`now`: seconds since 1970; `monotonic`: seconds that never go back."""

    def __init__(
        self,
        web: SlackWeb,
        app_token: str,
        host: Host,
        pace: SlackTiming,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._web, self._app_token, self._host, self._pace = web, app_token, host, pace
        self._now, self._monotonic = now, monotonic
        self._tasks: set[asyncio.Task[object]] = set()
        self._catching: asyncio.Task[object] | None = None
        self._is_behind = False
        self._hold_timer: asyncio.TimerHandle | None = None
        self._received_at = self._checked_at = self._probed_at = monotonic()
        self._answered = 0.0
        self._hello = asyncio.Event()

    def connect_parts(
        self,
        intake: SlackIntake,
        interactions: SlackInteractions,
        catching_up: SlackBackfill,
        cursor: SlackCursor,
    ) -> None:
        """What it hands things to."""
        self._intake, self._interactions, self._catching_up, self._cursor = (
            intake,
            interactions,
            catching_up,
            cursor,
        )

    async def run(self) -> None:
        """Until cancelled. Raises Revoked."""
        await self._cursor.begin()
        working = self._start_task(self._intake.run())
        pause = self._pace.first_pause_s
        try:
            while not working.done():
                began = self._monotonic()
                rest = 0.0
                try:
                    await self._run_connection()
                except (RetryLater, DeliveryUnknown) as trouble:
                    self._host.report_trouble(str(trouble))
                    rest = max(pause, getattr(trouble, "after_s", 0.0))
                lasted = self._monotonic() - began
                await asyncio.sleep(rest or max(0.0, pause - lasted))
                calm = lasted > self._pace.longest_pause_s
                pause = (
                    self._pace.first_pause_s if calm else min(pause * 2, self._pace.longest_pause_s)
                )
            working.result()
        finally:
            await self._shut_down()

    def catch_up(self) -> None:
        """Something may be missing: fetch it; meanwhile nothing newer is taken, for a while."""
        self._is_behind = True
        self._cursor.note_missed()  # now, for what is taken meanwhile moves it on
        self._intake.open.clear()
        self._cancel_hold()
        self._hold_timer = asyncio.get_running_loop().call_later(
            self._pace.hold_s, self._intake.open.set
        )
        if not self._is_catching_up:
            self._catching = self._start_task(self._catch_up())

    @property
    def _is_catching_up(self) -> bool:
        return self._catching is not None and not self._catching.done()

    async def _run_connection(self) -> None:
        """One connection, from beginning to end. Raises Later, Revoked."""
        url = await self._web.open_socket()
        self._hello.clear()
        self._intake.open.clear()
        link = SocketConnection(
            self._web, self._app_token, self._pace, lambda text: self._on_text(link, text)
        )
        try:
            await link.connect(url)
            self._received_at = self._checked_at = self._probed_at = self._monotonic()
            if await self._wait_hello(link):
                self.catch_up()
                await self._watch(link)
            if not link.is_refresh:
                raise RetryLater(f"Slack: {link.reason}")
        finally:
            await self._stop_catching()
            await link.aclose()

    async def _wait_hello(self, link: SocketConnection) -> bool:
        """Slack has greeted; if not, the connection is over. Raises Later."""
        deadline = self._monotonic() + self._pace.hello_s
        while not self._hello.is_set():
            if await link.wait_closed(A_MOMENT_S):
                return False
            if self._monotonic() > deadline:
                raise RetryLater("Slack: connected, but Slack does not greet")
        return True

    async def _watch(self, link: SocketConnection) -> None:
        while not await link.wait_closed(self._pace.ping_s / 2):
            for task in [task for task in self._tasks if task.done()]:
                self._tasks.discard(task)
                task.result()
            if link.last_pong != self._answered:
                self._answered = link.last_pong
                self._host.report_alive()
            await self._check()
            await self._cursor.save()

    async def _check(self) -> None:
        """A connection may live and bring nothing. Raises Later, Revoked."""
        now = self._monotonic()
        if now - max(self._received_at, self._checked_at) > self._pace.check_s:
            await self._web.auth_test()
            self._checked_at = self._monotonic()
        if (
            now - max(self._received_at, self._probed_at) > self._pace.quiet_s
            and not self._is_catching_up
        ):
            await self._probe()
            self._probed_at = self._monotonic()

    async def _probe(self) -> None:
        known = list(await self._host.list_conversations())[:FEW]
        found = await self._catching_up.fetch_since(
            self._cursor.start_of_backfill(self._pace.margin_s), known, most=FEW
        )
        late = self._now() - self._pace.settle_s
        if any(
            not self._intake.was_accepted(message.external_id) and float(message.message_id) < late
            for message in found
        ):
            raise RetryLater("Slack: connected, but messages do not come; connecting anew")

    def _on_text(self, link: SocketConnection, text: str) -> None:
        self._received_at = self._monotonic()
        self._host.report_alive()
        try:
            envelope: object = json.loads(text)
        except ValueError:
            envelope = None
        if not isinstance(envelope, dict):
            log.warning("Slack sent something that is no JSON object: %.200r", text)
            return
        payload, envelope_id = get_object(envelope, "payload"), find_text(envelope, "envelope_id")
        match find_text(envelope, "type"):
            case "hello":
                self._hello.set()
            case "disconnect":
                link.refresh(find_text(envelope, "reason"))
            case "events_api":
                self._intake.enqueue(payload, partial(link.acknowledge, envelope_id))
            case "interactive" | "slash_commands" as kind:
                self._start_task(
                    self._interact(link, envelope_id, kind, {"envelope_id": envelope_id, **payload})
                )
            case _ if envelope_id:
                self._start_task(link.acknowledge(envelope_id))

    async def _interact(
        self, link: SocketConnection, envelope_id: str, kind: str, payload: Json
    ) -> None:
        try:
            await self._interactions.handle(kind, payload, partial(link.acknowledge, envelope_id))
        except UnreadablePayload as no:
            await link.acknowledge(envelope_id)
            await self._store_unreadable(payload, str(no))

    async def _store_unreadable(self, payload: Json, why: str) -> None:
        try:
            await self._intake.accept([self._intake.unreadable(payload, why)])
        except NotAccepted as no:
            log.warning("what Slack sent could neither be read (%s) nor set aside (%s)", why, no)

    async def _catch_up(self) -> None:
        """What is not taken while the history is read may stand where that has been looked at already: then all is read again."""
        pause = self._pace.first_pause_s
        try:
            while self._is_behind:
                self._is_behind = False
                if (trouble := await self._fetch_missed()) is None:
                    continue
                log.info("what was written meanwhile could not be fetched yet: %s", trouble)
                self._is_behind = True
                await asyncio.sleep(max(pause, getattr(trouble, "after_s", 0.0)))
                pause = min(pause * 2, self._pace.settle_s)
        finally:
            self._cancel_hold()
        self._cursor.clear_missed()
        self._intake.open.set()

    def _cancel_hold(self) -> None:
        if self._hold_timer:
            self._hold_timer.cancel()

    async def _fetch_missed(self) -> RetryLater | NotAccepted | None:
        try:
            known = list(await self._host.list_conversations())
            found = await self._catching_up.fetch_since(
                self._cursor.start_of_backfill(self._pace.margin_s), known
            )
            await self._intake.accept(list(found))
        except (RetryLater, NotAccepted) as trouble:
            return trouble
        if found:
            self._cursor.advance(found[-1].message_id)
        return None

    def _start_task(self, work: Coroutine[object, object, object]) -> asyncio.Task[object]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        return task

    async def _stop_catching(self) -> None:
        if self._catching is not None and not self._catching.done():
            self._tasks.discard(self._catching)
            self._catching.cancel()
            await asyncio.wait([self._catching])

    async def _shut_down(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._pace.close_s)
        with contextlib.suppress(
            TimeoutError
        ):  # an older one only means that more is looked through
            async with asyncio.timeout(self._pace.close_s):
                await self._cursor.save(at_once=True)
