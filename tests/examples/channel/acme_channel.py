"""A channel as an add-on: a person writes files into `inbox`, answers appear in `outbox`."""

import asyncio
from pathlib import Path

from pydantic import BaseModel

from channels.base import Host
from channels.message import Address, InboundMessage, OutboundMessage, Sender
from daemon.testing import MemoryChannel


class FolderChannel(MemoryChannel):
    """One chat; each file of `inbox` is a message, by the owner."""

    class Config(BaseModel):
        """Keys of [channels.folder]."""

        place: str
        allowed_user_ids: tuple[str, ...] = ()
        owner_ids: tuple[str, ...] = ()

    def __init__(self, config: Config, *, name: str) -> None:
        super().__init__(name)
        self.place, self.owner = Path(config.place), config.owner_ids[0]

    async def run(self, host: Host) -> None:
        while True:
            host.report_alive()
            for file in sorted((self.place / "inbox").glob("*.txt")):
                address = Address(self.name, self.owner)
                sender = Sender(self.owner)
                said = InboundMessage(
                    address, sender, file.name, file.read_text(), file.name, private=True
                )
                await host.accept([said])
                file.unlink()
            await asyncio.sleep(0.05)

    async def send(self, message: OutboundMessage) -> str:
        number = await super().send(message)
        (self.place / "outbox" / f"{number}.txt").write_text(message.part.text)
        return number
