"""What stands in the outbox, as a letter: a reply as it is, a question with its buttons, a notice word for word."""

import json
from collections.abc import Callable
from dataclasses import replace

from channels.markup.approval_prompt import approval_prompt
from channels.markup.sanitize import escape_markdown
from daemon.core import value
from daemon.core.journal import ReadTx, Store
from daemon.core.rows import ApprovalRow, InboxRow, OutboxRow, SessionRow, is_system_question
from daemon.core.system_questions import parse_system_question
from daemon.core.trust import OWNER, Label, Person
from daemon.outbox.message import (
    APPROVAL,
    FILE,
    GONE,
    REPLY,
    OutboundMessage,
    build_choices,
    list_buttons,
    parse_address,
    role_or_guest,
)

WORDS = "Say /approve or /deny."
OVER = "This question is settled."
ELSEWHERE = "Only my owner can allow this; I have asked there."
NOWHERE = (
    "Only my owner can allow this, and I do not know where to ask. They can say /approve here."
)
WHOSE = "It is for {who}, in {where}."


@value
class DeliveryFacts:
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


@value
class MessageRenderer:
    """Looks up what belongs to a delivery. `works` says whether a channel does. Raises StoreUnavailable."""

    store: Store
    is_up: Callable[[str], bool] = lambda channel: True

    async def render(
        self, channel: str, row: OutboxRow, *, buttons: bool = True
    ) -> OutboundMessage:
        """The letter, as things stand now: a question that was answered meanwhile has no buttons any more."""
        found = await self.store.read(lambda tx: _look(tx, row, self.is_up))
        now = found.row
        since = min(found.begun.received_at, now.created_at) if found.begun else now.created_at
        plain = OutboundMessage(
            now, parse_address(channel, now.chat), escape_markdown(now.body), since
        )
        if now.kind == REPLY:
            answers_to = found.begun.message_id if found.begun else ""
            return replace(
                plain,
                markdown=now.body,
                reply_to=answers_to,
                draft=found.draft,
                draft_outdated=found.overtaken,
            )
        if now.kind == APPROVAL:
            return _question(plain, now, found, buttons=buttons)
        return plain


def _look(tx: ReadTx, row: OutboxRow, works: Callable[[str], bool]) -> DeliveryFacts:
    now, begun = tx.get_delivery(row.turn, row.part) or row, tx.get_turn_input(row.turn)
    if row.kind != APPROVAL:
        shown = tx.get_draft(row.turn) if row.kind == REPLY else None
        draft = None if shown == GONE else shown
        return DeliveryFacts(now, begun, draft, overtaken=draft is not None and _overtaken(tx, row))
    asked, known = tx.get_approval(row.turn, parse_call_id(row.body)), [chat.session for chat in tx.list_owner_chats()]
    rows = [
        found for session in known if session != row.session and (found := tx.get_session(session))
    ]
    owners = next(iter(sorted(rows, key=lambda found: not works(found.channel))), None)
    asker, whose = (
        tx.get_session(asked.session) if asked else None,
        describe_origin(tx, row, asked) if asked else "",
    )
    return DeliveryFacts(now, begun, None, asked, asker, owners, row.session in known, whose)


def _overtaken(tx: ReadTx, row: OutboxRow) -> bool:
    """A file of the same turn has gone out: what was said after it is to stand below it."""
    return any(
        (one.kind, one.session, one.state) == (FILE, row.session, "sent")
        for one in tx.list_turn_outbox(row.turn)
    )


def describe_origin(tx: ReadTx, row: OutboxRow, asked: ApprovalRow) -> str:
    """For whom it is asked, where that is another conversation than the one it is put in; "" where it is this one's own.

    What somebody calls themselves proves nothing: it never stands without who they are.
    """
    asker, begun = tx.get_session(asked.session), tx.get_turn_input(asked.turn)
    where = (asker.root if asker else "") or asked.session
    if where == row.session:
        return ""
    sender = begun.sender if begun else ""
    name = tx.get_display_name(sender)
    who = f"{name} ({sender})" if name != sender else sender or "the assistant itself"
    return WHOSE.format(who=escape_markdown(who), where=escape_markdown(where))


def parse_call_id(body: str) -> str:
    """Which call a question's delivery is about."""
    try:
        told = json.loads(body)
    except ValueError:
        return ""
    return str(told.get("call_id", "")) if isinstance(told, dict) else ""


def _question(
    plain: OutboundMessage, row: OutboxRow, found: DeliveryFacts, *, buttons: bool
) -> OutboundMessage:
    """The question as it is put. Who may not say yes here is told who has been asked; no button is shown that says no more."""
    asked = found.asked
    if asked is None:
        return replace(plain, markdown=OVER)
    text = render_question(asked, found.whose)
    if asked.state != "pending":
        return replace(plain, markdown=f"{text}\n\n{OVER}")
    names = list_buttons(asked, *_person(found, row))
    if "o" not in names:
        text = f"{text}\n\n{ELSEWHERE if found.owners else NOWHERE}"
        plain = replace(plain, copy=_copy(row, found.owners))
    if not buttons:
        return replace(plain, markdown=f"{text}\n\n{WORDS}")
    return replace(plain, markdown=text, choices=build_choices(asked, names))


def _copy(row: OutboxRow, where: SessionRow | None) -> OutboxRow | None:
    """The same question at the owner's; once: what was tried before has been copied before."""
    if where is None or row.attempts:
        return None
    return replace(
        row,
        part=-1,
        session=where.id,
        channel=where.channel,
        chat=where.chat,
        platform_message_id="",
        state="new",
    )


def _person(found: DeliveryFacts, row: OutboxRow) -> tuple[Person, str, Label]:
    """Whom the buttons are for: whoever set the turn to work, or the agent that works for them; at the owner's, the owner."""
    begun, label = found.begun, found.asker.label if found.asker else Label.UNTRUSTED
    elsewhere = begun is None or begun.session != row.session
    if begun is None or (elsewhere and (found.at_owners or label is Label.UNTRUSTED)):
        return OWNER, "", label
    return Person(begun.sender, role_or_guest(begun.role)), begun.sender, label


def render_question(asked: ApprovalRow, whose: str = "") -> str:
    """The question in markdown, and whose it is. What the house itself asks is a sentence, not a call."""
    house = (
        parse_system_question(asked.tool, asked.arguments) if is_system_question(asked) else None
    )
    if house:
        text = "\n\n".join(
            part
            for part in (f"**{escape_markdown(house.title)}**", escape_markdown(house.text))
            if part
        )
    else:
        outside = asked.label is Label.UNTRUSTED
        text = approval_prompt(
            asked.tool,
            asked.arguments,
            asked.effect.value,
            asked.expires,
            asked.preview,
            outside=outside,
        )
    return f"{text}\n\n{whose}" if whose else text
