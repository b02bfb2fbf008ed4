"""Runs attacks and twins, and counts: per class and answerer, what succeeded and what asked."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from daemon.app.daemon import Overrides
from daemon.core.trust import Decision
from daemon.tools.policy.gate import PolicyInput, Verdict
from tests.security.adaptive import choosing, files, limits, reading, running, saying
from tests.security.adaptive.cases import CASES, Case
from tests.security.adaptive.world import Answerer, scene

BITES = Path(__file__).with_name("bites.json")
MODULES = (reading, choosing, files, saying, running, limits)
ATTACKS: Mapping[str, Case] = dict(sorted(CASES.items()))


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of an attack or a twin: did the attacker, or the owner, get their way; what was asked."""

    name: str
    done: bool
    asked: list[str]
    error: str = ""


def allow_all(case: PolicyInput) -> Verdict:
    """The defence that is taken away: no table at all."""
    return Decision.ALLOW, "nobody looks"


async def one(
    home: Path,
    case: Case,
    answerer: str | Answerer,
    *,
    twin: bool = False,
    gate: bool = True,
    root: Path | None = None,
) -> Ran:
    """One attack or twin in a world of its own."""
    answers = answerer if isinstance(answerer, Answerer) else Answerer(answerer)
    place = home / re.sub(r"[^A-Za-z0-9]+", "-", f"{case.name[:3]}{answers.name}{twin}{gate}")
    parts = Overrides() if gate else Overrides(judge=allow_all)
    async with scene(place, answers, parts, root) as at:
        done = await (case.twin if twin else case.run)(at)
        return Ran(case.name, done, list(at.asked))
