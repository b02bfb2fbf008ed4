"""What a turn may go by beside its own words: what was said where it was set to work (DESIGN 6, argument provenance)."""

from daemon.agent.past import load_past, rebuild
from daemon.core.label import Label
from daemon.core.loops import CHANNEL
from daemon.core.rows import SessionRow
from daemon.core.sources import Said, said_in, words_of
from daemon.core.turn import Turn
from daemon.store.protocol import ReadTx


def is_told(session: SessionRow, turn: Turn) -> bool:
    """Somebody else's words stand behind it: it works for another turn, or for a loop."""
    return bool(turn.parent) or session.channel == CHANNEL or session.id.startswith(f"{CHANNEL}:")


def heard_above(tx: ReadTx, session: SessionRow, turn: Turn) -> tuple[Said, ...]:
    """What was said to those who set it to work, oldest first: the agents above it, and the person who began it all."""
    heard: tuple[Said, ...] = ()
    above, where = turn.parent, session
    while above and (row := tx.turn(above)):
        where = tx.session(row.session) or where
        heard = (*said_in(rebuild(row.id, row.session, tx.events(row.id))), *heard)
        above = row.parent
    before = load_past(tx, where).heard if turn.parent and not above else ()
    return (*_of_loop(tx, where), *before, *heard)


def _of_loop(tx: ReadTx, session: SessionRow) -> tuple[Said, ...]:
    """The task as the person gave it; what attempts have learned is the model's."""
    kind, _, name = session.id.partition(":")
    loop = tx.loop(name) if kind == CHANNEL else None
    if loop is None:
        return ()
    root = tx.session(loop.root)
    return (words_of(loop.message, loop.role, root.label if root else Label.UNTRUSTED),)
