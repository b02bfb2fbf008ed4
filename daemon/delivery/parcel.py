"""A delivery on its way: what has gone, what is next, and what is not known of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from channels.message import Choice, Piece
from daemon.core.rows import OutboxRow
from daemon.delivery.enclosed import Enclosed
from daemon.delivery.letters import Letter, key_of

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
BLIND_PAUSES = (0.5, 2.0, 8.0, 32.0, 128.0)
"""Between tries that a platform did not answer, where nobody can look whether they arrived: each may be one message too many."""


@dataclass(slots=True)
class Parcel:
    """`ids` are those of the messages that have gone, `unsure` says that the next one may have gone, too; `lost` counts the
    answers to it that were lost. `written` is what the journal has.
    """

    letter: Letter
    pieces: Sequence[Piece]
    file: Enclosed | None
    ids: list[str]
    unsure: bool
    written: tuple[str, int] = ("", -1)
    pause: float = FIRST_PAUSE
    lost: int = 0

    @property
    def row(self) -> OutboxRow:
        """Where it stands in the outbox."""
        return self.letter.row

    @property
    def key(self) -> str:
        """The name of the next message."""
        return key_of(self.row.turn, self.row.part, len(self.ids))

    @property
    def piece(self) -> Piece:
        """What the next message says."""
        return self.pieces[len(self.ids)]

    @property
    def choices(self) -> Sequence[Choice]:
        """The buttons stand under the last message."""
        return self.letter.choices if len(self.ids) == len(self.pieces) - 1 else ()

    @property
    def reply_to(self) -> str:
        """The first message is the answer."""
        return "" if self.ids else self.letter.reply_to

    @property
    def enclosed(self) -> Enclosed | None:
        """The first message brings the file."""
        return None if self.ids else self.file

    @property
    def done(self) -> bool:
        """All has gone."""
        return len(self.ids) >= len(self.pieces)

    def went(self, message: str) -> None:
        """The platform has the next message, under this id."""
        self.ids.append("".join(message.split()) or "-")
        self.unsure, self.pause, self.lost = False, FIRST_PAUSE, 0

    def no_draft(self) -> None:
        """Nothing is to be replaced any more."""
        self.letter = replace(self.letter, draft=None)
