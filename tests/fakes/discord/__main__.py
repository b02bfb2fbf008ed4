"""A fake Discord to use by hand: `python -m tests.fakes.discord --port 8093`, then open its address in a browser."""

import argparse
import asyncio
import contextlib
import sys

from tests.fakes.discord import FakeDiscord
from tests.fakes.platform import OWNER


async def serve(port: int) -> None:
    discord = FakeDiscord(port=port)
    discord.private(OWNER)
    await discord.start()
    lines = [f"{key} = {value!r}".replace("'", '"') for key, value in discord.config().items()]
    sys.stdout.write("\n".join(["[discord]", *lines, f"# the page: {discord.url}", ""]))
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8093)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args().port))
