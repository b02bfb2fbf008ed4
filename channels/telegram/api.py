"""Calls of Telegram's Bot API through python-telegram-bot: one try each; every failure is a
ChannelError.
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from telegram import Bot, InputFile
from telegram.error import TelegramError
from telegram.request import BaseRequest, RequestData

from channels.base import ChannelError, Gone, Rejected, RetryLater, Revoked, Unsupported
from channels.json_access import Json, find_object, find_text, parse_json
from channels.message import Attachment
from channels.transport import PlatformClient, lost_answer, make_form, parse_seconds

READ_S = 30.0
PACED = ("sendMessage", "sendMessageDraft", "sendDocument", "editMessageText")
REVOKED = (
    "Telegram does not accept the bot's token (any more). Messages to it wait there for a day. "
    "Ask @BotFather for a token and put it into bot_token in [telegram]"
)
Params = Mapping[str, object]


class PollConflict(RetryLater):
    """Another program polls with the same token, or a webhook is set."""


class _Failure(TelegramError):
    """Carries a ChannelError through the library."""

    def __init__(self, error: ChannelError) -> None:
        super().__init__(str(error))
        self.error = error


class _Request(BaseRequest):
    """The library's requests over aiohttp; failures tell whether anything was sent."""

    def __init__(self, http: PlatformClient) -> None:
        self._http = http

    @property
    def read_timeout(self) -> float:
        return READ_S

    async def initialize(self) -> None:
        """Connections are opened when they are needed."""

    async def shutdown(self) -> None:
        """The client closes them."""

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        *timeouts: Any,
        **more: Any,
    ) -> tuple[int, bytes]:
        """One request. Raises _Failure."""
        name = url.rpartition("/")[2]
        how = {"what": name, "timeout_s": more["read_timeout"], "sends": not name.startswith("get")}
        if request_data is None:
            body = {}
        elif request_data.contains_files:
            files = request_data.multipart_data or {}
            body = {"data": make_form(request_data.json_parameters, files)}
        else:
            body = {"json": request_data.parameters}
        try:
            answer = await self._http.request(method, url, **how, **body)
        except ChannelError as error:
            raise _Failure(error) from None
        if answer.status >= 400:
            raise _Failure(_error_of(name, answer.status, answer.fields))
        if "result" not in answer.fields:
            lost = lost_answer(f"Telegram's answer to {name} cannot be read", sends=how["sends"])
            raise _Failure(lost)
        return answer.status, answer.body

    @staticmethod
    def parse_json_payload(payload: bytes) -> Any:
        return parse_json(payload)


class TelegramApi:
    """One bot at one server. `messages_per_second`: 0 for no limit of our own."""

    def __init__(self, root: str, token: str, messages_per_second: float = 0.0) -> None:
        self._http = PlatformClient("Telegram", root)
        request = _Request(self._http)
        urls = f"{root}/bot", f"{root}/file/bot"
        self._bot = Bot(token, *urls, request=request, get_updates_request=request)
        self._files = f"{root}/file/bot{token}/"
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
        if file is None:
            return await self._request(method, params or {}, timeout_s)
        path, name = file
        with await asyncio.to_thread(path.open, "rb") as content:
            document = InputFile(content, name, read_file_handle=False)
            return await self._request(method, {**(params or {}), "document": document}, timeout_s)

    async def _request(self, method: str, params: Params, timeout_s: float) -> object:
        try:
            # the underscore avoids the library's warning that it has an own method of this name
            return await self._bot.do_api_request(
                f"{method}_", api_kwargs=dict(params), read_timeout=timeout_s
            )
        except _Failure as failure:
            raise failure.error from None

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
