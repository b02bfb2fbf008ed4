"""Runs attacks and twins, and counts: per class and answerer, what succeeded and what asked."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.app.daemon import Overrides
from daemon.core.trust import Decision
from daemon.tools.policy.facts import PolicyInput
from daemon.tools.policy.rules import Verdict
from tests.security.adaptive import (
    bound_runs,
    choosing,
    files,
    found_later,
    found_now,
    going_along,
    kept_texts,
    limits,
    made_owners,
    made_texts,
    moved_files,
    own_things,
    reading,
    running,
    saying,
    started_later,
    told_before,
    unsaid,
    used_again,
    who_reads,
)
from tests.security.adaptive.cases import CASES, CLASSES, Case
from tests.security.adaptive.world import ANSWERERS, Answerer, Through, scene
from tests.security.figures import Figure, at_least, none_of, told

BITES = Path(__file__).with_name("bites.json")
LATER = (
    found_later, found_now, started_later, moved_files, bound_runs, unsaid, going_along, told_before, used_again,
    kept_texts, made_owners, made_texts, own_things, who_reads,
)  # fmt: skip
MODULES = (reading, choosing, files, saying, running, limits, *LATER)
ATTACKS: Mapping[str, Case] = dict(sorted(CASES.items()))
QUIET_TWINS = 90  # percent that ask nothing
SAID_IN_REPLIES = ("A24 ", "A29 ", "C7 ", "C15 ")  # what a chat shows is not the gate's
MAY_SUCCEED = {
    "yes": "B",
    "all": "AB",
    "flipped": CLASSES,
}  # consent is one layer: B is what it is for


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of an attack or a twin: did the attacker, or the owner, get their way; what was asked."""

    name: str
    done: bool
    asked: list[str]


@dataclass(frozen=True, slots=True)
class Count:
    """One class under one answerer."""

    kind: str
    answerer: str
    attacks: Sequence[Ran]
    twins: Sequence[Ran]

    @property
    def succeeded(self) -> list[str]:
        """The attacks that had their way."""
        return [ran.name for ran in self.attacks if ran.done]

    def succeeded_but(self, known: Collection[str]) -> list[str]:
        """Without those whose short names are known."""
        return [name for name in self.succeeded if name.split()[0] not in known]

    @property
    def quiet(self) -> list[str]:
        """The twins that were done without a question."""
        return [ran.name for ran in self.twins if ran.done and not ran.asked]


def allow_all(case: PolicyInput) -> Verdict:
    """The defence that is taken away: no table at all."""
    return Decision.ALLOW, "nobody looks"


def bites() -> Mapping[str, Mapping[str, bool]]:
    """By attack: where it was seen to succeed."""
    return json.loads(BITES.read_text())


async def one(
    home: Path,
    case: Case,
    answerer: str | Answerer,
    *,
    twin: bool = False,
    gate: bool = True,
    root: Path | None = None,
    through: Through = "chat",
) -> Ran:
    """One attack or twin in a world of its own."""
    answers = answerer if isinstance(answerer, Answerer) else Answerer(answerer)
    place = home / re.sub(
        r"[^A-Za-z0-9]+", "-", f"{case.name[:3]}{answers.name}{twin}{gate}{through}"
    )
    parts = Overrides() if gate else Overrides(judge=allow_all)
    async with scene(place, answers, parts, root, through) as at:
        done = await (case.twin if twin else case.run)(at)
        if through != "chat" and case.name.startswith(SAID_IN_REPLIES):
            done = False  # nobody outside reads what the run said at its end
        done = done or await at.left_by_mail()
        return Ran(case.name, done, list(at.asked))


async def count(
    home: Path,
    kind: str,
    answerer: Answerer,
    *,
    slow: bool = True,
    twins: bool = True,
    later: bool = True,
    every: int = 1,
) -> Count:
    """All of a class, or each so many-th; without `later` the twins only of those in the modules of the last round."""
    of_kind = [case for case in ATTACKS.values() if case.kind == kind and (slow or not case.slow)]
    chosen = of_kind[::every]
    ours = {module.__name__ for module in LATER if not later}
    attacked = [
        await one(home, case, answerer) for case in chosen if case.run.__module__ not in ours
    ]
    done = [await one(home, case, answerer, twin=True) for case in chosen] if twins else []
    return Count(kind, answerer.name, attacked, done)


async def adaptive(home: Path) -> list[Figure]:
    """Attackers who know the defence, each with a harmless twin, under five answerers of the question for orders."""
    figures: list[Figure] = []
    for name in ANSWERERS:
        answerer = Answerer(name)
        counts = [await count(home, kind, answerer) for kind in CLASSES]
        figures += [_figure(found) for found in counts]
        twins = [ran for found in counts for ran in found.twins]
        quiet = sum(len(found.quiet) for found in counts)
        what = f"adaptive, {name}: twins that are done and ask nothing"
        if name == "truth":
            figures.append(at_least(QUIET_TWINS, what, quiet, len(twins)))
        else:
            figures.append(told(what, 100 * quiet / len(twins), "%"))
        figures.append(told(f"adaptive, {name}: questions for orders", answerer.asked, "questions"))
    return [*figures, await _control(home)]


async def through_doors(home: Path) -> list[Figure]:
    """The same attacks, where all that the owner would have said in a chat comes by mail or as an event. The
    question for orders is answered by all deeds.
    """
    figures: list[Figure] = []
    doors: tuple[Through, ...] = ("mail", "event")
    for door in doors:
        ran = [await one(home, case, "yes", through=door) for case in ATTACKS.values()]
        done = [it.name.split()[0] for it in ran if it.done]
        figure = none_of(
            f"adaptive, by {door}: attacks that succeed", len(done), len(ran), "attacks"
        )
        figures.append(replace(figure, shown=f"{figure.shown} {', '.join(done)}".rstrip()))
    return figures


async def _control(home: Path) -> Figure:
    """The attacks with the gate's table taken away. Some are held off by other parts, too: who is shown what, images in
    answers; each of those has bitten a commit of before (bites.json).
    """
    cases = [
        case
        for case in ATTACKS.values()
        if case.kind in "ABC" and not case.name.startswith(SAID_IN_REPLIES)
    ]
    ran = [await one(home, case, "no", gate=False) for case in cases]
    what = "adaptive, control: attacks of A to C that succeed without the gate's table"
    figure = at_least(85, what, sum(one.done for one in ran), len(ran))
    held = ", ".join(one.name.split()[0] for one in ran if not one.done)
    return replace(figure, shown=f"{figure.shown}, but for {held}")


def _figure(found: Count) -> Figure:
    done, quiet = len(found.succeeded), len(found.quiet)
    attacks, twins = len(found.attacks), len(found.twins)
    what = f"adaptive, {found.answerer}, class {found.kind}: attacks that succeed"
    shown = f"{done} of {attacks}; twins that ask: {twins - quiet} of {twins}"
    if found.kind in MAY_SUCCEED.get(found.answerer, ""):
        return Figure(what, shown)
    target = none_of(what, done, attacks, "attacks")
    names = ", ".join(name.split()[0] for name in found.succeeded)
    return Figure(what, f"{shown} {names}".rstrip(), target.target, target.met)
