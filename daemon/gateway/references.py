"""What a message points at, as the model is shown it: another message, a part of one, the first
of a thread. What the model has before it is not said twice.
"""

from channels.message import InboundMessage, Reference
from daemon.access.chat_ids import chat_id
from daemon.core.rows import OutboxRow
from daemon.store.journal import Tx
from daemon.store.tables.sessions import SHOWN_TURNS, is_cleared

FORWARDED_TEXT = "[I pass on a message; {author} wrote it]\n{text}\n[end of it]"
REFERENCES = {
    "reply": "this answers a message that {author} wrote",
    "part": "this is about a part of a message that {author} wrote",
    "root": "this thread began with a message that {author} wrote",
    "passed": "I pass on a message; {author} wrote it",
}
BESIDE = "[beside a message of my own]\n{text}\n[end of it]"
OWN_REFERENCE = "[in reply to a message of my own]\n{text}\n[end of it]"
REFERENCE = "[{what}]\n{text}\n[end of it]"
WRITERS = {"assistant": "you", "sender": "I"}
NOBODY_KNOWN, MAX_AUTHOR = "somebody else", 60


def render_passed(inbound: InboundMessage) -> str:
    """A message that somebody else wrote, and its sender passes on."""
    return FORWARDED_TEXT.format(author=_name_author(inbound.author), text=inbound.text)


def is_known(tx: Tx, session: str, inbound: InboundMessage, one: Reference) -> bool:
    """The model has read it: its own words since the conversation was cleared, and the beginning of
    a thread that it takes part in. A part that the sender has marked is always told.
    """
    if one.kind == "root":
        return has_begun(tx, session)
    if one.kind != "reply" or one.by != "assistant":
        return False
    where = inbound.address.channel, chat_id(inbound.address)
    return _has_read(tx, session, tx.find_delivery(*where, one.message_id))


def _name_author(name: str) -> str:
    """On one line; people choose their names."""
    return " ".join(name.split())[:MAX_AUTHOR].replace("]", ")") or NOBODY_KNOWN


def render_reference(reference: Reference) -> str:
    """Between two lines that say what it is."""
    if reference.by == "sender" and reference.kind == "reply":
        return OWN_REFERENCE.format(text=reference.text)
    author = WRITERS.get(reference.by) or _name_author(reference.author)
    what = REFERENCES[reference.kind].format(author=author)
    return REFERENCE.format(what=what, text=reference.text)


def render_beside(own: Reference) -> str:
    """What stands beside the words of the sender's own message, or ""."""
    return BESIDE.format(text=own.beside) if own.beside else ""


def has_begun(tx: Tx, session: str) -> bool:
    """There is a turn of it since it was cleared."""
    row, latest = tx.get_session(session), tx.list_turns(session, 1)
    return bool(row and latest and not is_cleared(latest[0].started_at, row))


def _has_read(tx: Tx, session: str, said: OutboxRow | None) -> bool:
    """The model of this session has these words among the turns that it is shown."""
    row = tx.get_session(session)
    turn = tx.get_turn(said.turn) if said else None
    if said is None or turn is None or row is None or turn.session != session:
        return False
    shown = {one.id for one in tx.list_turns(session, SHOWN_TURNS)}
    return said.kind == "reply" and turn.id in shown and not is_cleared(turn.started_at, row)
