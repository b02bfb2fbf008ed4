"""Answering one question, for every door: by somebody who may, as they stand now; once; with the permission that goes with it.

Questions as a conversation is shown them: numbered, nothing hidden in them, and what of that it has been shown.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from daemon.commands.registry import Services
from daemon.core import value
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.core.journal import ReadTx, Tx
from daemon.core.rows import (
    EXACT_CALL,
    LASTING_ANSWERS,
    OUTSIDE_SCOPE,
    ApprovalRow,
    GrantBounds,
    GrantRow,
    NotAllowedToAnswer,
    grant_from_answer,
    is_system_question,
    may_answer_question,
)
from daemon.core.system_questions import parse_system_question
from daemon.core.trust import Label, Person
from daemon.services.visible_text import MAX_CHARS, make_lines_visible, make_visible
from daemon.tools.policy.grants import is_active, pattern_error


@value
class AnsweredCall:
    """A question that has been answered, and the standing permission that came of it."""

    row: ApprovalRow
    grant: GrantRow | None = None


async def answer_approval(
    desk: Services,
    turn: str,
    call_id: str,
    answer: Answer,
    by: Person,
    reason: str = "",
    bounds: GrantBounds = EXACT_CALL,
) -> AnsweredCall | None:
    """Answer one question; None when it is not pending any more. Raises MayNotAnswer, and UsageError for bounds that do not fit.

    `by` is who the door has recognised just now: whoever was taken from its list since the question was asked has no say.
    """
    now, name = desk.clock.now(), desk.new_id()[-6:]

    def work(tx: Tx) -> AnsweredCall | None:
        row = tx.get_approval(turn, call_id)
        if row is None:
            return None
        _check_right(tx, row, answer, by)
        where = (
            _session_scope(tx, row.session)
            if answer is Answer.SESSION
            else _global_scope(tx, row.session)
        )
        grant = grant_from_answer(row, answer, bounds, name=name, where=where, by=by.name, now=now)
        _check_bounds(row, answer, bounds)
        answered = tx.answer_approval(turn, call_id, answer, by.name, reason, now)
        if answered and grant:
            for past in [past.id for past in tx.list_grants("*") if not is_active(past, now)]:
                tx.revoke_grant(past)
            tx.add_grant(grant)
        return AnsweredCall(answered, grant) if answered else None

    settled = await desk.store.write(work)
    session = (
        await desk.store.read(lambda tx: tx.get_session(settled.row.session)) if settled else None
    )
    if settled and session:
        desk.sessions.wake_turn(session, settled.row.turn)
    return settled


def is_allowed_to_answer(tx: ReadTx, row: ApprovalRow, answer: Answer, person: Person) -> bool:
    """This person, as they stand now, may give this answer."""
    begun, session = tx.get_turn_input(row.turn), tx.get_session(row.session)
    label = session.label if session else Label.UNTRUSTED
    return may_answer_question(
        row, answer, person, begun_by=begun.sender if begun else "", session_label=label
    )


def _check_right(tx: ReadTx, row: ApprovalRow, answer: Answer, person: Person) -> None:
    if not is_allowed_to_answer(tx, row, answer, person):
        who = f"{person.name}, {person.role.value}"
        raise NotAllowedToAnswer(
            f"This is not yours to answer ({row.tool}: {row.effect.value}); here you are {who}. It still waits."
        )


def _check_bounds(row: ApprovalRow, answer: Answer, bounds: GrantBounds) -> None:
    if bounds == EXACT_CALL:
        return
    if answer not in LASTING_ANSWERS or is_system_question(row):
        raise UsageError(
            "Bounds are for a yes that holds for the session or always, to a call. Nothing was answered."
        )
    trouble = pattern_error(bounds.paths, row.paths) if bounds.paths else ""
    if trouble:
        raise UsageError(f"{trouble}. Nothing was answered.")


def _session_scope(tx: Tx, session: str) -> str:
    """Where the person is: agents that work for a chat come and go. What came from outside is never their chat."""
    own = tx.get_session(session)
    return own.root if own and own.root and own.label is Label.TRUSTED else session


def _global_scope(tx: Tx, session: str) -> str:
    """What is allowed for good to the owner's chats is never allowed to conversations from outside, nor the other way round."""
    own = tx.get_session(session)
    return "" if own and own.label is Label.TRUSTED else OUTSIDE_SCOPE


SHOWN_KIND = "questions_shown"
OUTSIDE_WARNING = "! this turn has read text from outside; it may not be your wish"
ANSWER_HINT = (
    "Say /approve 1, /approve all, /deny 2 and why, or /deny all; /approve show 1 shows one whole."
)

ApprovalRef = tuple[str, str]


@value
class ShownApprovals:
    """What somebody was last shown in a conversation: its questions in the order of their numbers, and those shown whole.

    A number means what it meant when it was shown: a question that is gone leaves its number to no other (A6, swapped buttons).
    What others have looked at, where nobody else may have seen it, counts for them alone.
    """

    listed: tuple[ApprovalRef, ...] = ()
    whole: frozenset[ApprovalRef] = frozenset()


def ref_of(row: ApprovalRow) -> ApprovalRef:
    """The question's own name."""
    return row.turn, row.call_id


def load_shown(tx: ReadTx, session: str, person: str) -> ShownApprovals:
    """What this person was shown in this conversation."""
    text = tx.kept(SHOWN_KIND, _shown_key(session, person))
    if text is None:
        return ShownApprovals()
    kept: dict[str, list[list[str]]] = json.loads(text)
    listed, whole = (
        [(turn, call_id) for turn, call_id in kept[name]] for name in ("listed", "whole")
    )
    return ShownApprovals(tuple(listed), frozenset(whole))


def save_shown(
    tx: Tx, session: str, person: str, glance: ShownApprovals, waiting: Sequence[ApprovalRow]
) -> None:
    """Keep it; of questions that wait no longer nothing is kept but their place in the list."""
    whole = glance.whole & {ref_of(row) for row in waiting}
    tx.keep(
        SHOWN_KIND,
        _shown_key(session, person),
        json.dumps({"listed": glance.listed, "whole": sorted(whole)}),
    )


def _shown_key(session: str, person: str) -> str:
    return json.dumps([session, person])


def add_listed(glance: ShownApprovals, waiting: Sequence[ApprovalRow]) -> ShownApprovals:
    """The questions were listed anew."""
    return replace(glance, listed=tuple(ref_of(row) for row in waiting))


def add_whole(glance: ShownApprovals, rows: Sequence[ApprovalRow]) -> ShownApprovals:
    """These were shown whole."""
    return replace(glance, whole=glance.whole | {ref_of(row) for row in rows})


def needs_full_view(row: ApprovalRow) -> bool:
    """A list shows its head only, so it has to be looked at before a yes; what the house asks is told in words, whole."""
    return not is_system_question(row) and (
        make_visible(row.arguments).is_cut or make_lines_visible(row.preview).is_cut
    )


def render_list(rows: Sequence[ApprovalRow], session: str) -> str:
    """All that wait, numbered, and what can be said."""
    lines = [f"{number}. {render_approval(row, session)}" for number, row in enumerate(rows, 1)]
    head = "1 question waits:" if len(rows) == 1 else f"{len(rows)} questions wait:"
    return "\n".join((head, *lines, ANSWER_HINT))


def render_approval(row: ApprovalRow, session: str, *, whole: bool = False) -> str:
    """The tool, what it does, where it comes from, exactly what would be done, and what to beware of."""
    terms = [row.effect.value, f"until {row.expires:%d %b %H:%M} UTC"]
    if row.session != session:
        terms.append(f"asked by {make_visible(row.session)}")
    house = parse_system_question(row.tool, row.arguments) if is_system_question(row) else None
    most = 0 if whole else MAX_CHARS
    what = make_lines_visible(house.whole, most) if house else make_visible(row.arguments, most)
    about = make_lines_visible(row.preview, most)
    beware = (OUTSIDE_WARNING,) if row.label is Label.UNTRUSTED else ()
    return "\n".join(
        part
        for part in (
            f"{make_visible(row.tool)} ({', '.join(terms)})",
            str(what),
            str(about),
            *beware,
        )
        if part
    )
