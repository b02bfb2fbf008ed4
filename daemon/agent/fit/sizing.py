"""How much room messages take, and short names for exactly these bytes."""

from collections.abc import Sequence
from hashlib import blake2b

from daemon.core.messages import Message

CHARS_PER_TOKEN = 4
AROUND_A_CALL = 32
ENVELOPE = 16
DUE_PERCENT = 80


def tokens_of(messages: Sequence[Message]) -> int:
    """A start estimate: four bytes a token, and a few for the envelope."""
    return sum(map(_bytes, messages)) // CHARS_PER_TOKEN


def worst_tokens(tokens: int, messages: Sequence[Message]) -> int:
    """The most that these messages, and what comes with them, can come to: three bytes a token, fewer in other scripts, and what
    a provider's form puts around each call and its result.
    """
    wide = sum(len(m.text.encode("utf-8", "replace")) - len(m.text) for m in messages if not m.text.isascii())
    around = AROUND_A_CALL * sum(len(m.calls) for m in messages)
    return tokens * 4 // 3 + wide // 3 + around


def due(tokens: int, window: int) -> bool:
    """What would be sent has come to 80 % of the window (B4)."""
    return tokens * 100 >= window * DUE_PERCENT


def digest_of(messages: Sequence[Message], before: bytes = b"") -> bytes:
    """A short name for exactly these messages, after those of which `before` is the name."""
    digest = blake2b(before, digest_size=12)
    for message in messages:
        digest.update(f"{message.role}\0{message.text}\0{message.provider_id}\0".encode("utf-8", "surrogatepass"))
        for call in message.calls:
            digest.update(f"{call.provider_id}\0{call.name}\0{call.arguments}\0".encode("utf-8", "surrogatepass"))
    return digest.digest()


def _bytes(message: Message) -> int:
    size = ENVELOPE + _length(message.text)
    for call in message.calls:
        size += ENVELOPE + len(call.name) + _length(call.arguments)
    return max(size, len(message.native.blocks)) if message.native else size


def _length(text: str) -> int:
    """In bytes: a character of most other scripts weighs two or three times as much as a Latin letter."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
