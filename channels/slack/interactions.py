"""Buttons, slash commands and shortcuts: Slack sends these once only, and wants an answer within
three seconds (A14, A15).
"""

import asyncio
import logging
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
from channels.json_access import Json, find_text
from channels.markup.sanitize import escape_markdown
from channels.markup.slack import render_parts
from channels.message import ButtonPress, InboundMessage
from channels.slack.events import EventParser
from channels.slack.web import SlackWeb
from channels.transport import RecentDict, check_status, proxy_for

NOT_SAVED = "This could not be written down, so nothing was done. Please try again in a moment."
MAX_DIRECT_CHATS = 2000
MAX_REPLIES = 5
"""Slack allows so many deferred replies."""
log = logging.getLogger(__name__)


class SlackInteractions:
    """Each is handled in a task of its own, so that /stop waits for nobody."""

    def __init__(self, web: SlackWeb, host: Host, parser: EventParser) -> None:
        self._web, self._host, self._parser = web, host, parser
        self._own_chats = RecentDict[str, bool](MAX_DIRECT_CHATS)
        self._can_ask = True

    async def handle(self, kind: str, payload: Json) -> None:
        """One of them, acknowledged already. Raises UnreadablePayload."""
        asked: InboundMessage | ButtonPress
        response_url = find_text(payload, "response_url")
        if payload.get("type") == "block_actions":
            asked, response_url = self._parser.parse_press(payload), ""
            reply = self._host.press_button(asked)
        elif kind == "slash_commands" or payload.get("type") == "message_action":
            asked = self._parser.parse_command(payload)
            chat, message = asked.address.chat, payload.get("message")
            is_private = asked.private and await self._is_own_chat(chat)
            reply = self._host.run_command(replace(asked, private=is_private))
            if message and not find_text(message, "thread_ts"):
                # nobody sees what is shown to one person in a thread that has not begun
                asked = replace(asked, address=replace(asked.address, thread=""))
        else:
            return
        try:
            text = await reply
        except NotAccepted:
            text = NOT_SAVED
        try:
            await self._reply(asked, text, response_url)
        except ChannelError as error:
            log.warning("Slack: a reply was not shown: %s", error)

    async def _is_own_chat(self, chat: str) -> bool:
        """Slash commands and shortcuts come from private chats between other people, too: only
        where Slack tells us of the chat it is the assistant's.
        """
        if chat in self._own_chats or not self._can_ask:
            return self._own_chats.get(chat, False)
        is_own = True
        try:
            async with asyncio.timeout(self._web.timing.answer_s):
                await self._web.read("conversations.info", channel=chat)
        except (RetryLater, Revoked, TimeoutError):
            return False
        except Rejected as error:
            self._can_ask = not isinstance(error, Unsupported)
            is_own = False
        self._own_chats[chat] = is_own
        return is_own

    async def _reply(self, to: InboundMessage | ButtonPress, text: str, response_url: str) -> None:
        """To one person; deferred where the bot is no member and may show nobody anything. Raises
        ChannelError.
        """
        target = {"channel": to.address.chat, "thread_ts": to.address.thread, "user": to.sender.id}
        deferred = 0
        for part in render_parts(escape_markdown(text)) if text.strip() else ():
            if not deferred:
                try:
                    await self._web.write("chat.postEphemeral", **target, text=part.text)
                    continue
                except (Rejected, RetryLater):
                    if not _is_usable(response_url, self._web):
                        raise
            if deferred == MAX_REPLIES:
                raise Rejected(f"Slack takes {MAX_REPLIES}; the rest was not shown")
            deferred += 1
            body, what = {"response_type": "ephemeral", "text": part.text}, "the reply to a command"
            how = {"timeout_s": self._web.timing.timeout_s, "proxy": proxy_for(response_url)}
            answer = await self._web.http.request(
                "POST", response_url, what=what, sends=True, json=body, **how
            )
            check_status(answer.status, f"Slack: {what}")


def _is_usable(address: str, web: SlackWeb) -> bool:
    try:
        return web.is_own(URL(address))
    except ValueError:
        return False
