"""Two versions in one run: `python -m tests.bench --beside DIR turn looks files parallel fifty`.

Both daemons are up, and one works while the other waits, block by block, so that a noisy moment is both's. A daemon's CPU
counts from its first block to its last, with what it does after its turns (such as the index of what was said).
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import quantiles

from tests.bench.crowds import open_lines, talk_on
from tests.bench.figures import columns, digits
from tests.bench.line import Line
from tests.bench.machine import cpu_seconds
from tests.bench.world import World
from tests.fakes.daemon_process import Daemon

ROUNDS = 20
TALK = 10  # turns of a conversation
SETTLE_S = 1.5  # after its turns, work that waits for a quiet moment begins


@dataclass(slots=True)
class Side:
    """One version's daemon; its CPU, in seconds, at the end of each round."""

    daemon: Daemon
    talks: Sequence[Line]
    numbers: "count[int]" = field(default_factory=count)
    spent: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Note the CPU so far."""
        self.spent.append(cpu_seconds(self.daemon.process.pid))

    @property
    def rounds(self) -> list[float]:
        """The CPU of each round."""
        return [after - before for before, after in zip(self.spent, self.spent[1:], strict=False)]


Block = Callable[[Side], Awaitable[None]]


async def _converse(side: Side) -> None:
    for _ in range(5):
        await talk_on(side.talks[0], "hello", f"talk-{next(side.numbers)}", TALK)


def _alone(word: str, turns: int) -> Block:
    """Each in a session of its own: what tools say stays in a conversation and would weigh on the next turn."""

    async def act(side: Side) -> None:
        for _ in range(turns):
            await side.talks[0].ask(word, f"{word}-{next(side.numbers)}")

    return act


async def _crowd(side: Side) -> None:
    number, talks = next(side.numbers) // 3, enumerate(side.talks)  # 12 turns of each session
    await asyncio.gather(*(talk_on(talk, "hello", f"crowd-{number}-{one}", 4) for one, talk in talks))


@dataclass(frozen=True, slots=True)
class Kind:
    """A block of work: so many turns, over so many connections."""

    name: str
    turns: int
    act: Block
    lines: int = 1


KINDS: Mapping[str, Kind] = {
    "turn": Kind("trivial turn", 50, _converse),
    "looks": Kind("ten tools, find_tools", 10, _alone("looks", 10)),
    "files": Kind("ten tools, read_file", 10, _alone("files", 10)),
    "parallel": Kind("ten parallel read_file", 10, _alone("parallel", 10)),
    "fifty": Kind("50 sessions at once", 200, _crowd, lines=50),
}


async def compare(at: World, other: Path, names: Sequence[str], rounds: int = ROUNDS) -> str:
    """A table of the CPU that a daemon spends: of the checkout `other`, of this one, this to that, and the ratios
    between which the middle half of the rounds lies.
    """
    check_code(other)
    rows: list[tuple[str, ...]] = [("CPU per turn", "turns", other.name, "this", "ratio", "middle half")]
    for kind in (KINDS[name] for name in names):
        theirs, ours = await _measure(at, [str(other), ""], kind, rounds)
        rows.append(_row(kind, theirs.rounds, ours.rounds))
    return columns(rows)


async def _measure(at: World, codes: Sequence[str], kind: Kind, rounds: int) -> list[Side]:
    async with AsyncExitStack() as stack:
        sides = []
        for code in codes:
            daemon = await stack.enter_async_context(replace(at, code=code).daemon())
            sides.append(Side(daemon, await open_lines(stack, daemon, kind.lines)))
        for number in range(-1, rounds):  # the first warms up
            for side in sides if number % 2 else sides[::-1]:
                await kind.act(side)
            await asyncio.sleep(SETTLE_S)
            for side in sides:
                side.look()
    return sides


def _row(kind: Kind, theirs: Sequence[float], ours: Sequence[float]) -> tuple[str, ...]:
    turns = kind.turns * len(ours)
    before, now = (1e3 * sum(spent) / turns for spent in (theirs, ours))
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    cells = (f"{turns}", f"{digits(before)} ms", f"{digits(now)} ms", f"{now / before:.3f}")
    return kind.name, *cells, f"{low:.2f} to {high:.2f}"


def check_code(code: Path) -> None:
    """Raises SystemExit where another daemon would run."""
    env = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", "import daemon; print(daemon.__path__[0])"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    if Path(ran.stdout.strip()) != (code / "daemon").resolve():
        raise SystemExit(f"{code} is no checkout: {ran.stdout.strip()} would run")
