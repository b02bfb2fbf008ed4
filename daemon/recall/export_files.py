"""Files that chat programs export, read as lines to import: Telegram's and Discord's JSON, Slack's
archive or folder, and our own lines of JSON (CONTRACT, `aidaemon memory import`).
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import BadZipFile, is_zipfile
from zipfile import Path as ZipFolder

from pydantic import ValidationError

from daemon.core.errors import AidaemonError
from daemon.recall.imports import ImportedLine
from memory.rows import MAX_TEXT

Json = Mapping[str, Any]
Reader = Callable[[Json], Iterator[ImportedLine]]
USERS = "users.json"
MAX_MEMBER = 100_000_000  # bytes of one file of an archive
# Of a file that is damaged, encrypted or packed in a way that is not known, too.
ZIP_ERRORS = (
    OSError,
    BadZipFile,
    UnicodeDecodeError,
    RuntimeError,
    zlib.error,
)


class ExportError(AidaemonError):
    """A file that is not as it should be; the message names the place."""


def read_export(path: Path) -> Iterator[ImportedLine]:
    """Its messages with text, in order. Raises ExportError: what came before it is right; and
    AidaemonError where it cannot be read.
    """
    try:
        if path.is_dir():
            yield from _read_slack(path, path)
        elif is_zipfile(path):
            yield from _read_slack(ZipFolder(path), path)
        else:
            yield from _read_file(path)
    except ZIP_ERRORS as error:
        raise AidaemonError(f"{path} cannot be read: {error}") from error


def _read_file(path: Path) -> Iterator[ImportedLine]:
    """One JSON document is a program's; else each line is a message."""
    with path.open(encoding="utf-8-sig") as file:
        first = next(filter(str.strip, file), "{}")
    try:
        whole = json.loads(first)
    except (json.JSONDecodeError, RecursionError):
        whole = _load(path.read_text(encoding="utf-8-sig"), path)
    if isinstance(whole, dict) and (reader := _find_reader(whole)):
        with _naming(path):
            yield from reader(whole)
        return
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                with _naming(path, number):
                    yield ImportedLine.model_validate(_clean(json.loads(line)))


def _find_reader(whole: Json) -> Reader | None:
    """By what stands at the top of the document."""
    if isinstance(whole.get("chats"), dict):
        return _read_telegram_chats
    if isinstance(whole.get("messages"), list):
        return _read_discord if "channel" in whole else _read_telegram
    return None


def _read_telegram_chats(whole: Json) -> Iterator[ImportedLine]:
    for chat in whole["chats"].get("list", ()):
        yield from _read_telegram(chat)


def _read_telegram(chat: Json) -> Iterator[ImportedLine]:
    """`text` is a string, or a list of strings and of marked parts. Times without a zone are those
    of the machine that exported; seconds since 1970 stand beside them.
    """
    session, place = f"telegram {chat.get('name') or chat.get('id') or 'chat'}", chat.get("id")
    for one in chat["messages"]:
        parts = one.get("text", "")
        parts = parts if isinstance(parts, list) else [parts]
        text = "".join(part if isinstance(part, str) else part.get("text", "") for part in parts)
        stamp = one.get("date_unixtime")
        at = datetime.fromtimestamp(int(stamp), UTC) if stamp else one.get("date")
        if one.get("type") == "message" and text.strip():
            number = f"{place}/{one['id']}" if place else str(one["id"])
            yield _make_line(number, session, one.get("from") or "", at, text)


def _read_discord(whole: Json) -> Iterator[ImportedLine]:
    guild, channel = whole.get("guild") or {}, whole["channel"]
    names = [one for one in (guild.get("name"), channel.get("name")) if one]
    session = f"discord {' '.join(names) or 'chat'}"
    for one in whole["messages"]:
        author = one.get("author") or {}
        name = author.get("nickname") or author.get("name") or ""
        if text := one.get("content", ""):
            yield _make_line(str(one["id"]), session, name, one["timestamp"], text)


def _read_slack(folder: Path | ZipFolder, path: Path) -> Iterator[ImportedLine]:
    """One folder a conversation, one file a day; `users.json` has the names."""
    users = folder / USERS
    if not users.is_file():
        raise ExportError(f"{path} holds no {USERS}: it is no export of Slack")
    with _naming(path / USERS):
        names = {
            one["id"]: one.get("real_name") or one.get("name") or one["id"]
            for one in _load(_read(users), path)
        }
    for conversation in sorted(folder.iterdir(), key=lambda one: one.name):
        if not conversation.is_dir():
            continue
        for day in sorted(conversation.iterdir(), key=lambda one: one.name):
            if PurePosixPath(day.name).suffix != ".json":
                continue
            with _naming(path / conversation.name / day.name):
                messages = _load(_read(day), path / conversation.name)
                yield from _read_slack_day(messages, f"slack {conversation.name}", names)


def _read(file: Path | ZipFolder) -> str:
    """Not what would fill the memory."""
    with file.open("rb") as stream:
        data = stream.read(MAX_MEMBER + 1)
    if len(data) > MAX_MEMBER:
        raise ExportError(f"{file.name} has more than {MAX_MEMBER // 1_000_000} MB")
    return data.decode("utf-8-sig")


def _read_slack_day(
    messages: Any, session: str, names: Mapping[str, str]
) -> Iterator[ImportedLine]:
    for one in messages:
        text = one.get("text", "")
        if one.get("type") == "message" and "subtype" not in one and text.strip():
            at = datetime.fromtimestamp(float(one["ts"]), UTC)
            name = names.get(one.get("user", ""), one.get("user", ""))
            yield _make_line(one["ts"], session, name, at, text)


def _make_line(id: str, session: str, sender: str, at: Any, text: str) -> ImportedLine:
    return ImportedLine.model_validate(
        _clean({"id": id, "session": session[:200], "sender": sender[:200], "at": at, "text": text})
    )


def _clean(line: Json) -> dict[str, object]:
    """Half of a pair of signs, such as programs leave that cut texts, is no text; and of a text
    that is longer than what is kept the beginning.
    """
    cut = {"text": line["text"][:MAX_TEXT]} if isinstance(line.get("text"), str) else {}
    return {
        name: given.encode(errors="replace").decode() if isinstance(given, str) else given
        for name, given in {**line, **cut}.items()
    }


def _load(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ExportError(f"{path}, line {error.lineno}: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise ExportError(f"{path}: not a file of messages ({error})") from error


@contextmanager
def _naming(path: Path, line: int = 0) -> Iterator[None]:
    """What is wrong in it is said with its place."""
    where = f"{path}, line {line}" if line else str(path)
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the line"
        raise ExportError(f"{where}: {place}: {first['msg']}") from error
    except json.JSONDecodeError as error:
        raise ExportError(f"{where}: {error.msg}") from error
    except UnicodeDecodeError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise ExportError(f"{where}: not as it is exported: {error!r}") from error
