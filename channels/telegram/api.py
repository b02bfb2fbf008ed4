"""Calls of Telegram's Bot API: one try each; every failure is a ChannelError."""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from channels.base import ChannelError, Gone, Rejected, RetryLater, Revoked, Unsupported
from channels.json_access import Json, find_object, find_text
from channels.message import Attachment
from channels.transport import PlatformClient, lost_answer, parse_seconds

READ_S = 30.0
PACED = ("sendMessage", "sendMessageDraft", "sendDocument", "editMessageText")
REVOKED = (
    "Telegram does not accept the bot's token (any more). Messages to it wait there for a day. "
    "Ask @BotFather for a token and put it into bot_token in [telegram]"
)
Params = Mapping[str, object]


class PollConflict(RetryLater):
    """Another program polls with the same token, or a webhook is set."""


class TelegramApi:
    """One bot at one server. `messages_per_second`: 0 for no limit of our own."""

    def __init__(self, root: str, token: str, messages_per_second: float = 0.0) -> None:
        self._http = PlatformClient("Telegram", root)
        self._methods, self._files = f"{root}/bot{token}/", f"{root}/file/bot{token}/"
        self._interval_s = 1 / messages_per_second if messages_per_second else 0.0
        self._next_at = 0.0

    async def call(
        self,
        method: str,
        params: Params | None = None,
        *,
        timeout_s: float = READ_S,
        file: tuple[Path, str] | None = None,
    ) -> object:
        """The answer's `result`. Raises Rejected, RetryLater, Revoked, and DeliveryUnknown where
        the answer of a method that changes something is lost.
        """
        if self._interval_s and method in PACED:
            now = time.monotonic()
            self._next_at = max(now, self._next_at) + self._interval_s
            await asyncio.sleep(self._next_at - self._interval_s - now)
        url, http, sends = self._methods + method, self._http, not method.startswith("get")
        how = {"what": method, "timeout_s": timeout_s}
        if file:
            fields = (params or {}).items()
            form = {
                key: value if isinstance(value, str) else json.dumps(value) for key, value in fields
            }
            answer = await http.upload(url, form, "document", *file, **how)
        else:
            answer = await http.request("POST", url, json=params or {}, sends=sends, **how)
        if answer.status >= 400:
            raise _error_of(method, answer.status, answer.fields)
        if "result" not in answer.fields:
            raise lost_answer(f"Telegram's answer to {method} cannot be read", sends=sends)
        return answer.fields["result"]

    async def download(self, attachment: Attachment, path: str, into: BinaryIO, limit: int) -> None:
        """Copy a file. Raises Rejected, RetryLater."""
        url = self._files + path.lstrip("/")
        await self._http.download(url, attachment, into, limit, is_allowed=lambda _: True)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _error_of(method: str, status: int, answer: Json) -> ChannelError:
    described = (find_text(answer, "description") or f"status {status}")[:300]
    details = find_object(answer, "parameters")
    if status == 401 or (status == 404 and method in ("getMe", "getUpdates", "sendMessage")):
        return Revoked(REVOKED)
    if status == 404:
        return Unsupported(f"the server does not know {method}")
    if status == 429:
        wait_s = parse_seconds(details.get("retry_after"), 1.0)
        return RetryLater(f"Telegram asks us to wait: {described}", wait_s)
    if status == 409:
        return PollConflict(described)
    if status >= 500:
        return RetryLater(f"Telegram is out of order: {described}")
    if chat := details.get("migrate_to_chat_id"):
        return Rejected(
            f"the group has become a supergroup; its chat is {chat} now, write to that one"
        )
    error = Gone if status == 403 or "not found" in described else Rejected
    return error(f"Telegram rejected {method}: {described}")
