"""The fake by hand: `python -m tests.fakes.telegram --port 9101`. Prints the section for config.toml, and where people type."""

import argparse
import asyncio
import sys

import tomli_w

from tests.fakes.page import routes
from tests.fakes.telegram import FakeTelegram


async def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.telegram")
    parser.add_argument("--port", type=int, default=9101)
    telegram = FakeTelegram(port=parser.parse_args().port)
    telegram.pages = routes(telegram)
    await telegram.start()
    sys.stdout.write(tomli_w.dumps({"telegram": telegram.config()}) + f"\n# {telegram.url}/_page\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
