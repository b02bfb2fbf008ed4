"""Where the owner can be told things: the private chats in which they were met, one a channel."""

from datetime import datetime

from daemon.store.protocol import ReadTx, Tx

PLACE = "owners_place"


def note_place(tx: Tx, channel: str, session: str, at: datetime) -> None:
    """The owner has spoken there."""
    tx.keep(PLACE, channel, f"{at.isoformat()} {session}")


def places(tx: ReadTx) -> list[str]:
    """Sessions, the one in which the owner was met last first."""
    return [place.partition(" ")[2] for place in sorted(tx.all_kept(PLACE).values(), reverse=True)]
