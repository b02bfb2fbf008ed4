"""Two versions in one run, by turns, so that a noisy moment is both's: `python -m tests.bench --beside DIR turn tools fifty`."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.bench.figures import Figure, columns, digits
from tests.bench.world import World

Section = Callable[[World], Awaitable[list[Figure]]]
ROUNDS = 3


async def compare(
    at: World, other: Path, sections: Mapping[str, Section], rounds: int = ROUNDS
) -> str:
    """A table of the CPU that a daemon spends: of the checkout `other`, of this one, and this to that."""
    check_code(other)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(rounds):
        codes = [str(other), ""]
        for section in sections.values():
            for code in codes if number % 2 else codes[::-1]:
                for one in await section(replace(at, code=code)):
                    if "CPU" in one.name and not ("caller" in one.name or "client" in one.name):
                        found[one.name][code].append(one.value)
    head = ("figure, medians", other.name, "this", "ratio")
    return columns([head, *(_row(name, of[str(other)], of[""]) for name, of in found.items())])


def _row(name: str, theirs: Sequence[float], ours: Sequence[float]) -> tuple[str, ...]:
    before, now = median(theirs), median(ours)
    return name, f"{digits(before)} ms", f"{digits(now)} ms", f"{now / before:.3f}"


def check_code(code: Path) -> None:
    """Raises SystemExit where another daemon would run."""
    env = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", "import daemon; print(daemon.__path__[0])"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    if Path(ran.stdout.strip()) != (code / "daemon").resolve():
        raise SystemExit(f"{code} is no checkout: {ran.stdout.strip()} would run")
