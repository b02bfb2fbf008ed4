"""No attack on the approval flow is accepted, and nothing runs of it (A6 of the reference; issue 4)."""

from pathlib import Path

import pytest

from tests.security.approvals import attack_all, summary

LEAST = 150


@pytest.mark.timeout(300)
async def test_A6_no_attack_on_the_approval_flow_is_accepted(tmp_path: Path) -> None:
    tallies, hits = await attack_all(tmp_path)
    figures = summary(tallies, hits)
    assert (figures["accepted"], figures["ran"]) == (0, []), figures
    assert isinstance(figures["tries"], int) and figures["tries"] >= LEAST, figures
    assert tallies["(control: the owner's own yes)"].accepted == 1
