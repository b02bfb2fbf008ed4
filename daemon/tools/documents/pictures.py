"""Pictures that people send, for models that see (G1): made small in the sandbox once, kept in the
inbox, read again for each call. A picture is text from outside: there may be words in it.
"""

import asyncio
import json
import sys
from base64 import b64encode
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import accumulate, pairwise
from pathlib import Path

from daemon.core import value
from daemon.core.errors import UnreadableDocument
from daemon.core.messages import Message, ModelRequest, Picture
from daemon.tools.base import ToolOutput
from daemon.tools.documents.reader import TOO_MUCH, find_obstacle
from daemon.tools.shell.process import exchange
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.workspace.inbox_folder import InboxFolder

REDUCE_SCRIPT = Path(__file__).with_name("picture_reduce.py")
REDUCE_S = 20.0
SIDE = 1568  # pixels; the large models make a larger one smaller themselves
MAX_SHOWN, MAX_KEPT = 8, 16
BEGINS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"II*\0", b"MM\0*")
BRANDS = (b"heic", b"heix", b"heim", b"heis", b"mif1", b"avif")  # of a phone's photos
PICTURE_MIME, SHOWN = "image/jpeg", "~"


def is_picture(data: bytes) -> bool:
    """By how it begins."""
    is_bitmap = data[:2] == b"BM" and data[6:10] == bytes(4)
    is_webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    is_photo = data[4:8] == b"ftyp" and data[8:12] in BRANDS
    return data.startswith(BEGINS) or is_bitmap or is_webp or is_photo


@value
class PictureKeeper:
    """Makes them small, and keeps them in the inbox."""

    sandbox: Sandbox
    inbox: InboxFolder

    async def keep(self, data: bytes, name: str, day: date, turn: str) -> tuple[Picture, ...]:
        """Beside the file of that name, under one that no file of a person has; of a PDF its first
        pages. Raises UnreadableDocument, OSError.
        """
        kept = list[Picture]()
        for number, made in enumerate(await self._reduce(data), 1):
            async with self.inbox.create(name, day, turn, len(made), SHOWN * number) as place:
                place.write(made)
            kept.append(Picture(place.path, PICTURE_MIME))
        return (*kept,)

    async def keep_images(
        self, output: ToolOutput, call: str, day: date, turn: str
    ) -> tuple[ToolOutput, tuple[Picture, ...]]:
        """What a tool shows; the output says why some are not shown."""
        kept, notes = list[Picture](), list[str]()
        for number, data in enumerate(output.images[:MAX_SHOWN], 1):
            try:
                kept += await self.keep(data, f"{call}-{number}", day, turn)
            except UnreadableDocument as error:
                notes.append(f"[picture {number} is not shown: {error}]")
            except OSError as error:
                notes.append(f"[picture {number} is not shown: {error.strerror or error}]")
        if kept:
            notes.insert(0, f"[{len(kept)} shown below]")
        return replace(output, text="\n".join((output.text, *notes)), images=()), tuple(kept)

    async def _reduce(self, data: bytes) -> list[bytes]:
        """A JPEG each."""
        if obstacle := find_obstacle("PIL", self.sandbox):
            raise UnreadableDocument(obstacle)
        command = [sys.executable, "-I", str(REDUCE_SCRIPT), str(SIDE)]
        output = await exchange(self.sandbox.wrap_own(command, REDUCE_SCRIPT), data, REDUCE_S)
        said, _, made = (output or b"").partition(b"\n")
        found = json.loads(said) if said else {"why": TOO_MUCH}
        if why := found.get("why"):
            raise UnreadableDocument(why)
        places = [*accumulate(found["sizes"], initial=0)]
        return [made[begin:end] for begin, end in pairwise(places)]


@dataclass(slots=True)
class PictureLoader:
    """Puts the newest pictures of a conversation into a request, as base64; the same messages are
    the same objects at the next call.
    """

    inbox: InboxFolder
    _filled: dict[int, tuple[Message, Message]] = field(default_factory=dict)

    async def fill(self, request: ModelRequest) -> ModelRequest:
        """The request as a model gets it."""
        left, messages = MAX_SHOWN, list[Message]()
        for message in reversed(request.messages):
            if message.pictures:
                pictures = message.pictures[-left:] if left else ()
                left -= len(pictures)
                message = await self._fill(replace(message, pictures=pictures), message)
            messages.append(message)
        return replace(request, messages=tuple(reversed(messages)))

    async def _fill(self, message: Message, origin: Message) -> Message:
        known = self._filled.get(id(origin))
        if known and len(known[1].pictures) == len(message.pictures):
            return known[1]
        pictures = [await asyncio.to_thread(self._load, one) for one in message.pictures]
        filled = replace(message, pictures=tuple(one for one in pictures if one.data))
        self._filled[id(origin)] = origin, filled
        while sum(len(one.pictures) for _, one in self._filled.values()) > MAX_KEPT:
            del self._filled[next(iter(self._filled))]
        return filled

    def _load(self, picture: Picture) -> Picture:
        """Without its data where it was forgotten."""
        try:
            return replace(picture, data=b64encode(self.inbox.read(picture.path)).decode())
        except OSError:
            return picture
