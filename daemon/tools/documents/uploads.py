"""Files that a person sends by HTTP or from a terminal: each waits in HOME/files/uploads until the
turn of the message that names it begins (G1).
"""

import os
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
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


@value
class Uploads:
    """The folder is the owner's alone. Whoever has a file's token, which cannot be guessed, may
    name it in a message. All methods block.
    """

    root: Path

    def add(self, name: str, data: bytes) -> str:
        """Keep it; its token. On disk when this returns. Raises UsageError, OSError."""
        if len(data) > MAX_UPLOAD:
            raise UsageError(f"the file has {format_size(len(data))}; at most 20 MB are taken")
        self.root.parent.mkdir(mode=0o700, exist_ok=True)
        self.root.mkdir(mode=0o700, exist_ok=True)
        if sum(one.stat().st_size for one in self.root.iterdir()) + len(data) > MAX_WAITING:
            raise UsageError("too many files wait for their message; send the messages first")
        token = token_hex(16)
        temp = self.root / f".{token}"
        try:
            with os.fdopen(os.open(temp, CREATE_FLAGS, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temp.rename(self.root / f"{token}-{make_safe_name(name)}")
        finally:
            temp.unlink(missing_ok=True)
        return token

    def find(self, tokens: Iterable[str], *, again: bool) -> list[Attachment]:
        """What a message brings. `again`: the message may have come before, and its files may have
        been taken. Raises UsageError for an unknown token.
        """
        return [self._find(one, again=again) for one in tokens]

    def _find(self, token: str, *, again: bool) -> Attachment:
        found = [*self.root.glob(f"{token}-*")] if TOKEN.fullmatch(token) else []
        if not found and not (again and TOKEN.fullmatch(token)):
            raise UsageError(UNKNOWN.format(token))
        if not found:
            return Attachment("document", token, "", 0, PREFIX + token)
        name = found[0].name.partition("-")[2]
        mime = guess_type(name)[0] or ""
        kind = MEDIA_KINDS.get(mime.partition("/")[0], "document")
        return Attachment(kind, name, mime, found[0].stat().st_size, PREFIX + token)

    def read(self, ref: str) -> bytes:
        """Raises FileNotFoundError when it was taken."""
        return self._locate(ref).read_bytes()

    def remove(self, ref: str) -> None:
        """It is in the inbox now."""
        self._locate(ref).unlink(missing_ok=True)

    def remove_old(self, now: datetime) -> None:
        """What nobody sent a message for."""
        if self.root.is_dir():
            for one in self.root.iterdir():
                if one.stat().st_mtime < (now - KEPT).timestamp():
                    one.unlink(missing_ok=True)

    def _locate(self, ref: str) -> Path:
        token = ref.removeprefix(PREFIX)
        found = [*self.root.glob(f"{token}-*")] if TOKEN.fullmatch(token) else []
        if not found:
            raise FileNotFoundError(token)
        return found[0]
