"""What stands in the outbox, as a letter: a reply as it is, a question with its buttons, a notice word for word."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from channels.text.asking import question
from channels.text.verbatim import literal
from daemon.core.asking import is_of_the_house
from daemon.core.label import Label
from daemon.core.roles import OWNER, Person
from daemon.core.rows import ApprovalRow, InboxRow, OutboxRow, SessionRow
from daemon.delivery.addresses import address_of
from daemon.delivery.letters import APPROVAL, DRAFT, FILE, GONE, REPLY, Letter, answers, choices_of, stranger
from daemon.loops.questions import house_question
from daemon.people.places import called, places
from daemon.store.protocol import ReadTx, Store

WORDS = "Say /approve or /deny."
OVER = "This question is settled."
ELSEWHERE = "Only my owner can allow this; I have asked there."
NOWHERE = "Only my owner can allow this, and I do not know where to ask. They can say /approve here."
WHOSE = "It is for {who}, in {where}."


@dataclass(frozen=True, slots=True)
class Found:
    """What the journal has about a delivery."""

    row: OutboxRow
    begun: InboxRow | None
    draft: str | None = None
    asked: ApprovalRow | None = None
    asker: SessionRow | None = None
    owners: SessionRow | None = None
    at_owners: bool = False
    whose: str = ""
    overtaken: bool = False


@dataclass(frozen=True, slots=True)
class Writing:
    """Looks up what belongs to a delivery. `works` says whether a channel does. Raises StoreUnavailable."""

    store: Store
    works: Callable[[str], bool] = lambda channel: True

    async def letter(self, channel: str, row: OutboxRow, *, buttons: bool = True) -> Letter:
        """The letter, as things stand now: a question that was answered meanwhile has no buttons any more."""
        found = await self.store.read(lambda tx: _look(tx, row, self.works))
        now = found.row
        since = min(found.begun.received_at, now.created_at) if found.begun else now.created_at
        plain = Letter(now, address_of(channel, now.chat), literal(now.body), since)
        if now.kind == REPLY:
            answers_to = found.begun.message_id if found.begun else ""
            return replace(plain, markdown=now.body, reply_to=answers_to, draft=found.draft, overtaken=found.overtaken)
        if now.kind == APPROVAL:
            return _question(plain, now, found, buttons=buttons)
        return plain


def _look(tx: ReadTx, row: OutboxRow, works: Callable[[str], bool]) -> Found:
    now, begun = tx.delivery(row.turn, row.part) or row, tx.input_of(row.turn)
    if row.kind != APPROVAL:
        shown = tx.kept(DRAFT, row.turn) if row.kind == REPLY else None
        draft = None if shown == GONE else shown
        return Found(now, begun, draft, overtaken=draft is not None and _overtaken(tx, row))
    asked, known = tx.approval(row.turn, call_of(row.body)), places(tx)
    rows = [found for session in known if session != row.session and (found := tx.session(session))]
    owners = next(iter(sorted(rows, key=lambda found: not works(found.channel))), None)
    asker, whose = tx.session(asked.session) if asked else None, whose_is(tx, row, asked) if asked else ""
    return Found(now, begun, None, asked, asker, owners, row.session in known, whose)


def _overtaken(tx: ReadTx, row: OutboxRow) -> bool:
    """A file of the same turn has gone out: what was said after it is to stand below it."""
    return any((one.kind, one.session, one.state) == (FILE, row.session, "sent") for one in tx.outbox_of(row.turn))


def whose_is(tx: ReadTx, row: OutboxRow, asked: ApprovalRow) -> str:
    """For whom it is asked, where that is another conversation than the one it is put in; "" where it is this one's own.

    What somebody calls themselves proves nothing: it never stands without who they are.
    """
    asker, begun = tx.session(asked.session), tx.input_of(asked.turn)
    where = (asker.root if asker else "") or asked.session
    if where == row.session:
        return ""
    sender = begun.sender if begun else ""
    name = called(tx, sender)
    who = f"{name} ({sender})" if name != sender else sender or "the assistant itself"
    return WHOSE.format(who=literal(who), where=literal(where))


def call_of(body: str) -> str:
    """Which call a question's delivery is about."""
    try:
        told = json.loads(body)
    except ValueError:
        return ""
    return str(told.get("call_id", "")) if isinstance(told, dict) else ""


def _question(plain: Letter, row: OutboxRow, found: Found, *, buttons: bool) -> Letter:
    """The question as it is put. Who may not say yes here is told who has been asked; no button is shown that says no more."""
    asked = found.asked
    if asked is None:
        return replace(plain, markdown=OVER)
    text = text_of(asked, found.whose)
    if asked.state != "pending":
        return replace(plain, markdown=f"{text}\n\n{OVER}")
    names = answers(asked, *_person(found, row))
    if "o" not in names:
        text = f"{text}\n\n{ELSEWHERE if found.owners else NOWHERE}"
        plain = replace(plain, copy=_copy(row, found.owners))
    if not buttons:
        return replace(plain, markdown=f"{text}\n\n{WORDS}")
    return replace(plain, markdown=text, choices=choices_of(asked, names))


def _copy(row: OutboxRow, where: SessionRow | None) -> OutboxRow | None:
    """The same question at the owner's; once: what was tried before has been copied before."""
    if where is None or row.attempts:
        return None
    return replace(row, part=-1, session=where.id, channel=where.channel, chat=where.chat, platform_message_id="", state="new")


def _person(found: Found, row: OutboxRow) -> tuple[Person, str, Label]:
    """Whom the buttons are for: whoever set the turn to work, or the agent that works for them; at the owner's, the owner."""
    begun, label = found.begun, found.asker.label if found.asker else Label.UNTRUSTED
    elsewhere = begun is None or begun.session != row.session
    if begun is None or (elsewhere and (found.at_owners or label is Label.UNTRUSTED)):
        return OWNER, "", label
    return Person(begun.sender, stranger(begun.role)), begun.sender, label


def text_of(asked: ApprovalRow, whose: str = "") -> str:
    """The question in markdown, and whose it is. What the house itself asks is a sentence, not a call."""
    house = house_question(asked.tool, asked.arguments) if is_of_the_house(asked) else None
    if house:
        text = "\n\n".join(part for part in (f"**{literal(house.title)}**", literal(house.text)) if part)
    else:
        outside = asked.label is Label.UNTRUSTED
        text = question(asked.tool, asked.arguments, asked.effect.value, asked.expires, asked.preview, outside=outside)
    return f"{text}\n\n{whose}" if whose else text
