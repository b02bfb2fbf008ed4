"""What Discord sends, as it came: an object of JSON, whose parts are known only when they have been read.

Discord's ids hold the time at which they were made, so they are ordered over all channels.

What goes out, as Discord wants it. Pure. Nothing that a model writes can call anybody, and links unfold nothing (A13).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from channels.message import Choice, MessagePart

Payload = Mapping[str, Any]


EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
BITS = 22


def snowflake_at(moment: datetime) -> int:
    """The least id of that moment; 0 before there was Discord."""
    return max(0, (moment - EPOCH) // timedelta(milliseconds=1)) << BITS


def snowflake_before(snowflake: int, seconds: float) -> int:
    """So many seconds before."""
    return max(0, snowflake - (int(seconds * 1000) << BITS))


def parse_snowflake(text: object) -> int:
    """An id as Discord writes it; 0 for none, or what is no id."""
    digits = str(text)
    return int(digits) if digits.isdecimal() and len(digits) <= 20 else 0


Body = dict[str, Any]
SUPPRESS_EMBEDS = 1 << 2
EPHEMERAL = 1 << 6
STYLES = {"": 2, "good": 3, "bad": 4}
BUTTONS_PER_ROW, MAX_ROWS, MAX_LABEL = 5, 5, 80
NO_MENTIONS: Body = {"parse": []}


def nonce(key: str) -> str:
    """Discord gives the first message back when the same nonce comes again within minutes; at most 25 characters."""
    return blake2b(key.encode(), digest_size=12).hexdigest()


def new_message(
    piece: MessagePart, key: str, choices: Sequence[Choice] = (), reply_to: str = ""
) -> Body:
    """A new message."""
    body = {**message_body(piece, choices), "nonce": nonce(key), "enforce_nonce": True}
    if reply_to:
        body["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
    return body


def message_body(piece: MessagePart, choices: Sequence[Choice] = ()) -> Body:
    """A message as it is to be."""
    return {
        "content": piece.text,
        "flags": SUPPRESS_EMBEDS,
        "allowed_mentions": NO_MENTIONS,
        "components": button_rows(choices),
    }


def button_rows(choices: Sequence[Choice]) -> list[Body]:
    """Buttons, five in a row."""
    buttons = [
        {
            "type": 2,
            "style": STYLES.get(choice.style, 2),
            "label": choice.label[:MAX_LABEL] or "?",
            "custom_id": choice.data,
        }
        for choice in choices[: BUTTONS_PER_ROW * MAX_ROWS]
    ]
    return [
        {"type": 1, "components": buttons[at : at + BUTTONS_PER_ROW]}
        for at in range(0, len(buttons), BUTTONS_PER_ROW)
    ]


def ephemeral_message(text: str) -> Body:
    """What only the person sees who pressed a button or used a command."""
    return {"content": text, "flags": EPHEMERAL | SUPPRESS_EMBEDS, "allowed_mentions": NO_MENTIONS}
