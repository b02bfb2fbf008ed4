"""Buttons, slash commands and shortcuts: Slack sends these once only, and wants an answer within
three seconds (A14, A15).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from yarl import URL

from channels.base import (
    ChannelError,
    Host,
    NotAccepted,
    Rejected,
    RetryLater,
    Revoked,
    Unsupported,
)
from channels.json_access import Json, find_object, find_text
from channels.markup.sanitize import escape_markdown
from channels.markup.slack import render_parts
from channels.message import ButtonPress, InboundMessage, MessagePart
from channels.slack.config import SlackTiming
from channels.slack.events import EventParser
from channels.slack.web import SlackWeb
from channels.transport import proxy_for

AcknowledgeWith = Callable[[dict[str, object] | None], Awaitable[bool]]
NOT_SAVED = "This could not be written down, so nothing was done. Please try again in a moment."
MAX_DIRECT_CHATS = 2000
MAX_REPLIES, REPLIES_END_S = 5, 1800.0
"""Slack allows so many deferred replies, for half an hour."""

log = logging.getLogger(__name__)


class DeferredReply:
    """Replies after the acknowledgement, where the bot is no member. `address`: the response_url
    that came with the command, "" for none; whoever has it may reply in our name, so it is neither
    kept nor logged.
    """

    def __init__(
        self, web: SlackWeb, address: str, timeout_s: float, monotonic: Callable[[], float]
    ) -> None:
        self._web, self._timeout_s, self._monotonic = web, timeout_s, monotonic
        self._url = _response_url(address, web.base_url)
        self._left, self._ends = MAX_REPLIES, monotonic() + REPLIES_END_S

    @property
    def is_open(self) -> bool:
        """Slack will take a reply this way."""
        return self._url is not None and self._left > 0 and self._monotonic() < self._ends

    async def send(self, text: str) -> None:
        """Show it to whoever gave the command. Raises Rejected, RetryLater, DeliveryUnknown."""
        if self._url is None or not self.is_open:
            raise Rejected(
                f"Slack takes {MAX_REPLIES} replies to a command, within half an hour; the rest was not shown"
            )
        self._left -= 1
        body = {"response_type": "ephemeral", "text": text}
        options = {"proxy": proxy_for(str(self._url)), "timeout_s": self._timeout_s, "sends": True}
        answer = await self._web.http.request(
            "POST", self._url, what="the reply to a command", json=body, **options
        )
        if answer.status == 429 or answer.status >= 500:
            raise RetryLater(f"Slack: the reply to a command got HTTP {answer.status}")
        if answer.status >= 300:
            raise Rejected(f"Slack: the reply to a command was rejected with HTTP {answer.status}")


def _response_url(address: str, base_url: str) -> URL | None:
    """Only Slack's own are used: of the server that we talk to, or over https of slack.com."""
    try:
        url = URL(address)
        if url.origin() == URL(base_url).origin():
            return url
    except ValueError:
        return None
    host = url.host or ""
    return (
        url
        if url.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com"))
        else None
    )


class SlackInteractions:
    """Each is handled in a task of its own, so that /stop waits for nobody."""

    def __init__(
        self,
        web: SlackWeb,
        host: Host,
        parser: EventParser,
        timing: SlackTiming,
        monotonic: Callable[[], float],
    ) -> None:
        self._web, self._host, self._parser = web, host, parser
        self._timing, self._monotonic = timing, monotonic
        self._own_chats: OrderedDict[str, bool] = OrderedDict()
        self._can_ask = True

    async def handle(self, kind: str, payload: Json, acknowledge: AcknowledgeWith) -> None:
        """One of them. Raises UnreadablePayload."""
        response_url = find_text(payload, "response_url")
        match kind, payload.get("type"):
            case "slash_commands", _:
                asked = self._parser.parse_slash(payload)
                await self._handle_slash(asked, self._deferred(response_url), acknowledge)
            case _, "block_actions":
                await acknowledge(None)
                press = self._parser.parse_press(payload)
                parts = await self._reply_parts(self._host.press_button(press))
                await self._reply(press, parts, self._deferred(""))
            case _, "message_action":
                await acknowledge(None)
                asked = self._parser.parse_shortcut(payload)
                parts = await self._reply_parts(self._run_command(asked))
                if not find_text(find_object(payload, "message"), "thread_ts"):
                    # nobody sees what is shown to one person in a thread that has not begun
                    asked = replace(asked, address=replace(asked.address, thread=""))
                await self._reply(asked, parts, self._deferred(response_url))
            case _:
                await acknowledge(None)

    async def _handle_slash(
        self, asked: InboundMessage, deferred: DeferredReply, acknowledge: AcknowledgeWith
    ) -> None:
        replying = asyncio.create_task(self._reply_parts(self._run_command(asked)))
        try:
            done, _ = await asyncio.wait([replying], timeout=self._timing.answer_s)
            if not done:
                await acknowledge(None)
                await self._reply(asked, await replying, deferred)
                return
            parts = await replying
            body: dict[str, object] = (
                {"response_type": "ephemeral", "text": parts[0].text} if parts else {}
            )
            is_shown = await acknowledge(body or None)
            await self._reply(asked, parts[1:] if is_shown else parts, deferred)
        finally:
            replying.cancel()

    async def _run_command(self, asked: InboundMessage) -> str:
        is_private = asked.private and await self._is_own_chat(asked.address.chat)
        return await self._host.run_command(replace(asked, private=is_private))

    async def _is_own_chat(self, chat: str) -> bool:
        """Slash commands and shortcuts come from private chats between other people, too: only
        where Slack tells us of the chat it is the assistant's.
        """
        if chat in self._own_chats or not self._can_ask:
            return self._own_chats.get(chat, False)
        is_own = True
        try:
            async with asyncio.timeout(self._timing.answer_s):
                await self._web.read("conversations.info", channel=chat)
        except (RetryLater, Revoked, TimeoutError):
            return False
        except Rejected as error:
            self._can_ask = not isinstance(error, Unsupported)
            is_own = False
        self._own_chats[chat] = is_own
        if len(self._own_chats) > MAX_DIRECT_CHATS:
            self._own_chats.popitem(last=False)
        return is_own

    async def _reply_parts(self, reply: Awaitable[str]) -> Sequence[MessagePart]:
        try:
            text = await reply
        except NotAccepted:
            text = NOT_SAVED
        return render_parts(escape_markdown(text)) if text.strip() else ()

    async def _reply(
        self,
        to: InboundMessage | ButtonPress,
        parts: Sequence[MessagePart],
        deferred: DeferredReply,
    ) -> None:
        """To one person; deferred where the bot is no member and may show nobody anything."""
        is_member = True
        target = {"channel": to.address.chat, "thread_ts": to.address.thread, "user": to.sender.id}
        for part in parts:
            try:
                if is_member:
                    try:
                        await self._web.write("chat.postEphemeral", **target, text=part.text)
                    except (Rejected, RetryLater):
                        if not deferred.is_open:
                            raise
                        is_member = False
                if not is_member:
                    await deferred.send(part.text)
            except ChannelError as error:
                log.warning("Slack: a reply was not shown: %s", error)
                return

    def _deferred(self, address: str) -> DeferredReply:
        return DeferredReply(self._web, address, self._timing.timeout_s, self._monotonic)
