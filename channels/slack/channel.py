"""Slack: one workspace (A13, A14, A15, E7, E12, F1)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import BinaryIO

from channels.base import Capabilities, Host, RateLimit, RetryLater
from channels.markup.slack import LIMIT, render_parts
from channels.message import Address, Attachment, MessagePart, OutboundMessage
from channels.slack.config import SlackAccount, SlackTiming
from channels.slack.events import EventParser
from channels.slack.files import MAX_DOWNLOAD, MAX_UPLOAD, SlackFiles
from channels.slack.history import ThreadMembership
from channels.slack.listener import SlackListener
from channels.slack.sending import SlackMessages
from channels.slack.web import SlackWeb
from channels.transport import Backoff

CAPABILITIES = Capabilities(
    limit=LIMIT,
    draft_every_s=1.2,
    typing_every_s=30.0,
    max_upload=MAX_UPLOAD,
    max_download=MAX_DOWNLOAD,
)
WITHOUT_FIND = replace(CAPABILITIES, can_find=False)
RATE_LIMIT = RateLimit(3, 3.0)
"""Slack allows one message a second in a channel, and short bursts."""
DEFAULT_STATUS, MAX_STATUS = "is thinking…", 100


class Slack:
    """channels.base.Channel."""

    Config = SlackAccount

    def __init__(
        self,
        config: SlackAccount,
        *,
        name: str = "slack",
        timing: SlackTiming | None = None,
    ) -> None:
        self.name = name
        self._config, self._timing = config, timing or SlackTiming()
        self._web = SlackWeb(
            app_token=config.app_token,
            bot_token=config.bot_token,
            base_url=config.base_url,
            timeout_s=self._timing.timeout_s,
        )
        self._threads = ThreadMembership(map(str, (*config.allowed_user_ids, *config.owner_ids)))
        self._messages = SlackMessages(self._web, self._threads)
        self._files = SlackFiles(self._web, self._timing.transfer_s)

    @property
    def capabilities(self) -> Capabilities:
        """Without the scopes for the history nothing can be found."""
        return CAPABILITIES if self._messages.can_find else WITHOUT_FIND

    async def check(self) -> str:
        """The app's own token is tried too, for without it nothing comes in."""
        identity = await self._web.get_identity()
        await self._web.open_socket()
        return f"@{identity.name} in {identity.workspace}"

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        backoff = Backoff(self._timing.first_s, self._timing.longest_s)
        # without the identity nobody can tell who is addressed
        identity = await backoff.retry(self._web.get_identity, RetryLater, host.report_trouble)
        for address in reversed(await host.list_conversations()):
            self._threads.join(address)
        commands = frozenset(name.removeprefix("/") for name, _ in host.list_commands())
        threads, use_threads = self._threads, self._config.use_threads
        parser = EventParser(self.name, identity.user, use_threads, threads.is_joined, commands)
        listener = SlackListener(self._web, host, parser, threads, self._timing)
        await listener.run()

    def rate_limit(self, address: Address) -> RateLimit:
        return RATE_LIMIT

    def render(self, text: str) -> Sequence[MessagePart]:
        return render_parts(text)

    async def send(self, message: OutboundMessage) -> str:
        """`reply_to` is of no use here: what is answered is in the thread. Slack keeps no key with
        a file: after a restart it cannot be found.
        """
        self._threads.join(message.address)
        if message.file:
            return await self._files.upload(message, message.file)
        return await self._messages.post(message)

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        await self._messages.edit(message_id, message)

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        if sent := await self._files.find(message):
            return sent
        return await self._messages.find(message, since)

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        """Streamed in threads, else as a message that is edited."""
        self._threads.join(address)
        end = OutboundMessage(address, self.render(text)[-1], key)
        return await self._messages.show_draft(end, text, shown)

    async def delete(self, address: Address, message_id: str) -> None:
        await self._messages.delete(address, message_id)

    async def show_typing(self, address: Address, status: str = "") -> None:
        """In a thread: the assistant's status; elsewhere there is no place for it."""
        if address.thread:
            status = (status or DEFAULT_STATUS)[:MAX_STATUS]
            target = {"channel_id": address.chat, "thread_ts": address.thread, "status": status}
            await self._call_optional("assistant.threads.setStatus", address, **target)

    async def mark_seen(self, address: Address, message_id: str) -> None:
        target = {"channel": address.chat, "timestamp": message_id, "name": "eyes"}
        await self._call_optional("reactions.add", address, **target)

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        await self._files.download(attachment, into)

    async def aclose(self) -> None:
        await self._web.http.aclose()

    async def _call_optional(self, method: str, address: Address, **arguments: object) -> None:
        """A workspace may offer it in some kinds of chats only."""
        feature = f"{method} in {address.chat[:1]}"
        await self._web.optional.attempt(feature, self._web.write, method, **arguments)
