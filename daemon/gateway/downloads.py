"""The files of a message, fetched from its platform into the inbox, and what the model is told of
each.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol

from channels.base import ChannelError, RetryLater
from channels.message import Attachment
from daemon.core import value
from daemon.core.messages import FetchedFiles, ToldFile
from daemon.core.rows import InboxRow
from daemon.outbox.channel_supervisor import ChannelState
from daemon.tools.workspace.inbox_folder import (
    FileTooBig,
    InboxFolder,
    SavedFile,
    attachments_from_json,
    describe_missing_file,
    describe_too_big,
    make_unique_names,
)

NOT_UPLOADED = "it waited for more than two days, or never came"
NOT_READ = "it was not read in time; read_file does it"
BROKEN = "reading it failed (the log has more)"
READ_S = 90.0
GONE = "its channel is not connected now"
log = logging.getLogger(__name__)
PAUSES, LONGEST_PAUSE = (0.0, 1.0, 5.0), 30.0


class WaitingFiles(Protocol):
    """Files that wait for the message that names them."""

    def has(self, ref: str) -> bool:
        """It is the reference of one."""
        ...

    def read(self, ref: str) -> bytes:
        """Raises FileNotFoundError when it was taken."""
        ...

    def remove(self, ref: str) -> None:
        """It is in the inbox now."""
        ...


@value
class AttachmentDownloader:
    """Fetches them one after the other; what cannot be had is said, and the message is worked on
    all the same. `describe` reads one, up to so many characters.
    """

    channels: Mapping[str, ChannelState]
    inbox: InboxFolder
    uploads: WaitingFiles
    describe: Callable[[SavedFile, int], Awaitable[ToldFile]]
    max_chars: int

    async def __call__(self, row: InboxRow) -> FetchedFiles:
        """A line for each file, and what it says, up to `max_chars` of all. What cannot be read in
        time is said.
        """
        files = attachments_from_json(row.attachments)
        names = make_unique_names(file.name for file in files)
        found, deadline = list[ToldFile](), asyncio.get_running_loop().time() + READ_S
        for file, name in zip(files, names, strict=True):
            space = max(self.max_chars - sum(one.chars for one in found), 0)
            found.append(await self._tell(row, replace(file, name=name), space, deadline))
        return FetchedFiles(
            "\n".join(one.line for one in found),
            any(one.chars or one.pictures for one in found),
            tuple(picture for one in found for picture in one.pictures),
            "\n".join(one.heard for one in found if one.heard),
        )

    async def _tell(self, row: InboxRow, file: Attachment, space: int, deadline: float) -> ToldFile:
        try:
            saved = await self._fetch(row, file)
            if isinstance(saved, str):
                return ToldFile(saved)
            try:
                async with asyncio.timeout_at(deadline):
                    return await self.describe(saved, space)
            except TimeoutError:
                return ToldFile(saved.describe(NOT_READ))
            except OSError:
                raise
            except Exception:
                log.exception("a file cannot be read: %s", saved.path)
                return ToldFile(saved.describe(BROKEN))
        except OSError as error:
            why = f"it cannot be kept: {error.strerror or error}"
            return ToldFile(describe_missing_file(file.name, why))

    async def _take(self, row: InboxRow, file: Attachment) -> str | SavedFile:
        """From the uploads into the inbox; a former daemon may have done that already."""
        day = row.received_at.date()
        try:
            data = await asyncio.to_thread(self.uploads.read, file.ref)
        except FileNotFoundError:
            found = await asyncio.to_thread(self.inbox.find, file.name, day, row.turn)
            missing = describe_missing_file(file.name, NOT_UPLOADED)
            return _note(row, file, *found) if found else missing
        async with self.inbox.create(file.name, day, row.turn, len(data)) as place:
            await asyncio.to_thread(place.write, data)
        await asyncio.to_thread(self.uploads.remove, file.ref)
        return _note(row, file, place.path, place.size)

    async def _fetch(self, row: InboxRow, file: Attachment) -> str | SavedFile:
        """The file that was saved; else why not. Raises OSError."""
        name = file.name
        if row.channel not in self.channels and self.uploads.has(file.ref):
            return await self._take(row, file)
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
                return _note(row, file, place.path, place.size)
            except RetryLater as error:
                why, wanted = str(error), error.after_s
            except (ChannelError, FileTooBig) as error:
                return describe_missing_file(name, str(error))
        return describe_missing_file(name, why)


def _note(row: InboxRow, file: Attachment, path: str, size: int) -> SavedFile:
    day = row.received_at.date()
    about = file.name, file.mime, file.kind
    return SavedFile(path, size, *about, day, row.turn, row.session)
