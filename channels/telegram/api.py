"""Calls of Telegram's Bot API through python-telegram-bot: one try each; every failure is a
ChannelError.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from telegram import Bot, InputFile
from telegram.error import TelegramError
from telegram.request import BaseRequest, RequestData

from channels.base import ChannelError, Gone, Moved, Rejected, RetryLater, Revoked, Unsupported
from channels.json_access import Json, find_number, find_object, find_text, parse_json
from channels.transport import PlatformClient, lost_answer, make_form, parse_seconds

READ_S, UPLOAD_S = 30.0, 180.0
PACED = ("sendMessage", "sendMessageDraft", "sendDocument", "editMessageText")
REVOKED = (
    "Telegram does not accept the bot's token (any more). Messages to it wait there for a day. "
    "Ask @BotFather for a token and put it into bot_token in [telegram]"
)
Params = Mapping[str, object]
NO_PARAMS: Params = {}


class PollConflict(RetryLater):
    """Another program polls with the same token, or a webhook is set."""


class _Failure(TelegramError):
    """Carries a ChannelError through the library."""

    def __init__(self, error: ChannelError) -> None:
        super().__init__(str(error))
        self.error = error


class _Request(BaseRequest):
    """The library's requests over aiohttp; failures tell whether anything was sent."""

    read_timeout = READ_S

    def __init__(self, http: PlatformClient) -> None:
        self._http = http

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
        name, body = url.rpartition("/")[2], {}
        sends = not name.startswith("get")
        if request_data and request_data.contains_files:
            files = request_data.multipart_data or {}
            body["data"] = make_form(request_data.json_parameters, files)
        elif request_data:
            body["json"] = request_data.parameters
        try:
            answer = await self._http.request(
                method, url, what=name, timeout_s=more["read_timeout"], sends=sends, **body
            )
            fields = find_object(answer.value)
            if answer.status >= 400:
                raise _error_of(name, answer.status, fields)
            if "result" not in fields:
                raise lost_answer(f"Telegram's answer to {name} cannot be read", sends=sends)
        except ChannelError as error:
            raise _Failure(error) from None
        return answer.status, answer.body

    parse_json_payload = staticmethod(parse_json)


class TelegramApi:
    """One bot at one server; `files`: where its files are. `messages_per_second`: 0 for no limit of
    our own.
    """

    def __init__(self, root: str, token: str, messages_per_second: float = 0.0) -> None:
        self.http = PlatformClient("Telegram", root)
        request = _Request(self.http)
        urls = f"{root}/bot", f"{root}/file/bot"
        self._bot = Bot(token, *urls, request=request, get_updates_request=request)
        self.files = f"{root}/file/bot{token}/"
        self._interval_s = 1 / messages_per_second if messages_per_second else 0.0
        self._next_at = 0.0

    async def call(self, method: str, params: Params = NO_PARAMS, timeout_s: float = 0.0) -> object:
        """The answer's `result`. A `file` in the parameters (path, name) is sent as a document.

        Raises Rejected, RetryLater, Revoked, and DeliveryUnknown where the answer of a method that
        changes something is lost.
        """
        if self._interval_s and method in PACED:
            now = time.monotonic()
            self._next_at = max(now, self._next_at) + self._interval_s
            await asyncio.sleep(self._next_at - self._interval_s - now)
        given: dict[str, Any] = dict(params)
        path, name = given.pop("file", (None, ""))
        with ExitStack() as stack:
            if path:
                content = stack.enter_context(await asyncio.to_thread(path.open, "rb"))
                given["document"] = InputFile(content, name, read_file_handle=False)
            try:
                # the underscore avoids the library's warning that it has an own method of this name
                return await self._bot.do_api_request(
                    f"{method}_",
                    api_kwargs=given,
                    read_timeout=timeout_s or (UPLOAD_S if path else READ_S),
                )
            except _Failure as failure:
                raise failure.error from None


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
    if chat := find_number(details, "migrate_to_chat_id"):
        return Moved(f"the group has become a supergroup; its chat is {chat} now", str(chat))
    error = Gone if status == 403 or "not found" in described else Rejected
    return error(f"Telegram rejected {method}: {described}")
