"""Where the owner can be told things, the private chats in which they were met; and what people of channels call themselves."""

from datetime import datetime

from daemon.store.protocol import ReadTx, Tx

PLACE, NAME = "owners_place", "called"


def note_place(tx: Tx, channel: str, session: str, person: str, at: datetime) -> None:
    """The owner has spoken there; `person` is who that was, by the name that people.py has for them."""
    tx.keep(PLACE, channel, f"{at.isoformat()} {session} {person}")


def whose_places(tx: ReadTx) -> dict[str, str]:
    """Who was told things there, by channel."""
    return {channel: place.partition(" ")[2].partition(" ")[2] for channel, place in tx.all_kept(PLACE).items()}


def leave(tx: Tx, channel: str) -> None:
    """Who was the owner there is none any more: nothing more of what is the owner's is told there."""
    tx.drop(PLACE, channel)


def places(tx: ReadTx) -> list[str]:
    """Sessions, the one in which the owner was met last first."""
    return [place.split(" ")[1] for place in sorted(tx.all_kept(PLACE).values(), reverse=True)]


def note_name(tx: Tx, person: str, called: str) -> None:
    """What they call themselves: for showing, never for deciding."""
    tx.keep(NAME, person, called)


def called(tx: ReadTx, person: str) -> str:
    """Whoever is not known by another name stands by their own."""
    return tx.kept(NAME, person) or person
