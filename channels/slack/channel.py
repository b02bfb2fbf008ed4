"""Slack as a channel of the house (A13, A14, A15, E7, E12, F1)."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from channels.base import Capabilities, Host, Later, Rate
from channels.message import Address, Attachment, Choice, Piece
from channels.slack.afterwards import Afterwards
from channels.slack.catching_up import CatchingUp
from channels.slack.config import SlackAccount
from channels.slack.cursor import Cursor
from channels.slack.drafts import Drafts
from channels.slack.errors import Declined
from channels.slack.files import Files
from channels.slack.intake import Intake
from channels.slack.interactions import Interactions
from channels.slack.listening import Listening
from channels.slack.own_chats import OwnChats
from channels.slack.pace import Pace
from channels.slack.reading import Reader
from channels.slack.recalling import Recalling
from channels.slack.sending import Sending
from channels.slack.threads import Threads
from channels.slack.web import Web
from channels.slack.who import Who
from channels.text.slack import LIMIT, pieces

CAN = Capabilities(limit=LIMIT, draft_every_s=1.2, typing_every_s=30.0, most_upload=100 << 20, most_fetch=20 << 20)
BLIND = replace(CAN, finds=False)
RATE = Rate(3, 3.0)
"""Slack allows one message a second in a channel, and short bursts."""
AT_WORK = "is thinking…"
LONGEST_STATUS = 100


class Slack:
    """channels.base.Channel, for one workspace. `name`: "slack", or "work/slack" for the account "work"."""

    def __init__(
        self,
        config: SlackAccount,
        *,
        name: str = "slack",
        pace: Pace | None = None,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._name, self._pace = config, name, pace or Pace()
        self._now, self._monotonic = now, monotonic
        tokens = {"app_token": config.app_token, "bot_token": config.bot_token}
        self._web = Web(**tokens, base_url=config.base_url, timeout_s=self._pace.timeout_s)
        self._threads = Threads(map(str, (*config.allowed_user_ids, *config.owner_ids)))
        self._sending = Sending(self._web, name)
        self._drafts = Drafts(self._web, self._sending, self._threads)
        sizes = {"most_up": CAN.most_upload, "most_down": CAN.most_fetch}
        self._files = Files(self._web, **sizes, transfer_s=self._pace.transfer_s)
        self._own_chats = OwnChats(self._web, self._pace.answer_s)
        self._who: Who | None = None
        self._no_more: set[str] = set()

    @property
    def name(self) -> str:
        """Its name in the house."""
        return self._name

    @property
    def can(self) -> Capabilities:
        """What it can do; without the scopes for the history nothing can be found."""
        return CAN if self._sending.finds else BLIND

    async def check(self) -> str:
        """Who we are there; the app's own token is tried too, for without it nothing comes in. Raises Revoked, Later."""
        who = await self._introduced(again=True)
        await self._web.socket()
        return f"@{who.name} in {who.workspace}"

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        who = await self._known(host)
        for address in reversed(await host.conversations()):
            self._threads.join(address)
        commands = frozenset(name.removeprefix("/") for name, _ in host.commands())
        reader = Reader(self._name, who.user, self._config.use_threads, self._threads.joined, commands)
        cursor = Cursor(host, self._now, self._monotonic, self._pace.keep_s)
        listening = Listening(self._web, self._config.app_token, host, self._pace, self._now, self._monotonic)
        listening.equip(
            Intake(host, reader, self._threads, self._recalling(who), cursor, listening.catch_up),
            Interactions(host, reader, self._sending, self._own_chats, self.render, self._afterwards, self._pace.answer_s),
            CatchingUp(self._web, reader, self._threads, self._sending),
            cursor,
        )
        await listening.forever()

    def rate(self, address: Address) -> Rate:
        """How fast one may write there."""
        return RATE

    def render(self, text: str) -> Sequence[Piece]:
        """Markdown as mrkdwn."""
        return pieces(text)

    async def send(self, address: Address, piece: Piece, key: str, *, choices: Sequence[Choice] = (), reply_to: str = "") -> str:
        """Send; `reply_to` is of no use here, for what is answered is in the thread. Raises Refused, Later, Unclear, Revoked."""
        self._threads.join(address)
        return await self._sending.post(address, piece, key, choices)

    async def edit(self, address: Address, message_id: str, piece: Piece, *, choices: Sequence[Choice] = ()) -> None:
        """Replace a message of ours, also one that is being streamed. Raises as `send`."""
        await self._drafts.finish(address, message_id, piece, tuple(choices))

    async def find(self, address: Address, key: str, piece: Piece, since: datetime) -> str:
        """The message with this key. What a crash has left there of a stream carries none: it is taken away on the way, so that
        it does not stand beside the answer. Raises Later, Revoked.
        """
        if sent := await self._files.find(address, key):
            return sent
        found, begun = await self._sending.find(address, key, since, await self._introduced())
        await self._drafts.sweep(address, begun)
        self._drafts.note_found(address, found)
        return found

    async def draft(self, address: Address, key: str, text: str, shown: str, *, private: bool) -> str:
        """Show an unfinished text: streamed in threads, else as a message that changes. Raises as `send`."""
        self._threads.join(address)
        self._drafts.team = self._who.team if self._who else ""
        return await self._drafts.show(address, key, text, shown, self.render(text)[-1])

    async def delete(self, address: Address, message_id: str) -> None:
        """Take a message of ours away. Raises as `send`."""
        self._drafts.forget(address, message_id)
        await self._sending.delete(address, message_id)

    async def typing(self, address: Address, status: str = "") -> None:
        """In a thread: the assistant's status; elsewhere there is no place for it. Raises as `send`."""
        if address.thread:
            shown = {"channel_id": address.chat, "thread_ts": address.thread, "status": (status or AT_WORK)[:LONGEST_STATUS]}
            await self._nicety("assistant.threads.setStatus", **shown)

    async def seen(self, address: Address, message_id: str) -> None:
        """Eyes under the message. Raises as `send`."""
        await self._nicety("reactions.add", channel=address.chat, timestamp=message_id, name="eyes")

    async def upload(self, address: Address, file: Path, name: str, caption: Piece, key: str) -> str:
        """Send a file; Slack keeps no key with it, so that after a restart it cannot be found. Raises as `send`."""
        self._threads.join(address)
        return await self._files.upload(address, file, name, caption, key)

    async def fetch(self, attachment: Attachment, into: BinaryIO) -> None:
        """Fetch a file. Raises Refused, Later."""
        await self._files.fetch(attachment, into)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._web.aclose()

    def _recalling(self, who: Who) -> Recalling:
        return Recalling(self._web, who, self._threads, self._sending, self._pace.answer_s, self._monotonic)

    def _afterwards(self, address: str) -> Afterwards:
        return Afterwards(self._web, address, self._pace.timeout_s, self._monotonic)

    async def _introduced(self, *, again: bool = False) -> Who:
        if self._who is None or again:
            self._who = Who.told(await self._web.who())
        return self._who

    async def _known(self, host: Host) -> Who:
        """Who we are, asked until Slack says so; without that nobody can tell who is addressed. Raises Revoked."""
        pause = self._pace.first_pause_s
        while True:
            try:
                return await self._introduced(again=True)
            except Later as no:
                host.ailing(str(no))
                await asyncio.sleep(max(pause, no.after_s))
                pause = min(pause * 2, self._pace.longest_pause_s)

    async def _nicety(self, method: str, **arguments: object) -> None:
        """What is not there is not missed, and not asked for again."""
        about = f"{method} in {str(arguments.get('channel') or arguments.get('channel_id'))[:1]}"
        if about in self._no_more:
            return
        try:
            await self._web.write(method, **arguments)
        except Declined as no:
            if no.unknown:
                self._no_more.add(about)
                self._sending.once(about, f"{no}; going on without it")
