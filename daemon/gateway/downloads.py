"""The files of a message, fetched from its platform into the inbox, and what the model is told of
each.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from channels.base import ChannelError, RetryLater
from channels.message import Attachment
from daemon.core import value
from daemon.core.messages import FetchedFiles, Picture
from daemon.core.rows import InboxRow
from daemon.gateway.voice import Transcribe
from daemon.outbox.channel_supervisor import ChannelState
from daemon.tools.documents.pictures import PICTURE_MIME, PictureReducer, is_picture
from daemon.tools.documents.reader import DocumentReader, UnreadableDocument
from daemon.tools.documents.speech import is_recording
from daemon.tools.documents.uploads import PREFIX, Uploads
from daemon.tools.workspace.inbox_folder import (
    FileTooBig,
    InboxFolder,
    SavedFile,
    attachments_from_json,
    describe_missing_file,
    describe_saved_file,
    describe_too_big,
    make_unique_names,
)

CUT = "[{name} goes on: {shown:,} of {chars:,} characters; read_file shows all]"
END = "[end of {name}]"
NOT_UPLOADED = "it waited for more than two days, or never came"
LEAST_CHARS = 200
SHOWN_ENDING = ".shown.jpg"
GONE = "its channel is not connected now"
PAUSES, LONGEST_PAUSE = (0.0, 1.0, 5.0), 30.0


@value
class AttachmentDownloader:
    """Fetches them one after the other; what cannot be had is said, and the message is worked on
    all the same.
    """

    channels: Mapping[str, ChannelState]
    inbox: InboxFolder
    uploads: Uploads
    documents: DocumentReader
    reducer: PictureReducer
    transcribe: Transcribe
    redact: Callable[[str], str]
    max_chars: int

    async def __call__(self, row: InboxRow) -> FetchedFiles:
        """A line for each file, and what it says, up to `max_chars` of all."""
        files = attachments_from_json(row.attachments)
        names = make_unique_names(file.name for file in files)
        lines, pictures, heard = list[str](), list[Picture](), list[str]()
        space = self.max_chars
        for file, name in zip(files, names, strict=True):
            try:
                found = await self._fetch(row, file, name)
                if isinstance(found, str):
                    lines.append(found)
                    continue
                data = await asyncio.to_thread(self.inbox.read, found.path)
                if is_picture(data):
                    line, *made = await self._keep_picture(row, name, found, file.mime, data)
                    pictures += made
                elif is_recording(data, file.kind):
                    line, *words = await self._hear(name, found, file.mime, data)
                    heard += words
                else:
                    line, used = await self._show(found, file.mime, data, space)
                    space -= used
            except OSError as error:
                line = describe_missing_file(name, f"it cannot be kept: {error.strerror or error}")
            lines.append(line)
        says = space < self.max_chars or bool(pictures or heard)
        return FetchedFiles("\n".join(lines), says, tuple(pictures), "\n".join(heard))

    async def _hear(
        self, name: str, file: SavedFile, mime: str, data: bytes
    ) -> tuple[str, *tuple[str, ...]]:
        """How the model hears of it; and the words."""
        told = partial(describe_saved_file, file.path, mime, file.size)
        try:
            words = self.redact(await self.transcribe(data, name))[: self.max_chars]
        except UnreadableDocument as error:
            return (told(f"what is said in it is not here: {error}"),)
        return f"{told('what is said in it:')}\n{words}\n{END.format(name=name)}", words

    async def _keep_picture(
        self, row: InboxRow, name: str, file: SavedFile, mime: str, data: bytes
    ) -> tuple[str, *tuple[Picture, ...]]:
        """How the model hears of it; and the picture as it is shown, where it can be."""
        told = partial(describe_saved_file, file.path, mime, file.size)
        try:
            made = await self.reducer.reduce(data)
        except UnreadableDocument as error:
            return (told(f"it is not shown: {error}"),)
        day, shown = row.received_at.date(), f"{name}{SHOWN_ENDING}"
        async with self.inbox.create(shown, day, row.turn, len(made)) as place:
            place.write(made)
        return told("shown beside this"), Picture(place.path, PICTURE_MIME)

    async def _show(self, file: SavedFile, mime: str, data: bytes, space: int) -> tuple[str, int]:
        """How the model hears of it, with its text, and how much that is."""
        told, name = partial(describe_saved_file, file.path, mime, file.size), Path(file.path).name
        try:
            document = await self.documents.read(data, max(space, 1))
        except UnreadableDocument as error:
            return told(f"its text is not here: {error}"), 0
        if document is None or not document.chars:
            return told("" if document is None else "it is empty"), 0
        pages = f"{document.pages} pages; " if document.pages > 1 else ""
        if space < LEAST_CHARS:
            return told(f"{pages}read_file shows its text"), 0
        is_cut = document.chars > len(document.text)
        end = CUT.format(name=name, shown=len(document.text), chars=document.chars)
        end = end if is_cut else END.format(name=name)
        text = self.redact(document.text)
        return f"{told(f'{pages}its text:')}\n{text}\n{end}", len(document.text)

    async def _take(self, row: InboxRow, file: Attachment, name: str) -> str | SavedFile:
        """From the uploads into the inbox; a former daemon may have done that already."""
        try:
            data = await asyncio.to_thread(self.uploads.read, file.ref)
        except FileNotFoundError:
            found = await asyncio.to_thread(self.inbox.find, name, row.received_at.date(), row.turn)
            return found or describe_missing_file(name, NOT_UPLOADED)
        async with self.inbox.create(name, row.received_at.date(), row.turn, len(data)) as place:
            place.write(data)
        await asyncio.to_thread(self.uploads.remove, file.ref)
        return SavedFile(place.path, place.size)

    async def _fetch(self, row: InboxRow, file: Attachment, name: str) -> str | SavedFile:
        """The file that was saved; else why not."""
        if file.ref.startswith(PREFIX) and row.channel not in self.channels:
            return await self._take(row, file, name)
        if (state := self.channels.get(row.channel)) is None:
            return describe_missing_file(name, GONE)
        channel, why, wanted = state.channel, GONE, 0.0
        limit, day = channel.capabilities.max_download, row.received_at.date()
        if file.size > limit:
            return describe_missing_file(name, describe_too_big(file.size, limit))
        for pause in PAUSES:
            await asyncio.sleep(max(pause, min(wanted, LONGEST_PAUSE)))
            try:
                async with self.inbox.create(name, day, row.turn, limit) as place:
                    await channel.download(file, place)
                return SavedFile(place.path, place.size)
            except RetryLater as error:
                why, wanted = str(error), error.after_s
            except (ChannelError, FileTooBig) as error:
                return describe_missing_file(name, str(error))
            except OSError as error:
                return describe_missing_file(name, f"it cannot be kept: {error.strerror or error}")
        return describe_missing_file(name, why)
