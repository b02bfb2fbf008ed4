"""Processes that die by kill -9 before a chosen statement of SQL: `aidaemon`, told by $MEMORY_KILL, and work on one file of memory."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import ClientError

from daemon.recall.embedding import EmbeddingWorker, ThreadedEmbedder
from memory.conversations import Conversations
from memory.database import Database
from memory.embedder import WIDTH, TextVectors, pack
from tests.fakes.daemon_process import NotReady, running_daemon
from tests.fakes.memory import Home
from tests.fakes.openai import FakeOpenAI

if TYPE_CHECKING:
    from memory.embedder import Vectors

MODULE = "tests.fakes.dying"
STEP = 3


def die_at(wanted: Sequence[str], note: Path) -> None:
    """By SIGKILL, before the last of these statements, which come in this order: "FILE: WORDS"."""
    left = [*wanted]

    def watch(file: sqlite3.Connection) -> None:
        name = Path(file.execute("PRAGMA database_list").fetchone()[2]).name

        def count(statement: str) -> None:
            if left and left[0] in f"{name}: {statement.strip()}":
                del left[0]
                if not left:
                    note.write_text(statement)
                    os.kill(os.getpid(), signal.SIGKILL)

        file.set_trace_callback(count)

    def hear(event: str, arguments: tuple[sqlite3.Connection, ...]) -> None:
        if event == "sqlite3.connect/handle":  # it can be used at the next step of this thread

            def step(*_: object) -> None:
                with suppress(sqlite3.ProgrammingError):
                    sys.setprofile(None)
                    watch(arguments[0])
                    return
                sys.setprofile(step)

            sys.setprofile(step)

    sys.addaudithook(hear)


@dataclass(slots=True)
class MadeUpModel:
    """Its vectors are told by its name and the text alone."""

    name: str

    def embed_query(self, text: str) -> "Vectors":
        import numpy as np  # lazy: a daemon that dies does without

        seed = int.from_bytes(blake2b(f"{self.name} {text}".encode(), digest_size=4).digest())
        return np.random.default_rng(seed).normal(size=(4, WIDTH)).astype(np.float32)

    def embed_text(self, speaker: str, text: str) -> TextVectors:
        return pack([self.embed_query(text)])


async def embed(path: Path) -> None:
    """As a daemon with this model does."""
    database = await Database.open(path)
    conversations = await Conversations.open(database)
    load = partial(ThreadedEmbedder.load, lambda: MadeUpModel("new"))
    work = asyncio.create_task(EmbeddingWorker(conversations, load).run())
    while not conversations.embedder or await conversations.count_unembedded():
        await asyncio.sleep(0.005)  # the model's thread has a low priority
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await database.aclose()


async def upgrade(path: Path) -> None:
    await (await Database.open(path)).aclose()


async def renew(path: Path) -> None:
    """As a daemon does with a file of before words had forms."""
    database = await Database.open(path)
    conversations = await Conversations.open(database)
    while await conversations.renew_forms():
        pass
    await database.aclose()


def sweep(work: Callable[[Path], Coroutine[None, None, None]], begin: Path) -> None:
    """Do it with a copy of this file each, killed before its first statement, its fourth, and so on."""
    MadeUpModel("new").embed_query("")  # numpy is loaded once, not by each copy of this process
    for at in range(1, 1000, STEP):
        path = begin.with_name(f"killed{at}.db")
        shutil.copy(begin, path)
        if not (child := os.fork()):
            die_at([""] * at, begin.with_name("died"))
            asyncio.run(work(path))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            break
        assert code == -signal.SIGKILL


async def run_sweep(work: str, begin: Path) -> list[Path]:
    """The files that the kills left."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", MODULE, "sweep", work, str(begin)), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    return sorted(begin.parent.glob("killed*.db"))


@dataclass(frozen=True, slots=True)
class Mortal:
    """A home whose daemons die."""

    place: Path
    model: FakeOpenAI
    config: str

    async def die(
        self,
        wanted: Sequence[str],
        deed: Callable[[Home], Awaitable[object]] | None = None,
        **env: str,
    ) -> None:
        """While it starts, or by what is asked of it."""
        died = self.place.with_name("died")
        died.unlink(missing_ok=True)
        env |= {"MEMORY_KILL": json.dumps(wanted), "MEMORY_DIED": str(died)}
        with suppress(NotReady):
            async with running_daemon(self.place, self.config, env, module=MODULE) as daemon:
                with suppress(ClientError):
                    if deed:
                        await deed(Home(daemon, self.model))
                assert await asyncio.wait_for(daemon.process.wait(), 20) == -signal.SIGKILL
        assert died.exists()

    @asynccontextmanager
    async def living(self, **env: str) -> AsyncIterator[Home]:
        async with running_daemon(self.place, self.config, env) as daemon:
            yield Home(daemon, self.model)

    def read(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.place / "memory.db")) as file:
            return file.execute(query).fetchall()

    def count_holding(self, table: str, word: str) -> int:
        return sum(word in str(row) for row in self.read(f"SELECT * FROM {table}"))

    def check_words(self) -> None:
        """The indexes of words hold what the rows hold."""
        with closing(sqlite3.connect(self.place / "memory.db")) as file:
            own = file.execute("SELECT count(*) FROM said WHERE own = 1").fetchone()
            assert file.execute("SELECT count(*) FROM own_words_docsize").fetchone() == own
            for table in ("own_words", "other_words", "words", "sitting_words"):
                file.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")


if __name__ == "__main__":
    if sys.argv[1] == "sweep":
        sweep({"embed": embed, "upgrade": upgrade, "renew": renew}[sys.argv[2]], Path(sys.argv[3]))
    else:
        from daemon.__main__ import main

        die_at(json.loads(os.environ["MEMORY_KILL"]), Path(os.environ["MEMORY_DIED"]))
        sys.exit(main())
