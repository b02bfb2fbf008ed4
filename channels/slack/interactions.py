"""Answers to a command that come after its acknowledgement, where the bot is no member and may show nobody anything (A14).

Which private chats are the assistant's own: slash commands and shortcuts come from those between others, too (A14).

Buttons, slash commands and shortcuts: Slack sends these once only, and wants its answer within three seconds (A14, A15).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from aiohttp import ClientConnectorError, ClientError, ConnectionTimeoutError
from yarl import URL

from channels.base import (
    ChannelError,
    DeliveryUnknown,
    Host,
    NotAccepted,
    Rejected,
    RetryLater,
    Revoked,
)
from channels.markup.sanitize import escape_markdown
from channels.message import ButtonPress, InboundMessage, MessagePart
from channels.platform import proxy_for
from channels.slack.events import EventParser
from channels.slack.sending import SlackMessages
from channels.slack.web import Json, SlackError, SlackWeb, find_text, get_object

MAX_REPLIES, LIFETIME_S = 5, 1800.0
"""Slack allows so many answers, for half an hour."""


class DeferredReply:
    """`address`: the response_url that came with the command, "" for none. Whoever has it may answer in our name: it is kept as
    long as the command is being answered, and shown to nobody. `monotonic`: seconds that never go back.
    """

    def __init__(
        self, web: SlackWeb, address: str, timeout_s: float, monotonic: Callable[[], float]
    ) -> None:
        self._web, self._timeout_s, self._monotonic = web, timeout_s, monotonic
        self._url = _url(address, web.base_url)
        self._left, self._ends = MAX_REPLIES, monotonic() + LIFETIME_S

    @property
    def is_open(self) -> bool:
        """Slack will take an answer this way."""
        return self._url is not None and self._left > 0 and self._monotonic() < self._ends

    async def send(self, text: str) -> None:
        """Show it to whoever gave the command. Raises Refused, Later, Unclear."""
        if self._url is None or not self.is_open:
            raise Rejected(
                f"Slack takes {MAX_REPLIES} answers to a command, within half an hour; the rest was not shown"
            )
        self._left -= 1
        status = await self._post(self._url, {"response_type": "ephemeral", "text": text})
        if status == 429 or status >= 500:
            raise RetryLater(f"Slack: the answer to a command got HTTP {status}")
        if status >= 300:
            raise Rejected(f"Slack: the answer to a command was refused with HTTP {status}")

    async def _post(self, url: URL, answer: dict[str, str]) -> int:
        """The status. What goes wrong is told by its kind only: its words may hold the address."""
        try:
            async with asyncio.timeout(self._timeout_s):
                proxy = proxy_for(str(url))
                async with self._web.session.post(
                    url, json=answer, proxy=proxy, allow_redirects=False
                ) as response:
                    return response.status
        except (ClientConnectorError, ConnectionTimeoutError) as no:
            raise RetryLater(
                f"Slack: the answer to a command: no connection ({type(no).__name__})"
            ) from None
        except (ClientError, ConnectionError, TimeoutError, ValueError) as no:
            raise DeliveryUnknown(
                f"Slack: the answer to a command was lost ({type(no).__name__})"
            ) from None


def _url(address: str, base_url: str) -> URL | None:
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


MAX_DIRECT_CHATS = 2000


class DirectChats:
    """`look_s`: how long Slack's answer may take, for who gave the command waits for it."""

    def __init__(self, web: SlackWeb, look_s: float) -> None:
        self._web, self._look_s = web, look_s
        self._known: OrderedDict[str, bool] = OrderedDict()
        self._unavailable = False

    async def mark_private(self, asked: InboundMessage) -> InboundMessage:
        """The same; it is private only where that is known."""
        return replace(asked, private=asked.private and await self._is_own(asked.address.chat))

    async def _is_own(self, chat: str) -> bool:
        if chat in self._known or self._unavailable:
            return self._known.get(chat, False)
        try:
            async with asyncio.timeout(self._look_s):
                await self._web.read("conversations.info", channel=chat)
        except (RetryLater, Revoked, TimeoutError):
            return False
        except SlackError as no:
            self._unavailable = no.is_unavailable
            own = False
        else:
            own = True
        self._known[chat] = own
        if len(self._known) > MAX_DIRECT_CHATS:
            self._known.popitem(last=False)
        return own


AcknowledgeWith = Callable[[dict[str, object] | None], Awaitable[bool]]
NOT_SAVED = "This could not be written down, so nothing was done. Please try again in a moment."
log = logging.getLogger(__name__)


class SlackInteractions:
    """Each is handled in a task of its own, so that /stop waits for nobody."""

    def __init__(
        self,
        host: Host,
        reader: EventParser,
        sending: SlackMessages,
        own_chats: DirectChats,
        render: Callable[[str], Sequence[MessagePart]],
        afterwards: Callable[[str], DeferredReply],
        answer_s: float,
    ) -> None:
        self._host, self._reader, self._sending, self._render_parts = host, reader, sending, render
        self._own_chats = own_chats
        self._afterwards, self._answer_s = afterwards, answer_s

    async def handle(self, kind: str, payload: Json, acknowledge: AcknowledgeWith) -> None:
        """One of them. Raises Unreadable."""
        match kind, payload.get("type"):
            case "slash_commands", _:
                await self._slash(
                    self._reader.parse_slash(payload), self._deferred_reply(payload), acknowledge
                )
            case _, "block_actions":
                await acknowledge(None)
                press = self._reader.parse_press(payload)
                await self._reply(
                    press,
                    self._render(await self._or_not_saved(self._host.press_button(press))),
                    self._deferred_reply({}),
                )
            case _, "message_action":
                await acknowledge(None)
                asked = self._reader.parse_shortcut(payload)
                pieces = self._render(await self._or_not_saved(self._run_command(asked)))
                await self._reply(
                    _visible_thread(asked, payload), pieces, self._deferred_reply(payload)
                )
            case _:
                await acknowledge(None)

    async def _slash(
        self, asked: InboundMessage, later: DeferredReply, acknowledge: AcknowledgeWith
    ) -> None:
        replying = asyncio.create_task(self._or_not_saved(self._run_command(asked)))
        try:
            done, _ = await asyncio.wait([replying], timeout=self._answer_s)
            if not done:
                await acknowledge(None)
                await self._reply(asked, self._render(await replying), later)
                return
            pieces = self._render(await replying)
            told = await acknowledge(
                {"response_type": "ephemeral", "text": pieces[0].text} if pieces else None
            )
            await self._reply(asked, pieces[1:] if told else pieces, later)
        finally:
            replying.cancel()

    async def _run_command(self, asked: InboundMessage) -> str:
        return await self._host.run_command(await self._own_chats.mark_private(asked))

    async def _or_not_saved(self, answer: Awaitable[str]) -> str:
        try:
            return await answer
        except NotAccepted:
            return NOT_SAVED

    async def _reply(
        self, to: InboundMessage | ButtonPress, pieces: Sequence[MessagePart], later: DeferredReply
    ) -> None:
        """`later`: the way for where the bot is no member and may show nobody anything."""
        member = True
        for piece in pieces:
            try:
                member = member and await self._send_ephemeral(to, piece, later)
                if not member:
                    await later.send(piece.text)
            except ChannelError as no:
                log.warning("a reply was not shown: %s", no)
                return

    async def _send_ephemeral(
        self, to: InboundMessage | ButtonPress, piece: MessagePart, later: DeferredReply
    ) -> bool:
        try:
            await self._sending.post_ephemeral(to.address, to.sender.id, piece)
        except (Rejected, RetryLater):
            if not later.is_open:
                raise
            return False
        return True

    def _deferred_reply(self, payload: Json) -> DeferredReply:
        return self._afterwards(find_text(payload, "response_url"))

    def _render(self, words: str) -> Sequence[MessagePart]:
        return self._render_parts(escape_markdown(words)) if words.strip() else ()


def _visible_thread(asked: InboundMessage, payload: Json) -> InboundMessage:
    """What is shown to one person in a thread is seen only where that has begun."""
    begun = find_text(get_object(payload, "message"), "thread_ts")
    return asked if begun else replace(asked, address=replace(asked.address, thread=""))
