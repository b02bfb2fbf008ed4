"""What the model is told of a file that came: its text, the picture, what is said in it (G1)."""

import asyncio
from collections.abc import Awaitable, Callable

from daemon.core import value
from daemon.core.errors import UnreadableDocument
from daemon.core.messages import ToldFile
from daemon.tools.documents.pictures import PictureKeeper, is_picture
from daemon.tools.documents.reader import DocumentReader, DocumentText
from daemon.tools.documents.speech import is_recording
from daemon.tools.workspace.inbox_folder import InboxFolder, SavedFile

CUT = "[{name} goes on: {shown:,} of {chars:,} characters; read_file shows all]"
END = "[end of {name}]"
LEAST_CHARS, LONGEST_SECRET = 200, 4_000


@value
class FileDescriber:
    """Reads it; what cannot be read is said in a word. `transcribe` takes a recording, its name and
    the session that it came to.
    """

    inbox: InboxFolder
    documents: DocumentReader
    pictures: PictureKeeper
    transcribe: Callable[[bytes, str, str], Awaitable[str]]
    redact: Callable[[str], str]

    async def __call__(self, file: SavedFile, space: int) -> ToldFile:
        """Up to so many characters of what it says. Raises OSError."""
        data = await asyncio.to_thread(self.inbox.read, file.path)
        if is_picture(data):
            missing, work = "it is not shown", self._keep_picture(file, data)
        elif is_recording(data, file.kind):
            missing, work = "what is said in it is not here", self._hear(file, data, space)
        else:
            missing, work = "its text is not here", self._show(file, data, space)
        try:
            return await work
        except UnreadableDocument as error:
            return ToldFile(file.describe(f"{missing}: {error}"))

    async def _keep_picture(self, file: SavedFile, data: bytes) -> ToldFile:
        pictures = await self.pictures.keep(data, file.name, file.day, file.turn)
        return ToldFile(file.describe("shown beside this"), pictures=pictures)

    async def _show_pages(self, file: SavedFile, document: DocumentText, data: bytes) -> ToldFile:
        shown = await self.pictures.keep(data, file.name, file.day, file.turn)
        count, first = document.pages, len(shown)
        pages = (
            "a page without text: it is" if count == 1 else f"{count} pages without text: they are"
        )
        pages = pages if first == count else f"{count} pages without text: the first {first} are"
        told = f"{pages} shown beside this as pictures"
        return ToldFile(file.describe(told), pictures=shown)

    async def _hear(self, file: SavedFile, data: bytes, space: int) -> ToldFile:
        heard = await self.transcribe(data, file.name, file.session)
        words = self.redact(heard)[: max(space, LEAST_CHARS)]
        line = f"{file.describe('what is said in it:')}\n{words}\n{END.format(name=file.name)}"
        return ToldFile(line, len(words), heard=words)

    async def _show(self, file: SavedFile, data: bytes, space: int) -> ToldFile:
        document = await self.documents.read(data, space + LONGEST_SECRET)
        if document is None:
            return ToldFile(file.describe())
        if document.is_scan:
            return await self._show_pages(file, document, data)
        if not document.chars:
            return ToldFile(file.describe("it is empty"))
        pages = f"{document.pages} pages; " if document.pages > 1 else ""
        if space < LEAST_CHARS:
            return ToldFile(file.describe(f"{pages}read_file shows its text"))
        text = self.redact(document.text)[:space]  # no part of a secret is left
        end = END if document.chars <= space else CUT
        end = end.format(name=file.name, shown=len(text), chars=document.chars)
        return ToldFile(f"{file.describe(f'{pages}its text:')}\n{text}\n{end}", len(text))
