"""What people ask the daemon to do, as they give it: the one description of these fields, for the
HTTP API, its client and its document.
"""

from dataclasses import fields
from typing import Annotated

from annotated_types import MaxLen

from daemon.core import value
from daemon.core.rows import Criterion
from daemon.core.trust import OWNER_NAME

NOT_BLANK = "not blank"
"""Marks a text that must say something."""


@value
class LoopRequest:
    """A loop that somebody wants. `session` is the conversation that is asked and told. What is
    None is as the agent's settings say.
    """

    agent: str
    message: Annotated[str, NOT_BLANK]
    session: str
    criterion: Criterion | None = None
    value: Annotated[str, MaxLen(10_000)] | None = None
    max_iterations: int | None = None

    @property
    def requested(self) -> dict[str, object]:
        """The fields that a person gives."""
        return {one.name: getattr(self, one.name) for one in fields(LoopRequest)}


@value
class LoopOrder(LoopRequest):
    """A request, who makes it, and their role. `live`: it ends with their pages (C10)."""

    sender: str = OWNER_NAME
    role: str = OWNER_NAME
    live: bool = False
