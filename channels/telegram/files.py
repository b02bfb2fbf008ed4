"""Files, both ways."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

from channels.base import Later, Refused, Unclear
from channels.files import weighed
from channels.message import Attachment, Piece
from channels.telegram.api import Api
from channels.telegram.lib import InputFile
from channels.telegram.sending import LONGEST_CAPTION, Arguments, formatted, sent_id, shortened
from channels.text.cutting import units

MOST_UPLOAD, MOST_FETCH = 50 << 20, 20 << 20
UPLOAD_S = 180.0
TOO_LARGE = "{name} is larger than the {megabytes} MB that Telegram gives to a bot"


async def upload(api: Api, where: Arguments, file: Path, name: str, caption: Piece) -> str:
    """Send a file; the message's id. A caption that is too long is shortened, without its markup. Raises as Channel.send."""
    await weighed(file, name, MOST_UPLOAD, "Telegram")
    short = shortened(caption.plain, LONGEST_CAPTION)

    async def send(words: Arguments) -> object:
        handle = await asyncio.to_thread(file.open, "rb")
        with handle:
            document = InputFile(handle, filename=name, read_file_handle=False)
            return await api.call("sendDocument", {"document": document} | where | words, timeout_s=UPLOAD_S)

    fits = short == caption.plain and units(caption.text) <= LONGEST_CAPTION
    return sent_id(await formatted(caption if fits else Piece("", short), "caption", send))


async def fetch(api: Api, attachment: Attachment, into: BinaryIO) -> None:
    """Fetch a file. Raises Refused, Later, Revoked."""
    too_large = Refused(TOO_LARGE.format(name=attachment.name, megabytes=MOST_FETCH >> 20))
    if attachment.size > MOST_FETCH:
        raise too_large
    try:
        told = await api.call("getFile", {"file_id": attachment.ref})
        path = told.get("file_path") if isinstance(told, dict) else None
        if not path:
            raise Refused(f"Telegram does not say where {attachment.name} is")
        left = MOST_FETCH
        async with aclosing(api.file(str(path))) as chunks:
            async for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    raise too_large
                into.write(chunk)
    except Unclear as unclear:
        raise Later(str(unclear), 1.0) from None
