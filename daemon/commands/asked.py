"""Questions as a conversation is shown them: numbered, nothing hidden in them, and what of that it has been shown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from daemon.core.asking import is_of_the_house
from daemon.core.escaping import MOST, shown, shown_lines
from daemon.core.label import Label
from daemon.core.rows import ApprovalRow
from daemon.loops.questions import house_question
from daemon.store.protocol import ReadTx, Tx

KIND = "questions_shown"
OUTSIDE = "! this turn has read text from outside; it may not be your wish"
HOW = "Say /approve 1, /approve all, /deny 2 and why, or /deny all; /approve show 1 shows one whole."

Ref = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Glance:
    """What somebody was last shown in a conversation: its questions in the order of their numbers, and those shown whole.

    A number means what it meant when it was shown: a question that is gone leaves its number to no other (A6, swapped buttons).
    What others have looked at, where nobody else may have seen it, counts for them alone.
    """

    listed: tuple[Ref, ...] = ()
    whole: frozenset[Ref] = frozenset()


def ref(row: ApprovalRow) -> Ref:
    """The question's own name."""
    return row.turn, row.call_id


def glance_of(tx: ReadTx, session: str, person: str) -> Glance:
    """What this person was shown in this conversation."""
    text = tx.kept(KIND, _name(session, person))
    if text is None:
        return Glance()
    kept: dict[str, list[list[str]]] = json.loads(text)
    listed, whole = ([(turn, call_id) for turn, call_id in kept[name]] for name in ("listed", "whole"))
    return Glance(tuple(listed), frozenset(whole))


def note_glance(tx: Tx, session: str, person: str, glance: Glance, waiting: Sequence[ApprovalRow]) -> None:
    """Keep it; of questions that wait no longer nothing is kept but their place in the list."""
    whole = glance.whole & {ref(row) for row in waiting}
    tx.keep(KIND, _name(session, person), json.dumps({"listed": glance.listed, "whole": sorted(whole)}))


def _name(session: str, person: str) -> str:
    return json.dumps([session, person])


def with_list(glance: Glance, waiting: Sequence[ApprovalRow]) -> Glance:
    """The questions were listed anew."""
    return replace(glance, listed=tuple(ref(row) for row in waiting))


def with_whole(glance: Glance, rows: Sequence[ApprovalRow]) -> Glance:
    """These were shown whole."""
    return replace(glance, whole=glance.whole | {ref(row) for row in rows})


def is_cut(row: ApprovalRow) -> bool:
    """A list shows its head only, so it has to be looked at before a yes; what the house asks is told in words, whole."""
    return not is_of_the_house(row) and (shown(row.arguments).cut or shown_lines(row.preview).cut)


def in_a_list(rows: Sequence[ApprovalRow], session: str) -> str:
    """All that wait, numbered, and what can be said."""
    lines = [f"{number}. {in_words(row, session)}" for number, row in enumerate(rows, 1)]
    head = "1 question waits:" if len(rows) == 1 else f"{len(rows)} questions wait:"
    return "\n".join((head, *lines, HOW))


def in_words(row: ApprovalRow, session: str, *, whole: bool = False) -> str:
    """The tool, what it does, where it comes from, exactly what would be done, and what to beware of."""
    terms = [row.effect.value, f"until {row.expires:%d %b %H:%M} UTC"]
    if row.session != session:
        terms.append(f"asked by {shown(row.session)}")
    house = house_question(row.tool, row.arguments) if is_of_the_house(row) else None
    most = 0 if whole else MOST
    what = shown_lines(house.whole, most) if house else shown(row.arguments, most)
    about = shown_lines(row.preview, most)
    beware = (OUTSIDE,) if row.label is Label.UNTRUSTED else ()
    return "\n".join(part for part in (f"{shown(row.tool)} ({', '.join(terms)})", str(what), str(about), *beware) if part)
