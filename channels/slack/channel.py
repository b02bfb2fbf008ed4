"""Slack: one workspace (A13, A14, A15, E7, E12, F1)."""

from collections.abc import Sequence
from dataclasses import replace

from channels.base import Capabilities, Host, RateLimit, RetryLater
from channels.markup.slack import LIMIT, render_parts
from channels.message import Address, MessagePart
from channels.slack.config import SlackAccount, SlackTiming
from channels.slack.events import EventParser
from channels.slack.listener import SlackListener
from channels.slack.sending import MAX_DOWNLOAD, MAX_UPLOAD, SlackSender
from channels.slack.web import SlackWeb
from channels.transport import Backoff

CAPABILITIES = Capabilities(
    limit=LIMIT, typing_every_s=30.0, max_upload=MAX_UPLOAD, max_download=MAX_DOWNLOAD
)
RATE_LIMIT = RateLimit(3, 3.0)
"""Slack allows one message a second in a channel, and short bursts."""
DEFAULT_STATUS, MAX_STATUS = "is thinking…", 100


class Slack(SlackSender):
    """channels.base.Channel."""

    Config = SlackAccount

    def __init__(
        self, config: SlackAccount, *, name: str = "slack", timing: SlackTiming | None = None
    ) -> None:
        self.name = name
        super().__init__(SlackWeb(config, timing or SlackTiming()))

    @property
    def capabilities(self) -> Capabilities:
        """Without the scopes for the history nothing can be found."""
        return replace(CAPABILITIES, can_find=self.can_find)

    async def check(self) -> str:
        """The app's own token is tried too, for without it nothing comes in."""
        identity = await self._web.get_identity()
        await self._web.open_socket()
        return identity

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        web, timing = self._web, self._web.timing
        backoff = Backoff(timing.first_s, timing.longest_s)
        # without the identity nobody can tell who is addressed
        await backoff.retry(web.get_identity, RetryLater, host.report_trouble)
        for address in reversed(await host.list_conversations()):
            self._threads.join(address)
        commands = {name.removeprefix("/") for name, _ in host.list_commands()}
        use_threads = web.config.use_threads
        parser = EventParser(self.name, web.user, use_threads, self._threads, commands)
        await SlackListener(web, host, parser).run()

    def rate_limit(self, address: Address) -> RateLimit:
        return RATE_LIMIT

    def render(self, text: str) -> Sequence[MessagePart]:
        return render_parts(text)

    async def show_typing(self, address: Address, status: str = "") -> None:
        """In a thread: the assistant's status; elsewhere there is no place for it."""
        if address.thread:
            status = (status or DEFAULT_STATUS)[:MAX_STATUS]
            target = {"channel_id": address.chat, "thread_ts": address.thread, "status": status}
            await self._call_optional("assistant.threads.setStatus", address, **target)

    async def mark_seen(self, address: Address, message_id: str) -> None:
        target = {"channel": address.chat, "timestamp": message_id, "name": "eyes"}
        await self._call_optional("reactions.add", address, **target)

    async def aclose(self) -> None:
        await self._web.http.aclose()

    async def _call_optional(self, method: str, address: Address, **arguments: object) -> None:
        """A workspace may offer it in some kinds of chats only."""
        feature = f"{method} in {address.chat[:1]}"
        await self._web.optional.attempt(feature, self._web.write, method, **arguments)
