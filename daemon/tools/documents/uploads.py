"""Files that a person sends by HTTP or from a terminal: each waits in HOME/files/uploads until the
turn of the message that names it begins (G1).
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from mimetypes import guess_type
from pathlib import Path
from secrets import token_hex

from channels.message import MEDIA_KINDS, Attachment
from daemon.core import value
from daemon.core.errors import UsageError
from daemon.tools.workspace.fs import CREATE_FLAGS
from daemon.tools.workspace.inbox_folder import format_size, make_safe_name

MAX_UPLOAD, MAX_WAITING, KEPT = 20_000_000, 200_000_000, timedelta(days=2)
TOKEN = re.compile(r"[0-9a-f]{32}")
PREFIX = "upload:"
UNKNOWN = "files: no file {!r} waits here; it is kept for two days, send it once more"


def file_size(path: Path) -> int:
    """0 for one that is gone by now."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


@value
class Uploads:
    """The folder is the owner's alone. Whoever has a file's token, which cannot be guessed, may
    name it in a message. All methods block.
    """

    root: Path

    def add(self, name: str, data: bytes, by: str) -> str:
        """Keep it; its token. On disk when this returns. `by`: whose it is; each person may have so
        much waiting. Raises UsageError, OSError.
        """
        if len(data) > MAX_UPLOAD:
            raise UsageError(f"the file has {format_size(len(data))}; at most 20 MB are taken")
        self.remove_old(datetime.now(UTC))
        folder = self.root / make_safe_name(by)
        for place in (self.root.parent, self.root, folder):
            place.mkdir(mode=0o700, exist_ok=True)
        if sum(map(file_size, folder.iterdir())) + len(data) > MAX_WAITING:
            raise UsageError(
                "too many files wait for their message; send the messages, or wait two days"
            )
        token = token_hex(16)
        temp = folder / f".{token}"
        try:
            with os.fdopen(os.open(temp, CREATE_FLAGS, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temp.rename(folder / f"{token}-{make_safe_name(name)}")
        finally:
            temp.unlink(missing_ok=True)
        return token

    def find(self, tokens: Iterable[str], *, again: bool) -> list[Attachment]:
        """What a message brings. `again`: the message may have come before, and its files may have
        been taken. Raises UsageError for an unknown token.
        """
        return [self._find(one, again=again) for one in dict.fromkeys(tokens)]

    def _find(self, token: str, *, again: bool) -> Attachment:
        found = [*self.root.glob(f"*/{token}-*")] if TOKEN.fullmatch(token) else []
        if not found and not (again and TOKEN.fullmatch(token)):
            raise UsageError(UNKNOWN.format(token))
        if not found:
            return Attachment("document", token, "", 0, PREFIX + token)
        name = found[0].name.partition("-")[2]
        mime = guess_type(name)[0] or ""
        kind = MEDIA_KINDS.get(mime.partition("/")[0], "document")
        return Attachment(kind, name, mime, found[0].stat().st_size, PREFIX + token)

    def has(self, ref: str) -> bool:
        """It is the reference of one that `find` gave."""
        return ref.startswith(PREFIX)

    def read(self, ref: str) -> bytes:
        """Raises FileNotFoundError when it was taken."""
        return self._locate(ref).read_bytes()

    def remove(self, ref: str) -> None:
        """It is in the inbox now."""
        self._locate(ref).unlink(missing_ok=True)

    def remove_old(self, now: datetime) -> None:
        """What nobody sent a message for."""
        for one in self.root.glob("*/*"):
            with suppress(FileNotFoundError):
                if one.stat().st_mtime < (now - KEPT).timestamp():
                    one.unlink()

    def _locate(self, ref: str) -> Path:
        token = ref.removeprefix(PREFIX)
        found = [*self.root.glob(f"*/{token}-*")] if TOKEN.fullmatch(token) else []
        if not found:
            raise FileNotFoundError(token)
        return found[0]
