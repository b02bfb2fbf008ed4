"""Slack as a channel of the house (A13, A14, A15, E7, E12, F1)."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from channels.base import Capabilities, Host, RateLimit, RetryLater
from channels.markup.slack import LIMIT, render_parts
from channels.message import Address, Attachment, Choice, MessagePart
from channels.slack.config import SlackAccount, SlackTiming
from channels.slack.events import EventParser, ThreadMembership
from channels.slack.files import SlackFiles
from channels.slack.history import SlackBackfill, ThreadLookup
from channels.slack.intake import SlackCursor, SlackIntake
from channels.slack.interactions import DeferredReply, DirectChats, SlackInteractions
from channels.slack.listener import SlackListener
from channels.slack.sending import SlackDrafts, SlackMessages
from channels.slack.web import SlackError, SlackIdentity, SlackWeb

CAPABILITIES = Capabilities(
    limit=LIMIT, draft_every_s=1.2, typing_every_s=30.0, max_upload=100 << 20, max_download=20 << 20
)
WITHOUT_FIND = replace(CAPABILITIES, can_find=False)
RATE_LIMIT = RateLimit(3, 3.0)
"""Slack allows one message a second in a channel, and short bursts."""
DEFAULT_STATUS = "is thinking…"
MAX_STATUS = 100


class Slack:
    """channels.base.Channel, for one workspace. `name`: "slack", or "work/slack" for the account "work"."""

    def __init__(
        self,
        config: SlackAccount,
        *,
        name: str = "slack",
        pace: SlackTiming | None = None,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._name, self._pace = config, name, pace or SlackTiming()
        self._now, self._monotonic = now, monotonic
        tokens = {"app_token": config.app_token, "bot_token": config.bot_token}
        self._web = SlackWeb(**tokens, base_url=config.base_url, timeout_s=self._pace.timeout_s)
        self._threads = ThreadMembership(map(str, (*config.allowed_user_ids, *config.owner_ids)))
        self._sending = SlackMessages(self._web, name)
        self._drafts = SlackDrafts(self._web, self._sending, self._threads)
        sizes = {"most_up": CAPABILITIES.max_upload, "most_down": CAPABILITIES.max_download}
        self._files = SlackFiles(self._web, **sizes, transfer_s=self._pace.transfer_s)
        self._own_chats = DirectChats(self._web, self._pace.answer_s)
        self._identity: SlackIdentity | None = None
        self._unavailable: set[str] = set()

    @property
    def name(self) -> str:
        """Its name in the house."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; without the scopes for the history nothing can be found."""
        return CAPABILITIES if self._sending.can_find else WITHOUT_FIND

    async def check(self) -> str:
        """Who we are there; the app's own token is tried too, for without it nothing comes in. Raises Revoked, Later."""
        who = await self._get_identity(again=True)
        await self._web.open_socket()
        return f"@{who.name} in {who.workspace}"

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        who = await self._wait_for_identity(host)
        for address in reversed(await host.list_conversations()):
            self._threads.join(address)
        commands = frozenset(name.removeprefix("/") for name, _ in host.list_commands())
        reader = EventParser(
            self._name, who.user, self._config.use_threads, self._threads.is_joined, commands
        )
        cursor = SlackCursor(host, self._now, self._monotonic, self._pace.keep_s)
        listening = SlackListener(
            self._web, self._config.app_token, host, self._pace, self._now, self._monotonic
        )
        listening.connect_parts(
            SlackIntake(
                host, reader, self._threads, self._thread_lookup(who), cursor, listening.catch_up
            ),
            SlackInteractions(
                host,
                reader,
                self._sending,
                self._own_chats,
                self.render,
                self._deferred_reply,
                self._pace.answer_s,
            ),
            SlackBackfill(self._web, reader, self._threads, self._sending),
            cursor,
        )
        await listening.run()

    def rate_limit(self, address: Address) -> RateLimit:
        """How fast one may write there."""
        return RATE_LIMIT

    def render(self, text: str) -> Sequence[MessagePart]:
        """Markdown as mrkdwn."""
        return render_parts(text)

    async def send(
        self,
        address: Address,
        piece: MessagePart,
        key: str,
        *,
        choices: Sequence[Choice] = (),
        reply_to: str = "",
    ) -> str:
        """Send; `reply_to` is of no use here, for what is answered is in the thread. Raises Refused, Later, Unclear, Revoked."""
        self._threads.join(address)
        return await self._sending.post(address, piece, key, choices)

    async def edit(
        self,
        address: Address,
        message_id: str,
        piece: MessagePart,
        *,
        choices: Sequence[Choice] = (),
    ) -> None:
        """Replace a message of ours, also one that is being streamed. Raises as `send`."""
        await self._drafts.finish(address, message_id, piece, tuple(choices))

    async def find(self, address: Address, key: str, piece: MessagePart, since: datetime) -> str:
        """The message with this key. What a crash has left there of a stream carries none: it is taken away on the way, so that
        it does not stand beside the answer. Raises Later, Revoked.
        """
        if sent := await self._files.find(address, key):
            return sent
        found, begun = await self._sending.find(address, key, since, await self._get_identity())
        await self._drafts.delete_orphans(address, begun)
        self._drafts.remember_found(address, found)
        return found

    async def show_draft(
        self, address: Address, key: str, text: str, shown: str, *, private: bool
    ) -> str:
        """Show an unfinished text: streamed in threads, else as a message that changes. Raises as `send`."""
        self._threads.join(address)
        self._drafts.team = self._identity.team if self._identity else ""
        return await self._drafts.show(address, key, text, shown, self.render(text)[-1])

    async def delete(self, address: Address, message_id: str) -> None:
        """Take a message of ours away. Raises as `send`."""
        self._drafts.forget(address, message_id)
        await self._sending.delete(address, message_id)

    async def show_typing(self, address: Address, status: str = "") -> None:
        """In a thread: the assistant's status; elsewhere there is no place for it. Raises as `send`."""
        if address.thread:
            shown = {
                "channel_id": address.chat,
                "thread_ts": address.thread,
                "status": (status or DEFAULT_STATUS)[:MAX_STATUS],
            }
            await self._call_optional("assistant.threads.setStatus", **shown)

    async def mark_seen(self, address: Address, message_id: str) -> None:
        """Eyes under the message. Raises as `send`."""
        await self._call_optional(
            "reactions.add", channel=address.chat, timestamp=message_id, name="eyes"
        )

    async def upload(
        self, address: Address, file: Path, name: str, caption: MessagePart, key: str
    ) -> str:
        """Send a file; Slack keeps no key with it, so that after a restart it cannot be found. Raises as `send`."""
        self._threads.join(address)
        return await self._files.upload(address, file, name, caption, key)

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """Fetch a file. Raises Refused, Later."""
        await self._files.download(attachment, into)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._web.aclose()

    def _thread_lookup(self, who: SlackIdentity) -> ThreadLookup:
        return ThreadLookup(
            self._web, who, self._threads, self._sending, self._pace.answer_s, self._monotonic
        )

    def _deferred_reply(self, address: str) -> DeferredReply:
        return DeferredReply(self._web, address, self._pace.timeout_s, self._monotonic)

    async def _get_identity(self, *, again: bool = False) -> SlackIdentity:
        if self._identity is None or again:
            self._identity = SlackIdentity.from_auth_test(await self._web.auth_test())
        return self._identity

    async def _wait_for_identity(self, host: Host) -> SlackIdentity:
        """Who we are, asked until Slack says so; without that nobody can tell who is addressed. Raises Revoked."""
        pause = self._pace.first_pause_s
        while True:
            try:
                return await self._get_identity(again=True)
            except RetryLater as no:
                host.report_trouble(str(no))
                await asyncio.sleep(max(pause, no.after_s))
                pause = min(pause * 2, self._pace.longest_pause_s)

    async def _call_optional(self, method: str, **arguments: object) -> None:
        """What is not there is not missed, and not asked for again."""
        about = f"{method} in {str(arguments.get('channel') or arguments.get('channel_id'))[:1]}"
        if about in self._unavailable:
            return
        try:
            await self._web.write(method, **arguments)
        except SlackError as no:
            if no.is_unavailable:
                self._unavailable.add(about)
                self._sending.log_once(about, f"{no}; going on without it")
