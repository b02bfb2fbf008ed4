"""A long life: the current value is used, the old one known as old, and nobody sees what is not for them.

3,000 turns: `python -m tests.security life`.
"""

from pathlib import Path

from tests.security.life import live


async def test_a18_f10_what_holds_now_is_told_and_nobody_sees_what_is_not_for_them(
    tmp_path: Path,
) -> None:
    life = await live(tmp_path, 300)
    assert life.faults == []
    assert (life.checks, life.private_checks) >= (30, 24)
