"""A message of a platform as the journal keeps it: its words, whose they are, and the files that came with it."""

from collections.abc import Sequence
from dataclasses import replace

from channels.message import Arrival, Attachment, Inbound, Reaction
from daemon.core.files import safe_name, to_json
from daemon.core.surrogates import without_halves

FORWARDED = "[I pass on a message; somebody else wrote it]\n{text}\n[end of it]"
QUOTED = "{text}\n\n[this answers a message that somebody else wrote]\n{quoted}\n[end of it]"
QUOTED_OWN = "{text}\n\n[this answers a message of my own]\n{quoted}\n[end of it]"
EDITED = "(I have edited my message; it now reads:)\n{text}"


def readable(arrival: Arrival) -> Arrival:
    """Without halves of surrogate pairs: those are no text, and nothing can be written down with them."""
    match arrival:
        case Inbound():
            return sayable(arrival)
        case Reaction():
            return replace(arrival, emoji=without_halves(arrival.emoji))
        case _:
            return arrival


def sayable(inbound: Inbound) -> Inbound:
    """The same for a message."""
    return replace(inbound, text=without_halves(inbound.text), quoted=without_halves(inbound.quoted))


def spoken_text(inbound: Inbound) -> str:
    """The text of the turn. Words of others are marked, and their label says the same (DESIGN 6)."""
    text = FORWARDED.format(text=inbound.text) if inbound.forwarded else inbound.text
    if inbound.quoted:
        text = (QUOTED_OWN if inbound.quotes_own else QUOTED).format(text=text, quoted=inbound.quoted)
    return EDITED.format(text=text) if inbound.edits else text


def attached(files: Sequence[Attachment]) -> str:
    """For the journal; names are made safe before anybody reads them."""
    return to_json([replace(file, name=safe_name(file.name)) for file in files])
