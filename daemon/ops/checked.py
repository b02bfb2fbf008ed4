"""What a doctor says of one thing."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `advice` is empty where all is well."""

    name: str
    state: State
    found: str
    advice: str = ""
