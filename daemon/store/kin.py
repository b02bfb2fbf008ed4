"""Agents that work for others, over the verbs of either journal: how they are born, stopped, and heard of (A17)."""

from typing import Protocol

from daemon.core.label import Label, join_all
from daemon.core.outcomes import Stop
from daemon.core.roles import OWNER_NAME
from daemon.core.rows import EVENT, NOBODY, ChildRow, InboxRow, OutboxRow, SessionRow
from daemon.store.project import ChildBorn, Posted, TurnClosed, report_text
from daemon.store.protocol import Tx

CHANNEL, REPORT = "agent", ".report"


class KinTx(Tx, Protocol):
    """A journal that can also write down who works for whom."""

    def insert_child(self, row: ChildRow) -> None:
        """An agent is set to work. Raises Conflict when this call or step has set one to work already."""
        ...

    def finish_child(self, turn_id: str) -> None:
        """Its turn is over."""
        ...


def bear(tx: KinTx, session: str, parent: str, born: ChildBorn) -> None:
    """The child's session, the message that begins its turn, and its row."""
    spawned, behind = born.spawned, tx.input_of(parent)
    if tx.session(spawned.session) is None:
        tx.put_session(_session_of(born, session, tx.session(session)))
    tx.accept(
        InboxRow(
            spawned.input_id,
            CHANNEL,
            "",
            f"{parent}/{spawned.key}",
            spawned.session,
            spawned.sender,
            spawned.task,
            spawned.label,
            spawned.child,
            born.at,
            role=behind.role if behind else OWNER_NAME,
        )
    )
    tx.insert_child(
        ChildRow(
            spawned.child,
            parent,
            spawned.key,
            spawned.session,
            session,
            spawned.agent,
            spawned.task,
            spawned.depth,
            spawned.limits,
            spawned.max_chars,
            spawned.report,
        )
    )


def part(tx: KinTx, turn_id: str, closed: TurnClosed) -> None:
    """A turn is over: those who still work for it are stopped, and who set it to work hears of it; but a stop is a stop, and
    sets nobody to work again.
    """
    _stop_children(tx, turn_id, closed.reason)
    child = tx.child(turn_id)
    if child:
        tx.finish_child(turn_id)
    if child and child.report and closed.reason is not Stop.CANCELLED:
        _report(tx, child, closed)


def deliver(tx: Tx, session: str, turn_id: str, posted: Posted) -> None:
    """To the session's people; those of a session that works for another are the other's, who are told its reply by that one.

    An event has no people of its own: what came of it is a notice where the owner wants to read it, and never an answer to
    its sender (A16).
    """
    own = tx.session(session)
    told = tx.session(own.root) if own and own.root else own
    works_for_it = told is not own
    event = own.chat if own and own.id.startswith(f"{EVENT}_") else ""
    if told is None or told.channel in ("", EVENT) or (works_for_it and posted.kind == "reply" and not event):
        return
    kind = "notice" if event and posted.kind == "reply" else posted.kind
    body = f"[{f'{EVENT} {event}' if event else session}] {posted.body}" if works_for_it and kind == "notice" else posted.body
    tx.post(OutboxRow(turn_id, -1, told.id, told.channel, told.chat, kind, body, posted.at))


def _session_of(born: ChildBorn, parent_id: str, parent: SessionRow | None) -> SessionRow:
    above = parent or SessionRow(parent_id, "", "", Label.UNTRUSTED, born.at)
    return SessionRow(
        born.spawned.session,
        above.channel,
        above.chat,
        above.label,
        born.at,
        agent=born.spawned.agent,
        model=above.model,
        effort=above.effort,
        root=above.root or (NOBODY if above.label is Label.UNTRUSTED else above.id),
        paused=above.paused,
    )


def _stop_children(tx: KinTx, parent: str, reason: Stop | None) -> None:
    """A background one outlives its parent, unless the parent was stopped or set aside."""
    everyone = reason in (Stop.CANCELLED, None)
    why = f"its parent has ended: {reason.value if reason else 'quarantined'}"
    for child in tx.children(parent):
        if not child.done and (everyone or not child.report):
            tx.note_cancel(child.turn, why)


def _report(tx: KinTx, child: ChildRow, closed: TurnClosed) -> None:
    """A message to the parent's session, with the child's end or not at all; it may do what the child's own message might.

    A second end of the same child changes nothing: the first message stands (B5 #2).
    """
    began, turn = tx.input_of(child.turn), tx.turn(child.turn)
    if began is None:
        return
    label = join_all(row.label for row in (began, turn) if row)
    tx.accept(
        InboxRow(
            f"{child.report}{REPORT}",
            CHANNEL,
            "",
            f"{child.turn}/report",
            child.parent_session,
            began.sender,
            report_text(child, closed),
            label,
            child.report,
            closed.at,
            role=began.role,
        )
    )
