"""The files of a message, fetched from its platform into the inbox, and what the model is told of each."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from channels.base import ChannelError, Later
from channels.message import Attachment
from daemon.core.files import apart, arrived, from_json, missed, too_big
from daemon.core.rows import InboxRow
from daemon.delivery.outlet import Outlet
from daemon.tools.inbox import FilesInbox, TooBig

GONE = "its channel is not connected now"
PAUSES, LONGEST_PAUSE = (0.0, 1.0, 5.0), 30.0


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetches them one after the other; what cannot be had is said, and the message is worked on all the same."""

    outlets: Mapping[str, Outlet]
    inbox: FilesInbox

    async def __call__(self, row: InboxRow) -> str:
        """A line for each file."""
        files, outlet = from_json(row.attachments), self.outlets.get(row.channel)
        names = apart(file.name for file in files)
        if outlet is None:
            return "\n".join(missed(name, GONE) for name in names)
        return "\n".join([await self._one(outlet, row, file, name) for file, name in zip(files, names, strict=True)])

    async def _one(self, outlet: Outlet, row: InboxRow, file: Attachment, name: str) -> str:
        most = outlet.channel.can.most_fetch
        if file.size > most:
            return missed(name, too_big(file.size, most))
        why, wanted = GONE, 0.0
        for pause in PAUSES:
            await asyncio.sleep(max(pause, min(wanted, LONGEST_PAUSE)))
            try:
                return await self._fetched(outlet, row, file, name)
            except Later as error:
                why, wanted = str(error), error.after_s
            except (ChannelError, TooBig) as error:
                return missed(name, str(error))
            except OSError as error:
                return missed(name, f"it cannot be kept: {error.strerror or error}")
        return missed(name, why)

    async def _fetched(self, outlet: Outlet, row: InboxRow, file: Attachment, name: str) -> str:
        day = row.received_at.date()
        async with self.inbox.place(name, day, row.turn, outlet.channel.can.most_fetch) as place:
            await outlet.channel.fetch(file, place)
        return arrived(place.path, file.mime, place.size)
