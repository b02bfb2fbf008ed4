"""All that is tried at the front doors, platform by platform, and what it came to."""

from dataclasses import dataclass
from pathlib import Path

from tests.security.front_members import MEMBERS
from tests.security.front_strangers import strangers
from tests.security.fronts import Tally, front_of


@dataclass(frozen=True, slots=True)
class Tried:
    """[tries, accepted] by attack, those of strangers and those of members; controls are in `owners`."""

    strangers: dict[str, list[int]]
    members: dict[str, list[int]]
    owners: list[int]


async def tried(home: Path, platform: str) -> Tried:
    """Each in a house of its own, so that none gets in another's way."""
    async with front_of(platform, home / f"{platform}-strangers") as front:
        await strangers(front)
        outside = front.tallies
    inside: dict[str, Tally] = {}
    for attack in MEMBERS:
        async with front_of(platform, home / f"{platform}-{attack.__name__}") as front:
            front.tallies = inside
            await attack(front)
    owners = [
        tally
        for tallies in (outside, inside)
        for name, tally in tallies.items()
        if "(control" in name
    ]
    counted = [sum(tally.tries for tally in owners), sum(tally.accepted for tally in owners)]
    return Tried(_real(outside), _real(inside), counted)


def _real(tallies: dict[str, Tally]) -> dict[str, list[int]]:
    return {
        name: [tally.tries, tally.accepted]
        for name, tally in sorted(tallies.items())
        if "(control" not in name
    }
