"""What is sent, as Telegram wants it told.

Files, both ways.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO

from channels.base import DeliveryUnknown, Rejected, RetryLater
from channels.markup.split import utf16_length
from channels.message import Address, Attachment, Choice, MessagePart
from channels.platform import check_size
from channels.telegram.api import InputFile, TelegramApi

BUTTONS_PER_ROW = 2
MAX_CAPTION, MAX_TOAST = 1024, 200
COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
MAX_COMMANDS = 100
NO_PREVIEW = {"is_disabled": True}
Params = dict[str, Any]


def chat_arguments(address: Address) -> Params:
    """Where to."""
    return {"chat_id": _id_of(address.chat)} | (
        {"message_thread_id": _id_of(address.thread)} if address.thread else {}
    )


def message_arguments(address: Address, message_id: str) -> Params:
    """Which message."""
    return {"chat_id": _id_of(address.chat), "message_id": _id_of(message_id)}


def keyboard(choices: Sequence[Choice]) -> Params:
    """The choices, two in a row."""
    if not choices:
        return {}
    told = [{"text": choice.label, "callback_data": choice.data} for choice in choices]
    return {
        "reply_markup": {
            "inline_keyboard": [
                told[at : at + BUTTONS_PER_ROW] for at in range(0, len(told), BUTTONS_PER_ROW)
            ]
        }
    }


def reply_arguments(message_id: str) -> Params:
    """What it replies to, if that is still there."""
    if not message_id.isdigit():
        return {}
    return {
        "reply_parameters": {"message_id": int(message_id), "allow_sending_without_reply": True}
    }


def command_menu(commands: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """The commands that Telegram's menu can show."""
    fit = [(name.removeprefix("/"), help_text) for name, help_text in commands]
    told = [
        {"command": name, "description": words[:256] or name}
        for name, words in fit
        if COMMAND_NAME.fullmatch(name)
    ]
    return told[:MAX_COMMANDS]


def shorten(text: str, limit: int) -> str:
    """Its beginning, where it is too long."""
    if utf16_length(text) <= limit:
        return text
    return text.encode("utf-16-le")[: 2 * (limit - 1)].decode("utf-16-le", "ignore") + "…"


async def send_formatted(
    piece: MessagePart, field: str, send: Callable[[Params], Awaitable[object]]
) -> object:
    """Send it with its markup, and without where Telegram cannot parse that."""
    if not piece.text:
        return await send({field: piece.plain} if piece.plain else {})
    try:
        return await send({field: piece.text, "parse_mode": "HTML"})
    except Rejected as refused:
        if "parse entities" not in str(refused):
            raise
        return await send({field: piece.plain})


def message_id_of(message: object) -> str:
    """The id of what was sent; "" where the server does not say."""
    number = message.get("message_id") if isinstance(message, dict) else None
    return "" if number is None else str(number)


def _id_of(told: str) -> int | str:
    return int(told) if told.removeprefix("-").isdecimal() else told


MAX_UPLOAD, MAX_DOWNLOAD = 50 << 20, 20 << 20
UPLOAD_S = 180.0
TOO_LARGE = "{name} is larger than the {megabytes} MB that Telegram gives to a bot"


async def upload_file(
    api: TelegramApi, where: Params, file: Path, name: str, caption: MessagePart
) -> str:
    """Send a file; the message's id. A caption that is too long is shortened, without its markup. Raises as Channel.send."""
    await check_size(file, name, MAX_UPLOAD, "Telegram")
    short = shorten(caption.plain, MAX_CAPTION)

    async def send(words: Params) -> object:
        handle = await asyncio.to_thread(file.open, "rb")
        with handle:
            document = InputFile(handle, filename=name, read_file_handle=False)
            return await api.call(
                "sendDocument", {"document": document} | where | words, timeout_s=UPLOAD_S
            )

    fits = short == caption.plain and utf16_length(caption.text) <= MAX_CAPTION
    return message_id_of(
        await send_formatted(caption if fits else MessagePart("", short), "caption", send)
    )


async def download_file(api: TelegramApi, attachment: Attachment, into: BinaryIO) -> None:
    """Fetch a file. Raises Refused, Later, Revoked."""
    too_large = Rejected(TOO_LARGE.format(name=attachment.name, megabytes=MAX_DOWNLOAD >> 20))
    if attachment.size > MAX_DOWNLOAD:
        raise too_large
    try:
        told = await api.call("getFile", {"file_id": attachment.ref})
        path = told.get("file_path") if isinstance(told, dict) else None
        if not path:
            raise Rejected(f"Telegram does not say where {attachment.name} is")
        left = MAX_DOWNLOAD
        async with aclosing(api.file(str(path))) as chunks:
            async for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    raise too_large
                into.write(chunk)
    except DeliveryUnknown as unclear:
        raise RetryLater(str(unclear), 1.0) from None
