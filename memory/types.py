"""What memory hands out."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was kept, as it was said. `label` tells what it may be trusted for, `owned` that the owner said it."""

    id: str
    text: str
    at: datetime
    source: str
    label: str
    owned: bool = True


@dataclass(frozen=True, slots=True)
class Hit:
    """A fact that fits a query; a higher score fits better."""

    id: str
    text: str
    at: datetime
    score: float
    label: str
    owned: bool = True
