"""The fake by hand: `python -m tests.fakes.discord --port 9103`. Prints the section for config.toml, and where people type."""

import argparse
import asyncio
import sys

import tomli_w

from tests.fakes.discord import FakeDiscord
from tests.fakes.page import routes


async def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.discord")
    parser.add_argument("--port", type=int, default=9103)
    discord = FakeDiscord(port=parser.parse_args().port)
    discord.pages = routes(discord)
    await discord.start()
    sys.stdout.write(tomli_w.dumps({"discord": discord.config()}) + f"\n# {discord.url}/_page\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
