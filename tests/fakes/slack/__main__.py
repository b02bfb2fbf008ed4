"""The fake by hand: `python -m tests.fakes.slack --port 9102`. Prints the section for config.toml; people type at /_page."""

import argparse
import asyncio
import sys

import tomli_w

from tests.fakes.page import routes
from tests.fakes.slack import FakeSlack


async def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.slack")
    parser.add_argument("--port", type=int, default=9102)
    slack = FakeSlack(port=parser.parse_args().port)
    slack.server.pages = list(routes(slack))
    await slack.start()
    sys.stdout.write(tomli_w.dumps({"slack": slack.config()}) + f"\n# {slack.server.url}/_page\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
