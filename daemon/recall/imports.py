"""Conversations of elsewhere, as if they were said then (CONTRACT, `aidaemon memory import`)."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from daemon.core.trust import Label
from memory.search import Utterance

LIMIT = 1000


class ImportedLine(BaseModel):
    """One message. `at` without a time zone is UTC."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(min_length=1, max_length=200)
    session: str = Field(min_length=1, max_length=200)
    sender: str = Field("", max_length=200)
    role: str = Field("person", max_length=40)
    at: datetime
    text: str = Field(max_length=1_000_000)


def list_imported(lines: Sequence[ImportedLine], *, trusted: bool) -> list[Utterance]:
    """`trusted`: the owner says that nobody else's orders are among them."""
    label = (Label.TRUSTED if trusted else Label.UNTRUSTED).value
    return [
        Utterance(
            f"import:{one.session}:{one.id}", one.session, one.sender, one.role, label, trusted,
            one.at if one.at.tzinfo else one.at.replace(tzinfo=UTC), one.text,
        )
        for one in lines
    ]  # fmt: skip
