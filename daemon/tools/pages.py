"""HTML made into text and links, by a child process that may do nothing else."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from daemon.tools.base import ToolError

CHILD = Path(__file__).with_name("extract.py")
EXTRACT_S = 10.0


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says. `chars`: how long its text was before it was cut; `links`: (address as it stands there, name)."""

    title: str
    base: str
    text: str
    chars: int
    links: tuple[tuple[str, str], ...]


async def read_page(html: bytes, charset: str, max_chars: int, *, timeout_s: float = EXTRACT_S) -> Page:
    """The page's text, at most `max_chars` of it. Raises ToolError for a page that takes too much time or memory to read."""
    told = await ask_child([sys.executable, "-I", str(CHILD), str(max_chars), charset], html, timeout_s)
    if told is None:
        raise ToolError("the page came, but it is too large or too tangled to be read")
    read = json.loads(told)
    links = tuple((place, name) for place, name in read["links"])
    return Page(read["title"], read["base"], read["text"], read["chars"], links)


async def ask_child(argv: Sequence[str], asked: bytes, timeout_s: float) -> bytes | None:
    """What a child of ours prints when it is told this; None if it failed or took longer. It is dead when this returns."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": "/nonexistent"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout_s):
            printed, _ = await process.communicate(asked)
    except TimeoutError:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return printed if process.returncode == 0 else None
