"""Files on their way to a platform."""

import asyncio
from pathlib import Path

from channels.base import Refused


async def weighed(file: Path, name: str, most: int, platform: str) -> int:
    """Its size in bytes; people call it `name`. Raises Refused where it cannot be read, or the platform does not take it."""
    try:
        size = (await asyncio.to_thread(file.stat)).st_size
    except OSError as gone:
        raise Refused(f"{name} cannot be read ({gone.strerror}); it was not sent") from gone
    if size > most:
        raise Refused(f"{name} has {size / (1 << 20):.1f} MB; {platform} takes {most >> 20} MB from a bot")
    return size
