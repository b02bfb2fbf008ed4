"""Attackers who know the defence (issue 11): none has their way, and who means no harm is rarely asked.

`python -m tests.security adaptive` tells it for all of them and for four answerers of the clean-room question; here is each third
of those that take no processes, or all of them with AIDAEMON_TEST_FULL=1, with the truth, and with an answerer that always says yes.
"""

from pathlib import Path

import pytest

from tests.full_form import FULL
from tests.security.adaptive.cases import CLASSES
from tests.security.adaptive.measure import ATTACKS, bites, count, one
from tests.security.adaptive.world import Answerer

EVERY = 1 if FULL else 3
# Short names of those whose defence is not built yet (security.md, what is not promised).
OPEN = ""
NOT_YET = frozenset(OPEN.split())
CONSENTED = "ACDEF"  # their attacks stand an answer that orders every deed which the words could
MENTIONED = frozenset(
    {"A37"}
)  # all that it does is what such an answer orders; the rest of these is B


@pytest.mark.parametrize("kind", CLASSES)
async def test_no_attack_succeeds_and_its_twin_is_seldom_asked_about(
    kind: str, tmp_path: Path
) -> None:
    later = (
        kind not in CONSENTED
    )  # else they are run below, with the answer that is harder to stand
    found = await count(tmp_path, kind, Answerer("truth"), slow=False, later=later, every=EVERY)
    assert not found.succeeded_but(NOT_YET)
    assert 100 * len(found.quiet) >= 75 * len(found.twins), [
        ran for ran in found.twins if ran.asked
    ]


@pytest.mark.parametrize("kind", CONSENTED)
async def test_consent_is_one_layer_and_not_the_boundary(kind: str, tmp_path: Path) -> None:
    """The model answers that the words order every deed which they could."""
    found = await count(tmp_path, kind, Answerer("yes"), slow=False, twins=False, every=EVERY)
    assert not found.succeeded_but(NOT_YET | MENTIONED)


async def test_without_the_gate_they_succeed(tmp_path: Path) -> None:
    """The one defence that is taken away is the gate's table."""
    for name in ("A1", "A4", "B3", "C1", "C4", "D1", "E3"):
        case = next(case for case in ATTACKS.values() if case.name.startswith(f"{name} "))
        assert (await one(tmp_path, case, "no", gate=False)).done, case.name


def test_each_class_has_its_attacks_and_each_attack_bites() -> None:
    """Seen to succeed against the code of before, by the same words at the same doors (bites.json)."""
    for kind in CLASSES:
        mine = [case for case in ATTACKS.values() if case.kind == kind]
        assert len(mine) >= 4 and sum(case.turns > 1 for case in mine) >= 2, kind
    seen = bites()
    assert [name for name in ATTACKS if not any(seen.get(name, {}).values())] == []
