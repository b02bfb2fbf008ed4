"""What a turn costs, by counts that load cannot blur: calls, tasks, iterations, commits, looks at files."""

from pathlib import Path

from tests.bench.counts import BUDGETS, KINDS, count_all
from tests.bench.world import world


async def test_each_kind_of_turn_keeps_its_budget_of_counts(tmp_path: Path) -> None:
    """Only a commit that says why raises a budget."""
    async with world(tmp_path) as it:
        found = await count_all(it)
    assert found["trivial turn"]["calls"] > 500, "next to nothing was counted"
    over = {
        f"{name}: {kind}": (found[name][kind], budget)
        for name, budgets in BUDGETS.items()
        for kind, budget in zip(KINDS, budgets, strict=True)
        if found[name][kind] > budget
    }
    assert over == {}
