"""Turns a row of the outbox into a message: a reply as it is, a question with its buttons, a
notice word for word.
"""

import json
from collections.abc import Callable
from dataclasses import replace

from channels.markup.approval_prompt import approval_prompt
from channels.markup.sanitize import escape_markdown
from daemon.access.chat_ids import parse_address
from daemon.agent.system_questions import parse_system_question
from daemon.core.rows import ApprovalRow, InboxRow, OutboxRow, is_system_question
from daemon.core.trust import OWNER, Label, Person
from daemon.outbox.message import (
    APPROVAL,
    FILE,
    GONE,
    REPLY,
    Delivery,
    build_choices,
    list_buttons,
    role_or_guest,
)
from daemon.store.journal import Tx

WORDS = "Say /approve or /deny."
OVER = "This question is settled."
ELSEWHERE = "Only my owner can allow this; I have asked there."
NOWHERE = (
    "Only my owner can allow this, and I do not know where to ask. They can say /approve here."
)
WHOSE = "It is for {who}, in {where}."


def build_message(
    tx: Tx, channel: str, row: OutboxRow, *, buttons: bool, is_up: Callable[[str], bool]
) -> Delivery:
    """The message as things stand now: a question that was answered meanwhile has no buttons any
    more.
    """
    row, begun = tx.get_delivery(row.turn, row.part) or row, tx.get_turn_input(row.turn)
    since = min(begun.received_at, row.created_at) if begun else row.created_at
    address = parse_address(channel, row.chat)
    if row.kind == APPROVAL:
        plain = Delivery(row, address, OVER, since)
        return _build_question(tx, plain, begun, buttons=buttons, is_up=is_up)
    if row.kind != REPLY:
        return Delivery(row, address, escape_markdown(row.body), since)
    draft = tx.get_draft(row.turn)
    draft = None if draft == GONE else draft
    file_sent = (FILE, row.session, "sent")  # what is said after a file is to stand below it
    outdated = draft is not None and any(
        (one.kind, one.session, one.state) == file_sent for one in tx.list_turn_outbox(row.turn)
    )
    reply_to = begun.message_id if begun else ""
    return Delivery(
        row, address, row.body, since, reply_to=reply_to, draft=draft, draft_outdated=outdated
    )


def _build_question(
    tx: Tx,
    plain: Delivery,
    begun: InboxRow | None,
    *,
    buttons: bool,
    is_up: Callable[[str], bool],
) -> Delivery:
    """Who may not approve here is told who has been asked; a button is shown only where it may
    count.
    """
    row = plain.row
    asked = tx.get_approval(row.turn, parse_call_id(row.body))
    if asked is None:
        return plain
    text = render_question(asked, describe_origin(tx, row, asked))
    if asked.state != "pending":
        return replace(plain, markdown=f"{text}\n\n{OVER}")
    asker, chats = tx.get_session(asked.session), [one.session for one in tx.list_owner_chats()]
    label = asker.label if asker else Label.UNTRUSTED
    elsewhere = begun is None or begun.session != row.session
    person, begun_by = OWNER, ""
    if begun and not (elsewhere and (row.session in chats or label is Label.UNTRUSTED)):
        person, begun_by = Person(begun.sender, role_or_guest(begun.role)), begun.sender
    names = list_buttons(asked, person, begun_by, label)
    copy = None
    if "o" not in names:
        sessions = [tx.get_session(chat) for chat in chats if chat != row.session]
        known = [session for session in sessions if session]
        owner = min(known, key=lambda one: not is_up(one.channel), default=None)
        text = f"{text}\n\n{ELSEWHERE if owner else NOWHERE}"
        if owner and not row.attempts:  # what was tried before has been copied before
            copy = replace(
                row, part=-1, session=owner.id, channel=owner.channel, chat=owner.chat,
                platform_message_id="", state="new",
            )  # fmt: skip
    if not buttons:
        return replace(plain, markdown=f"{text}\n\n{WORDS}", copy=copy)
    return replace(plain, markdown=text, choices=build_choices(asked, names), copy=copy)


def describe_origin(tx: Tx, row: OutboxRow, asked: ApprovalRow) -> str:
    """For whom it is asked, where that is another conversation than the one it is put in; "" where
    it is this one's own.

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
        return str(json.loads(body)["call_id"])
    except (ValueError, LookupError, TypeError):
        return ""


def render_question(asked: ApprovalRow, whose: str = "") -> str:
    """The question in markdown, and whose it is. A system question is a sentence, not a call."""
    system = (
        parse_system_question(asked.tool, asked.arguments) if is_system_question(asked) else None
    )
    if system:
        text = f"**{escape_markdown(system.title)}**\n\n{escape_markdown(system.text)}".rstrip()
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
