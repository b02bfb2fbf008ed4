"""The files of a message, fetched from its platform into the inbox, and what the model is told of
each.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from channels.base import Channel, ChannelError, RetryLater
from channels.message import Address, Attachment
from daemon.core import value
from daemon.core.rows import InboxRow
from daemon.tools.workspace.attachment_names import (
    attachments_from_json,
    describe_missing_file,
    describe_saved_file,
    describe_too_big,
    make_unique_names,
)
from daemon.tools.workspace.inbox_folder import FileTooBig, InboxFolder

GONE = "its channel is not connected now"
PAUSES, LONGEST_PAUSE = (0.0, 1.0, 5.0), 30.0


class ExtraCalls(Protocol):
    """Bounds calls that a platform need not serve."""

    def try_acquire(self, address: Address) -> bool:
        """Whether one is free now."""
        ...


class ChannelLink(Protocol):
    """One connected channel, as its inbound side needs it; `ChannelState` is one."""

    channel: Channel

    @property
    def name(self) -> str:
        """Of the channel."""
        ...

    @property
    def rate_limit(self) -> ExtraCalls:
        """For calls beside the messages."""
        ...

    def mark_alive(self) -> None:
        """The platform has answered."""
        ...

    def mark_failing(self, why: str) -> None:
        """It does not answer as it should."""
        ...


@value
class AttachmentDownloader:
    """Fetches them one after the other; what cannot be had is said, and the message is worked on
    all the same.
    """

    links: Mapping[str, ChannelLink]
    inbox: InboxFolder

    async def __call__(self, row: InboxRow) -> str:
        """A line for each file."""
        files, link = attachments_from_json(row.attachments), self.links.get(row.channel)
        names = make_unique_names(file.name for file in files)
        if link is None:
            return "\n".join(describe_missing_file(name, GONE) for name in names)
        return "\n".join(
            [
                await self._one(link, row, file, name)
                for file, name in zip(files, names, strict=True)
            ]
        )

    async def _one(self, link: ChannelLink, row: InboxRow, file: Attachment, name: str) -> str:
        most = link.channel.capabilities.max_download
        if file.size > most:
            return describe_missing_file(name, describe_too_big(file.size, most))
        why, wanted = GONE, 0.0
        for pause in PAUSES:
            await asyncio.sleep(max(pause, min(wanted, LONGEST_PAUSE)))
            try:
                return await self._download(link, row, file, name)
            except RetryLater as error:
                why, wanted = str(error), error.after_s
            except (ChannelError, FileTooBig) as error:
                return describe_missing_file(name, str(error))
            except OSError as error:
                return describe_missing_file(name, f"it cannot be kept: {error.strerror or error}")
        return describe_missing_file(name, why)

    async def _download(self, link: ChannelLink, row: InboxRow, file: Attachment, name: str) -> str:
        day = row.received_at.date()
        async with self.inbox.create(
            name, day, row.turn, link.channel.capabilities.max_download
        ) as place:
            await link.channel.download(file, place)
        return describe_saved_file(place.path, file.mime, place.size)
