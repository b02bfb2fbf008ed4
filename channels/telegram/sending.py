"""What is sent, as Telegram wants it told."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from channels.base import Refused
from channels.message import Address, Choice, Piece
from channels.text.cutting import units

IN_A_ROW = 2
LONGEST_CAPTION, LONGEST_TOAST = 1024, 200
COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
MOST_COMMANDS = 100
NO_PREVIEW = {"is_disabled": True}
Arguments = dict[str, Any]


def place(address: Address) -> Arguments:
    """Where to."""
    return {"chat_id": _number(address.chat)} | ({"message_thread_id": _number(address.thread)} if address.thread else {})


def one(address: Address, message_id: str) -> Arguments:
    """Which message."""
    return {"chat_id": _number(address.chat), "message_id": _number(message_id)}


def buttons(choices: Sequence[Choice]) -> Arguments:
    """The choices, two in a row."""
    if not choices:
        return {}
    told = [{"text": choice.label, "callback_data": choice.data} for choice in choices]
    return {"reply_markup": {"inline_keyboard": [told[at : at + IN_A_ROW] for at in range(0, len(told), IN_A_ROW)]}}


def answer_to(message_id: str) -> Arguments:
    """What it replies to, if that is still there."""
    if not message_id.isdigit():
        return {}
    return {"reply_parameters": {"message_id": int(message_id), "allow_sending_without_reply": True}}


def menu(commands: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """The commands that Telegram's menu can show."""
    fit = [(name.removeprefix("/"), help_text) for name, help_text in commands]
    told = [{"command": name, "description": words[:256] or name} for name, words in fit if COMMAND_NAME.fullmatch(name)]
    return told[:MOST_COMMANDS]


def shortened(text: str, limit: int) -> str:
    """Its beginning, where it is too long."""
    if units(text) <= limit:
        return text
    return text.encode("utf-16-le")[: 2 * (limit - 1)].decode("utf-16-le", "ignore") + "…"


async def formatted(piece: Piece, field: str, send: Callable[[Arguments], Awaitable[object]]) -> object:
    """Send it with its markup, and without where Telegram cannot parse that."""
    if not piece.text:
        return await send({field: piece.plain} if piece.plain else {})
    try:
        return await send({field: piece.text, "parse_mode": "HTML"})
    except Refused as refused:
        if "parse entities" not in str(refused):
            raise
        return await send({field: piece.plain})


def sent_id(message: object) -> str:
    """The id of what was sent; "" where the server does not say."""
    number = message.get("message_id") if isinstance(message, dict) else None
    return "" if number is None else str(number)


def _number(told: str) -> int | str:
    return int(told) if told.removeprefix("-").isdecimal() else told
