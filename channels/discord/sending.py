"""What goes out, as Discord wants it. Pure. Nothing that a model writes can call anybody, and links unfold nothing (A13)."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from channels.message import Choice, Piece

Body = dict[str, Any]
SUPPRESS_EMBEDS = 1 << 2
EPHEMERAL = 1 << 6
STYLES = {"": 2, "good": 3, "bad": 4}
MOST_IN_ROW, MOST_ROWS, LONGEST_LABEL = 5, 5, 80
NOBODY: Body = {"parse": []}


def nonce(key: str) -> str:
    """Discord gives the first message back when the same nonce comes again within minutes; at most 25 characters."""
    return blake2b(key.encode(), digest_size=12).hexdigest()


def message(piece: Piece, key: str, choices: Sequence[Choice] = (), reply_to: str = "") -> Body:
    """A new message."""
    body = {**changed(piece, choices), "nonce": nonce(key), "enforce_nonce": True}
    if reply_to:
        body["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
    return body


def changed(piece: Piece, choices: Sequence[Choice] = ()) -> Body:
    """A message as it is to be."""
    return {
        "content": piece.text,
        "flags": SUPPRESS_EMBEDS,
        "allowed_mentions": NOBODY,
        "components": rows(choices),
    }


def rows(choices: Sequence[Choice]) -> list[Body]:
    """Buttons, five in a row."""
    buttons = [
        {"type": 2, "style": STYLES.get(choice.style, 2), "label": choice.label[:LONGEST_LABEL] or "?", "custom_id": choice.data}
        for choice in choices[: MOST_IN_ROW * MOST_ROWS]
    ]
    return [
        {"type": 1, "components": buttons[at : at + MOST_IN_ROW]} for at in range(0, len(buttons), MOST_IN_ROW)
    ]


def whisper(text: str) -> Body:
    """What only the person sees who pressed a button or used a command."""
    return {"content": text, "flags": EPHEMERAL | SUPPRESS_EMBEDS, "allowed_mentions": NOBODY}
