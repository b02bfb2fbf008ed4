"""Conversations of elsewhere, as if they were said then, and what is kept, to be taken elsewhere
(CONTRACT, `aidaemon memory import|export`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from daemon.core.trust import Label
from daemon.recall.utterances import PERSON
from memory.conversations import Conversations
from memory.facts import Fact
from memory.utterance import Utterance

FACT = "fact"
LIMIT = 1000


class ImportedLine(BaseModel):
    """One message, or a fact (`role`) with its key. `at` without a time zone is UTC. What follows
    `text` is what an export wrote: it holds where the owner vouches for the file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(min_length=1, max_length=500)
    session: str = Field(min_length=1, max_length=200)
    sender: str = Field("", max_length=200)
    role: str = Field("person", max_length=40)
    at: datetime
    text: str = Field(max_length=1_000_000)
    key: str = Field("", max_length=500)
    label: Literal["trusted", "untrusted"] = "trusted"
    own: bool = True
    private: bool = True
    pinned: bool = False

    @field_validator("at")
    @classmethod
    def _check_time(cls, at: datetime) -> datetime:
        """With its zone, and one that calendars of all zones have."""
        if not 1970 < at.year < 9999:
            raise ValueError("no year from 1971 to 9998")
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def is_fact(self, *, trusted: bool) -> bool:
        """Something to remember; of a file that nobody vouches for it is only what somebody
        said.
        """
        return trusted and self.role == FACT and self.label == Label.TRUSTED.value


def list_imported(lines: Sequence[ImportedLine], *, trusted: bool) -> list[Utterance]:
    """What was said. `trusted`: the owner says that nobody else's orders are among them, but where
    a line says so itself.
    """
    label = Label.TRUSTED if trusted else Label.UNTRUSTED
    return [
        Utterance(
            (one.key if trusted else "") or f"import:{one.session}:{one.id}",
            one.session,
            one.sender,
            one.role if trusted else PERSON,
            one.label if trusted else label.value,
            trusted and one.own and one.label == label.value,
            one.at,
            one.text,
            one.private,
        )
        for one in lines
        if not one.is_fact(trusted=trusted)
    ]


def list_imported_facts(lines: Sequence[ImportedLine], *, trusted: bool) -> list[Fact]:
    """What is to be remembered."""
    return [
        Fact(
            one.id,
            one.text,
            one.at,
            "import",
            one.label,
            one.own,
            session=one.session,
            pinned=int(one.pinned),
            key=one.key,
        )
        for one in lines
        if one.is_fact(trusted=trusted)
    ]


async def list_exported(
    conversations: Conversations, facts: Sequence[Fact], after: int, limit: int
) -> tuple[list[ImportedLine], int]:
    """These facts, then what was said after this number; and the number to go on from."""
    said, last = await conversations.list_after(after, limit)
    lines = [
        ImportedLine(
            id=one.id,
            session=one.session or "memory",
            role=FACT,
            at=one.at,
            text=one.text,
            key=one.key,
            label="trusted",
            own=one.owned,
            pinned=bool(one.pinned),
        )
        for one in facts
    ]
    lines += [
        ImportedLine.model_construct(
            id=one.key,
            session=one.session,
            sender=one.speaker,
            role=one.role,
            at=one.at,
            text=one.text,
            key=one.key,
            label=one.label,
            own=one.own,
            private=one.private,
        )
        for one in said
    ]
    return lines, last
