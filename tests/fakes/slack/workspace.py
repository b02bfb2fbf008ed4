"""What stands in a fake Slack workspace: people, channels, messages, files; and the rules for what may stand there."""

import hashlib
import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

BOT, BOT_ID, TEAM = "U0BOT", "B0BOT", "T0TEAM"
Json = dict[str, Any]
MOST_TEXT, MOST_UPDATE, MOST_SECTION, MOST_VALUE, MOST_LABEL, MOST_STREAM = (
    40_000,
    4000,
    3000,
    2000,
    75,
    12_000,
)


class ApiError(Exception):
    """What Slack answers with `"ok": false`."""

    def __init__(self, error: str, **more: object) -> None:
        super().__init__(error)
        self.answer: Json = {"ok": False, "error": error, **more}


@dataclass(slots=True)
class Channel:
    """A chat: "im", "mpim" or "channel", and who is in it."""

    id: str
    kind: str
    members: set[str]
    messages: dict[str, Json] = field(default_factory=dict)
    archived: bool = False


def id_of(prefix: str, *names: str) -> str:
    """Always the same id for the same names."""
    return prefix + hashlib.sha1(" ".join(names).encode()).hexdigest()[:8].upper()


@dataclass(slots=True)
class Workspace:
    """`now`: seconds since 1970. `stream_s`: after so long without an append a stream is over, as at Slack."""

    now: Callable[[], float] = time.time
    names: dict[str, str] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    files: dict[str, tuple[Json, bytes]] = field(default_factory=dict)
    statuses: dict[tuple[str, str], str] = field(default_factory=dict)
    _last: int = 0
    _count: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def ts(self) -> str:
        """The next timestamp: later than all others, and unique."""
        self._last = max(self._last + 1, int(self.now() * 1e6))
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    def person(self, name: str) -> str:
        """The id of a person."""
        user = id_of("U", name)
        self.names[user] = name
        return user

    def open(self, kind: str, *names: str) -> Channel:
        """The chat of the bot with these people."""
        prefix = {"im": "D", "mpim": "G"}.get(kind, "C")
        members = {BOT, *(self.person(name) for name in names)}
        return self.channels.setdefault(chat := id_of(prefix, *names), Channel(chat, kind, members))

    def channel(self, chat: object, *, member: bool = True) -> Channel:
        """The chat, where the bot is. Raises ApiError."""
        found = self.channels.get(str(chat))
        if found is None:
            raise ApiError("channel_not_found")
        if member and BOT not in found.members:
            raise ApiError("not_in_channel")
        return found

    def message(self, chat: object, ts: object) -> Json:
        """A message. Raises ApiError."""
        found = self.channel(chat).messages.get(str(ts))
        if found is None:
            raise ApiError("message_not_found")
        return found

    def own(self, chat: object, ts: object) -> Json:
        """A message of the bot's. Raises ApiError."""
        found = self.message(chat, ts)
        if found.get("user") != BOT:
            raise ApiError("cant_update_message")
        return found

    def where(self, ts: str) -> Channel:
        """The chat in which this message stands."""
        return next(channel for channel in self.channels.values() if ts in channel.messages)

    def post(self, channel: Channel, user: str, **more: object) -> Json:
        """A new message."""
        ts = self.ts()
        message: Json = {"type": "message", "user": user, "ts": ts, "team": TEAM}
        message |= {"bot_id": BOT_ID, "app_id": "A0APP"} if user == BOT else {}
        message |= {
            key: value
            for key, value in more.items()
            if value not in (None, "", []) or key == "text"
        }
        channel.messages[ts] = message
        return message

    def keep_file(self, url: str, name: str, data: bytes, user: str) -> Json:
        """A file that somebody shares; reached at `url` + its path."""
        file_id = f"F{next(self._count):08d}"
        kind = {
            "png": "image/png",
            "jpg": "image/jpeg",
            "pdf": "application/pdf",
            "mp3": "audio/mpeg",
            "txt": "text/plain",
        }
        suffix = name.rpartition(".")[2].lower()
        address = f"{url}/files-pri/{TEAM}-{file_id}/{name}"
        described: Json = {
            "id": file_id,
            "name": name,
            "title": name,
            "mimetype": kind.get(suffix, "application/octet-stream"),
        }
        described |= {
            "filetype": suffix,
            "size": len(data),
            "user": user,
            "mode": "hosted",
            "file_access": "visible",
        }
        described |= {"url_private": address, "url_private_download": address}
        self.files[file_id] = (described, data)
        return described


def checked(arguments: Json, most: int = MOST_TEXT) -> Json:
    """The text, blocks and metadata of a message, if Slack would take them. Raises ApiError."""
    text, blocks, metadata = (
        str(arguments.get("text") or ""),
        arguments.get("blocks") or [],
        arguments.get("metadata"),
    )
    if len(text) > most:
        raise ApiError("msg_too_long")
    if not text.strip() and not blocks:
        raise ApiError("no_text")
    _check_blocks(blocks)
    if metadata and not (
        isinstance(metadata, dict) and {"event_type", "event_payload"} <= set(metadata)
    ):
        raise ApiError("invalid_metadata_format")
    thread = arguments.get("thread_ts")
    if thread and not re.fullmatch(r"\d+\.\d{6}", str(thread)):
        raise ApiError("invalid_thread_ts")
    return {"text": text, "blocks": blocks, "metadata": metadata, "thread_ts": thread}


def _check_blocks(blocks: list[Json]) -> None:
    wrong = (
        not isinstance(blocks, list)
        or len(blocks) > 50
        or not all(_well_formed(block) for block in blocks)
    )
    if wrong:
        raise ApiError("invalid_blocks", errors=["see the limits of Block Kit"])


def _well_formed(block: Json) -> bool:
    match block:
        case {"type": "section", "text": {"type": "mrkdwn" | "plain_text", "text": str(text)}}:
            return 0 < len(text) <= MOST_SECTION
        case {"type": "actions", "elements": list(elements)}:
            unique = len({element.get("action_id") for element in elements}) == len(elements)
            return (
                unique
                and 0 < len(elements) <= 25
                and all(_is_button(element) for element in elements)
            )
        case _:
            return False


def _is_button(element: Json) -> bool:
    known = {"type", "text", "value", "action_id", "style"}
    label = element.get("text", {})
    fits = (
        element.get("type") == "button"
        and set(element) <= known
        and label.get("type") == "plain_text"
    )
    fits = (
        fits
        and 0 < len(label.get("text", "")) <= MOST_LABEL
        and len(element.get("value", "")) <= MOST_VALUE
    )
    return fits and element.get("style", "primary") in ("primary", "danger")
