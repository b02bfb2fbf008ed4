"""What the benches run against: a place on a real disk, a scripted model in a process of its own, daemons."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.bench.machine import Yardstick
from tests.fakes.command_line import ROOT
from tests.fakes.daemon_process import Daemon, running_daemon, scripted

STEPS = 10
PIECES = 500
SLOW_S = 2.0
Json = dict[str, object]
MORE = "[agent]\nmax_iterations = 12\n"


@dataclass(frozen=True, slots=True)
class World:
    """A directory to work in and a model to ask. `code`: the checkout whose daemons run; "" for this one."""

    place: Path
    model_url: str
    model_pid: int
    numbers: "count[int]" = field(default_factory=count)
    yardstick: Yardstick = field(default_factory=Yardstick)
    code: str = ""

    def new_place(self) -> Path:
        """A directory, or a name for one, that nobody has used."""
        return self.place / f"{next(self.numbers)}"

    @asynccontextmanager
    async def daemon(
        self,
        home: Path | None = None,
        base_url: str = "",
        more: str = "",
        env: Mapping[str, str] | None = None,
        module: str = "daemon",
    ) -> AsyncGenerator[Daemon]:
        """A daemon that is ready, in a HOME of its own with files to read. `more`: further sections of its config.toml;
        `module`: what is run in its place.
        """
        home = home or self.new_place()
        notes = home / "workspace"
        notes.mkdir(parents=True, exist_ok=True)
        for number in range(STEPS):
            (notes / f"note{number}.txt").write_text(
                f"Note {number}: " + "a line that is read by a tool\n" * 10
            )
        alone = {"PYTHONNOUSERSITE": "1"}  # started from nothing, as its user starts it
        if self.code:  # and not that of the working directory, which Python looks into first
            alone |= {"PYTHONPATH": self.code, "PYTHONSAFEPATH": "1"}
        config = scripted(base_url or self.model_url, MORE + more)
        async with running_daemon(home, config, alone | dict(env or {}), module=module) as daemon:
            yield daemon


@asynccontextmanager
async def world(place: Path) -> AsyncGenerator[World]:
    """Everything a section needs."""
    script = place / "script.json"
    script.write_text(json.dumps(rules()))
    command = (sys.executable, "-m", "tests.fakes.openai", "--port", "0", "--script", str(script))
    model = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        assert model.stdout
        async with asyncio.timeout(30):
            url = (await model.stdout.readline()).decode().strip()
        yield World(place, url, model.pid)
    finally:
        model.kill()
        await model.wait()


def rules() -> list[Json]:
    """What the model does, by a word in what the user said: "files", "looks", "parallel", "command", "slow"; else it says ok."""
    reads = [["read_file", {"path": f"note{number}.txt"}] for number in range(STEPS)]
    looks = [["find_tools", {"query": f"nothing{number}"}] for number in range(STEPS)]
    steps = [*_one_by_one("files", reads), *_one_by_one("looks", looks)]
    return [
        *steps,
        {"user": "stream", "pieces": PIECES},
        {"user": "parallel", "round": 0, "calls": reads},
        {"user": "command", "round": 0, "calls": [["shell", {"argv": ["ls", "note0.txt"]}]]},
        {"user": "slow", "latency": SLOW_S},
    ]


def _one_by_one(word: str, calls: Sequence[object]) -> list[Json]:
    return [{"user": word, "round": number, "calls": [call]} for number, call in enumerate(calls)]
