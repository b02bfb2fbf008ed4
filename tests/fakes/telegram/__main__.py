"""The fake as its own process: `python -m tests.fakes.telegram --port 8081`. Prints the part of config.toml that reaches it."""

import argparse
import asyncio
import sys

import tomli_w

from tests.fakes.telegram import FakeTelegram


async def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.telegram")
    parser.add_argument("--port", type=int, default=8081)
    async with FakeTelegram(port=parser.parse_args().port) as telegram:
        sys.stdout.write(tomli_w.dumps({"telegram": telegram.config()}))
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
