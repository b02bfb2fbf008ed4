"""The files of a message, fetched from its platform into the inbox, and what the model is told of
each.
"""

import asyncio
from collections.abc import Mapping

from channels.base import ChannelError, RetryLater
from channels.message import Attachment
from daemon.core import value
from daemon.core.rows import InboxRow
from daemon.outbox.channel_supervisor import ChannelState
from daemon.tools.workspace.inbox_folder import (
    FileTooBig,
    InboxFolder,
    attachments_from_json,
    describe_missing_file,
    describe_saved_file,
    describe_too_big,
    make_unique_names,
)

GONE = "its channel is not connected now"
PAUSES, LONGEST_PAUSE = (0.0, 1.0, 5.0), 30.0


@value
class AttachmentDownloader:
    """Fetches them one after the other; what cannot be had is said, and the message is worked on
    all the same.
    """

    channels: Mapping[str, ChannelState]
    inbox: InboxFolder

    async def __call__(self, row: InboxRow) -> str:
        """A line for each file."""
        files = attachments_from_json(row.attachments)
        names = make_unique_names(file.name for file in files)
        pairs = zip(files, names, strict=True)
        return "\n".join([await self._fetch(row, file, name) for file, name in pairs])

    async def _fetch(self, row: InboxRow, file: Attachment, name: str) -> str:
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
                return describe_saved_file(place.path, file.mime, place.size)
            except RetryLater as error:
                why, wanted = str(error), error.after_s
            except (ChannelError, FileTooBig) as error:
                return describe_missing_file(name, str(error))
            except OSError as error:
                return describe_missing_file(name, f"it cannot be kept: {error.strerror or error}")
        return describe_missing_file(name, why)
