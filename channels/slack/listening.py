"""Listening, for as long as the tokens are good: one connection after the other, each watched, what fell between them fetched."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Coroutine
from functools import partial

from channels.base import Host, Later, NotTaken, Unclear
from channels.slack.catching_up import CatchingUp
from channels.slack.cursor import Cursor
from channels.slack.intake import Intake
from channels.slack.interactions import Interactions
from channels.slack.link import Link
from channels.slack.pace import Pace
from channels.slack.shape import Json, Unreadable, maybe, table
from channels.slack.web import Web

FEW = 5
A_MOMENT_S = 0.05
log = logging.getLogger(__name__)


class Listening:
    """`now`: seconds since 1970; `monotonic`: seconds that never go back."""

    def __init__(
        self, web: Web, app_token: str, host: Host, pace: Pace, now: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self._web, self._app_token, self._host, self._pace = web, app_token, host, pace
        self._now, self._monotonic = now, monotonic
        self._errands: set[asyncio.Task[object]] = set()
        self._catching: asyncio.Task[object] | None = None
        self._missing = False
        self._patience: asyncio.TimerHandle | None = None
        self._heard_at = self._checked_at = self._probed_at = monotonic()
        self._answered = 0.0
        self._greeted = asyncio.Event()

    def equip(self, intake: Intake, interactions: Interactions, catching_up: CatchingUp, cursor: Cursor) -> None:
        """What it hands things to."""
        self._intake, self._interactions, self._catching_up, self._cursor = intake, interactions, catching_up, cursor

    async def forever(self) -> None:
        """Until cancelled. Raises Revoked."""
        await self._cursor.begin()
        working = self._errand(self._intake.work())
        pause = self._pace.first_pause_s
        try:
            while not working.done():
                began = self._monotonic()
                rest = 0.0
                try:
                    await self._once()
                except (Later, Unclear) as trouble:
                    self._host.ailing(str(trouble))
                    rest = max(pause, getattr(trouble, "after_s", 0.0))
                lasted = self._monotonic() - began
                await asyncio.sleep(rest or max(0.0, pause - lasted))
                calm = lasted > self._pace.longest_pause_s
                pause = self._pace.first_pause_s if calm else min(pause * 2, self._pace.longest_pause_s)
            working.result()
        finally:
            await self._leave()

    def catch_up(self) -> None:
        """Something may be missing: fetch it; meanwhile nothing newer is taken, for a while."""
        self._missing = True
        self._cursor.missed()  # now, for what is taken meanwhile moves it on
        self._intake.open.clear()
        self._lose_patience()
        self._patience = asyncio.get_running_loop().call_later(self._pace.hold_s, self._intake.open.set)
        if not self._is_catching_up:
            self._catching = self._errand(self._catch_up())

    @property
    def _is_catching_up(self) -> bool:
        return self._catching is not None and not self._catching.done()

    async def _once(self) -> None:
        """One connection, from beginning to end. Raises Later, Revoked."""
        url = await self._web.socket()
        self._greeted.clear()
        self._intake.open.clear()
        link = Link(self._web, self._app_token, self._pace, lambda text: self._heard(link, text))
        try:
            await link.connect(url)
            self._heard_at = self._checked_at = self._probed_at = self._monotonic()
            if await self._greeting(link):
                self.catch_up()
                await self._watch(link)
            if not link.refreshed:
                raise Later(f"Slack: {link.why}")
        finally:
            await self._stop_catching()
            await link.aclose()

    async def _greeting(self, link: Link) -> bool:
        """Slack has greeted; if not, the connection is over. Raises Later."""
        deadline = self._monotonic() + self._pace.hello_s
        while not self._greeted.is_set():
            if await link.over(A_MOMENT_S):
                return False
            if self._monotonic() > deadline:
                raise Later("Slack: connected, but Slack does not greet")
        return True

    async def _watch(self, link: Link) -> None:
        while not await link.over(self._pace.ping_s / 2):
            for task in [task for task in self._errands if task.done()]:
                self._errands.discard(task)
                task.result()
            if link.answered != self._answered:
                self._answered = link.answered
                self._host.alive()
            await self._check()
            await self._cursor.keep()

    async def _check(self) -> None:
        """A connection may live and bring nothing. Raises Later, Revoked."""
        now = self._monotonic()
        if now - max(self._heard_at, self._checked_at) > self._pace.check_s:
            await self._web.who()
            self._checked_at = self._monotonic()
        if now - max(self._heard_at, self._probed_at) > self._pace.quiet_s and not self._is_catching_up:
            await self._probe()
            self._probed_at = self._monotonic()

    async def _probe(self) -> None:
        known = list(await self._host.conversations())[:FEW]
        found = await self._catching_up.since(self._cursor.before(self._pace.margin_s), known, most=FEW)
        late = self._now() - self._pace.settle_s
        if any(not self._intake.knows(message.external_id) and float(message.message_id) < late for message in found):
            raise Later("Slack: connected, but messages do not come; connecting anew")

    def _heard(self, link: Link, text: str) -> None:
        self._heard_at = self._monotonic()
        self._host.alive()
        try:
            envelope: object = json.loads(text)
        except ValueError:
            envelope = None
        if not isinstance(envelope, dict):
            log.warning("Slack sent something that is no JSON object: %.200r", text)
            return
        payload, envelope_id = table(envelope, "payload"), maybe(envelope, "envelope_id")
        match maybe(envelope, "type"):
            case "hello":
                self._greeted.set()
            case "disconnect":
                link.refresh(maybe(envelope, "reason"))
            case "events_api":
                self._intake.offer(payload, partial(link.acknowledge, envelope_id))
            case "interactive" | "slash_commands" as kind:
                self._errand(self._interact(link, envelope_id, kind, {"envelope_id": envelope_id, **payload}))
            case _ if envelope_id:
                self._errand(link.acknowledge(envelope_id))

    async def _interact(self, link: Link, envelope_id: str, kind: str, payload: Json) -> None:
        try:
            await self._interactions.handle(kind, payload, partial(link.acknowledge, envelope_id))
        except Unreadable as no:
            await link.acknowledge(envelope_id)
            await self._set_aside(payload, str(no))

    async def _set_aside(self, payload: Json, why: str) -> None:
        try:
            await self._intake.take([self._intake.poison(payload, why)])
        except NotTaken as no:
            log.warning("what Slack sent could neither be read (%s) nor set aside (%s)", why, no)

    async def _catch_up(self) -> None:
        """What is not taken while the history is read may stand where that has been looked at already: then all is read again."""
        pause = self._pace.first_pause_s
        try:
            while self._missing:
                self._missing = False
                if (trouble := await self._fetch_missed()) is None:
                    continue
                log.info("what was written meanwhile could not be fetched yet: %s", trouble)
                self._missing = True
                await asyncio.sleep(max(pause, getattr(trouble, "after_s", 0.0)))
                pause = min(pause * 2, self._pace.settle_s)
        finally:
            self._lose_patience()
        self._cursor.caught_up()
        self._intake.open.set()

    def _lose_patience(self) -> None:
        if self._patience:
            self._patience.cancel()

    async def _fetch_missed(self) -> Later | NotTaken | None:
        try:
            known = list(await self._host.conversations())
            found = await self._catching_up.since(self._cursor.before(self._pace.margin_s), known)
            await self._intake.take(list(found))
        except (Later, NotTaken) as trouble:
            return trouble
        if found:
            self._cursor.advance(found[-1].message_id)
        return None

    def _errand(self, work: Coroutine[object, object, object]) -> asyncio.Task[object]:
        task = asyncio.create_task(work)
        self._errands.add(task)
        return task

    async def _stop_catching(self) -> None:
        if self._catching is not None and not self._catching.done():
            self._errands.discard(self._catching)
            self._catching.cancel()
            await asyncio.wait([self._catching])

    async def _leave(self) -> None:
        for task in self._errands:
            task.cancel()
        if self._errands:
            await asyncio.wait(self._errands, timeout=self._pace.close_s)
        with contextlib.suppress(TimeoutError):  # an older one only means that more is looked through
            async with asyncio.timeout(self._pace.close_s):
                await self._cursor.keep(at_once=True)
