"""Calls of Telegram's Bot API: one try each; every failure is a ChannelError."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import aiohttp

from channels.base import ChannelError, Gone, Rejected, RetryLater, Revoked, Unsupported
from channels.json_access import parse_json
from channels.message import Attachment
from channels.transport import PlatformClient, lost_answer

READ_S = 30.0
PACED = ("sendMessage", "sendMessageDraft", "sendDocument", "editMessageText")
UNSAFE_IN_FILENAME = re.compile(r'[%"\\\x00-\x1f\x7f]')
REVOKED = (
    "Telegram does not accept the bot's token (any more). Messages to the bot wait there for a day. "
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
        self, method: str, params: Params | None = None, timeout_s: float = READ_S
    ) -> object:
        """The answer's `result`. Raises Rejected, RetryLater, Revoked, and DeliveryUnknown where
        the answer of a method that changes something is lost.
        """
        return await self._post(method, timeout_s, json=params or {})

    async def send_file(self, params: Params, file: Path, name: str, timeout_s: float) -> object:
        """`sendDocument`. Raises as `call`."""
        form = aiohttp.FormData(quote_fields=False)
        for key, value in params.items():
            form.add_field(key, value if isinstance(value, str) else json.dumps(value))
        # Telegram reads %20 as a space, simpler servers do not: only what has to be is escaped
        escaped = UNSAFE_IN_FILENAME.sub(lambda match: f"%{ord(match[0]):02X}", name)
        with await asyncio.to_thread(file.open, "rb") as content:
            form.add_field("document", content, filename=escaped)
            return await self._post("sendDocument", timeout_s, data=form)

    async def download(self, attachment: Attachment, path: str, into: BinaryIO, limit: int) -> None:
        """Copy a file. Raises Rejected, RetryLater."""
        url = self._files + path.lstrip("/")
        await self._http.download(url, attachment, into, limit, is_allowed=lambda _: True)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _post(self, method: str, timeout_s: float, **body: object) -> object:
        if self._interval_s and method in PACED:
            now = time.monotonic()
            self._next_at = max(now, self._next_at) + self._interval_s
            await asyncio.sleep(self._next_at - self._interval_s - now)
        url, sends = self._methods + method, not method.startswith("get")
        answer = await self._http.request(
            "POST", url, what=method, timeout_s=timeout_s, sends=sends, **body
        )
        parsed = parse_json(answer.body)
        fields = parsed if isinstance(parsed, dict) else {}
        if answer.status >= 400:
            raise _error_of(method, answer.status, fields)
        if "result" not in fields:
            raise lost_answer(f"Telegram's answer to {method} cannot be read", sends=sends)
        return fields["result"]


def _error_of(method: str, status: int, answer: Params) -> ChannelError:
    described = str(answer.get("description") or f"status {status}")[:300]
    parameters = answer.get("parameters")
    details = parameters if isinstance(parameters, dict) else {}
    if status == 401 or (status == 404 and method in ("getMe", "getUpdates", "sendMessage")):
        return Revoked(REVOKED)
    if status == 404:
        return Unsupported(f"the server does not know {method}")
    if status == 429:
        after_s = details.get("retry_after")
        wait_s = float(after_s) if isinstance(after_s, int | float) and after_s else 1.0
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
