"""How many of our functions one plain Telegram turn walks through, and what one write_file call adds to it.

Counted: distinct named functions of daemon, channels and memory in all threads of a running daemon, from the arrival of the
first message of a new chat until its reply is marked sent. `python -m tests.e2e.test_trace` prints them by file.
"""

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import tomli_w

from tests.fakes.command_line import KEPT, ROOT
from tests.fakes.daemon_process import scripted
from tests.fakes.openai import FakeOpenAI, Step, calls, says
from tests.fakes.platform import OWNER
from tests.fakes.platforms import comings, fake

# it was 581 in 141; then 304, the neutral form of a message, moved chats, the rules of all providers;
# then 344, what is kept of the owner's own with each text, and what waits
MOST_FUNCTIONS, MOST_FILES = 302, 65  # memory/facts.py left memory.py: one more file, no more functions
# it was 110 in 33; then 74 in 14: its answer tells the file as code, which is read as Markdown
MOST_FUNCTIONS_OF_A_WRITE, MOST_FILES_OF_A_WRITE = 104, 20
# what a command adds that the owner is asked about: the question, the press, the layer, the merge. The goal for all of
# its turn, 430 in 80, is not met.
MOST_FUNCTIONS_OF_A_COMMAND, MOST_FILES_OF_A_COMMAND = 396, 50
LONGEST_S = 60.0
RUNS = 3


# The channel's start may still be waiting for its answer from the platform, and what takes long beside
# other work is done in a thread. When it has ended it becomes memory, in the background. The alarm looks
# every ten seconds. A reply comes in one piece or in several. Whether a read runs here or in a thread
# depends on how busy the machine is, and so does whether a message that waits looks for news once more.
NOT_OF_THE_TURN = re.compile(
    r"channel\.py:\d+ _set_menu$|transport\.py:\d+ attempt$"
    r"|clock\.py:\d+ (run_to_completion|wait_to_end)$"
    r"|health_alarm\.py|channels\.py:\d+ find_outages$|servers\.py:\d+ (list_states|problems)$"
    r"|^memory/|^daemon/recall/(indexer|utterances)\.py|ids\.py:\d+ is_trial_session$"
    r"|turns\.py:\d+ (list_ended|list_said_events|read_events)$|owner_sessions\.py:\d+ find_own$"
    r"|sqlite\.py:\d+ (_commit_in_thread|_end_in_thread|_run_patiently|_is_too_long|_do_nothing|_read_here)$"
    r"|providers/http\.py:\d+ _read_on$|turn_setup\.py:\d+ load_news$|messages\.py:\d+ list_outcomes$"
)


@asynccontextmanager
async def traced(home: Path, config: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A daemon that can count its calls, ready."""
    home.mkdir()
    (home / "config.toml").write_text(config)
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env |= {"PYTHONPATH": str(ROOT), "TRACE_FILE": str(home / "trace.json")}
    command = (sys.executable, "-m", "tests.e2e.traced_daemon", "run", "--home", str(home))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, env=env, cwd=ROOT, stderr=pipe, start_new_session=True
    )
    log: list[bytes] = []
    try:
        assert process.stderr
        while not (line := await process.stderr.readline()).startswith(b"ready "):
            log.append(line)
            assert line, f"the daemon did not become ready: {log}"
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def until_sent(home: Path, count: int) -> None:
    """Wait until so many replies are marked sent in the journal."""
    with closing(sqlite3.connect(f"file:{home / 'journal.db'}?mode=ro", uri=True)) as db:
        async with asyncio.timeout(LONGEST_S):
            while (
                db.execute("SELECT count(*) FROM outbox WHERE state = 'sent'").fetchone()[0] < count
            ):
                await asyncio.sleep(0.02)


async def counted(home: Path, process: asyncio.subprocess.Process) -> list[str]:
    """What the daemon has counted."""
    file = home / "trace.json"
    process.send_signal(signal.SIGUSR2)
    async with asyncio.timeout(LONGEST_S):
        while not file.exists():
            await asyncio.sleep(0.02)
    names = json.loads(file.read_text())
    file.unlink()
    return names


async def trace(place: Path, *steps: Step, is_asked: bool = False) -> list[str]:
    """The functions of one turn of a new chat, in which the model does these steps, on a daemon that is ready."""
    platform, home = fake("telegram"), place / "home"
    await platform.start()
    try:
        async with FakeOpenAI() as model:
            config = scripted(model.base_url, tomli_w.dumps({"telegram": platform.config()}))
            async with traced(home, config) as process:
                model.script(*steps)
                await platform.until(  # its start is no part of the turn
                    lambda: min(comings(platform), len(platform.calls.of("setMyCommands"))) > 0
                )
                process.send_signal(signal.SIGUSR1)
                chat = platform.private(OWNER)
                platform.say(OWNER, chat, "hello, write a note for me, please")
                if is_asked:
                    await platform.until(lambda: any(one.buttons for one in platform.shown(chat)))
                    asked = next(one for one in platform.shown(chat) if one.buttons)
                    platform.press(OWNER, asked.id, asked.buttons[0].data)
                await until_sent(home, 1 + is_asked)
                names = await counted(home, process)
                return [one for one in names if not NOT_OF_THE_TURN.search(one)]
    finally:
        await platform.stop()


def files(names: list[str]) -> set[str]:
    return {name.partition(":")[0] for name in names}


async def in_each_run(run: Callable[[Path], Awaitable[list[str]]], place: Path, most: int) -> list[str]:
    """What each of up to three runs walks through. Where one run has more than `most`, it is tried again: what a
    busy machine adds, such as the upkeep of every few seconds, is in one run and not in the next.
    """
    names: set[str] = set()
    for attempt in range(RUNS):
        folder = place / str(attempt)
        folder.mkdir(parents=True)
        names = names & set(await run(folder)) if attempt else set(await run(folder))
        if len(names) <= most:
            break
    return sorted(names)


async def plain(place: Path) -> list[str]:
    """The functions of a plain turn."""
    return await trace(place, says("Here you are."))


async def writing(place: Path) -> list[str]:
    """The functions of a turn with one write_file call."""
    write = calls(("write_file", {"path": "note.txt", "text": "a note"}))
    return await trace(place, write, says("Here you are."))


async def asked_command(place: Path) -> list[str]:
    """The functions of a turn with a command that asks, and is allowed."""
    command = calls(("shell", {"command": "echo one > a.txt; cat a.txt"}))
    return await trace(place, command, says("It says one."), is_asked=True)


async def added(run: Callable[[Path], Awaitable[list[str]]], base: list[str], place: Path, most: int) -> list[str]:
    """What `run` walks through beside `base`."""

    async def more(folder: Path) -> list[str]:
        return [name for name in await run(folder) if name not in set(base)]

    return await in_each_run(more, place, most)


async def test_a_plain_telegram_turn_walks_through_few_functions(tmp_path: Path):
    walked = await in_each_run(plain, tmp_path, MOST_FUNCTIONS)
    assert len(walked) > 50, "the trace has seen next to nothing"
    assert len(walked) <= MOST_FUNCTIONS, Counter(name.partition(":")[0] for name in walked)
    assert len(files(walked)) <= MOST_FILES, sorted(files(walked))


@pytest.mark.parametrize(
    ("run", "most", "most_files", "place"),
    [
        (writing, MOST_FUNCTIONS_OF_A_WRITE, MOST_FILES_OF_A_WRITE, "daemon/tools/"),
        (asked_command, MOST_FUNCTIONS_OF_A_COMMAND, MOST_FILES_OF_A_COMMAND, "daemon/tools/layers/merge.py"),
    ],
)
async def test_a_write_and_a_command_that_asks_add_few_functions_to_a_turn(
    tmp_path: Path, run: Callable[[Path], Awaitable[list[str]]], most: int, most_files: int, place: str
):
    base = await in_each_run(plain, tmp_path / "plain", MOST_FUNCTIONS)
    more = await added(run, base, tmp_path, most)
    assert any(one.startswith(place) for one in more)
    assert len(more) <= most, more
    assert len(files(more) - files(base)) <= most_files, sorted(files(more) - files(base))


async def print_all(place: Path) -> None:
    """What each kind of turn walks through, by file."""
    base = await in_each_run(plain, place / "plain", MOST_FUNCTIONS)
    more = await added(writing, base, place / "writing", MOST_FUNCTIONS_OF_A_WRITE)
    asked = await added(asked_command, base, place / "asked", MOST_FUNCTIONS_OF_A_COMMAND)
    shown = ("a plain turn", base), ("a write_file call adds", more), ("an asked command adds", asked)
    for title, listed in shown:
        sys.stdout.write(f"{title}: {len(listed)} functions in {len(files(listed))} files\n")
        sys.stdout.write("".join(f"    {name}\n" for name in listed))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(print_all(Path(folder)))
