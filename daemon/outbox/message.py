"""Turns a row of the outbox into messages: a reply as it is, a question with its buttons, a notice
word for word.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ValidationError

from channels.base import Rejected
from channels.markup.approval_prompt import UNTRUSTED_INPUT, approval_prompt
from channels.markup.sanitize import escape_invisible, escape_markdown, shorten_line
from channels.message import Address, Choice, MessagePart
from daemon.access.chat_ids import BUTTONS, button_data, parse_address
from daemon.agent.system_questions import QuestionText, how_to_store, parse_system_question
from daemon.core.ids import is_mail_session, make_short_code
from daemon.core.messages import MAIL, parse_mail
from daemon.core.rows import (
    UNSENT_STATES,
    ApprovalRow,
    OutboxRow,
    is_call,
    is_system_question,
    may_answer_question,
)
from daemon.core.trust import ASK_TOOL, OWNER, SECRET_TOOL, Answer, Label, Person, Role
from daemon.outbox.channel_supervisor import ChannelState
from daemon.store.journal import Store, Tx

REPLY, APPROVAL, FILE = "reply", "approval", "file"
GONE = "-"
"""In place of a draft's id: what was shown goes away by itself."""
FIRST_PAUSE, LABEL = 0.5, 60
WORDS = "Say /approve or /deny."
CODE = "Code: {code}"
OVER = "This question is settled."
ELSEWHERE = "Only my owner can allow this; I have asked there."
NOWHERE = (
    "Only my owner can allow this, and I do not know where to ask. They can say /approve here."
)
NEVER_HERE = "Never write it here: what you write now is not kept."
WHOSE = "It is for {who}, in {where}."


class AttachmentFile(BaseModel):
    """The copy of a file as it was when it was handed over, its name, and the text beside it."""

    path: Path
    name: str
    caption: str = ""

    @classmethod
    def load(cls, body: str, root: Path) -> "AttachmentFile":
        """From the body of a delivery. Raises Rejected where the copy is gone, or was never under
        `root`.
        """
        try:
            file = cls.model_validate_json(body)
        except ValidationError as error:
            raise Rejected("the delivery does not say which file") from error
        if not file.path.is_relative_to(root) or not file.path.is_file():
            raise Rejected(f"the copy of {file.name} is gone")
        return file


async def delete_stale_copies(store: Store, root: Path) -> None:
    """Delete copies that no delivery waits for, left by a daemon that crashed."""
    rows = await store.read(
        lambda tx: [r for state in UNSENT_STATES for r in tx.list_outbox(state)]
    )
    needed = set()
    for row in rows:
        with suppress(ValidationError):
            if row.kind == FILE:
                needed.add(AttachmentFile.model_validate_json(row.body).path)

    def delete() -> None:
        for copy in root.glob("*"):
            if copy not in needed:
                copy.unlink(missing_ok=True)

    await asyncio.to_thread(delete)


@dataclass
class Delivery:
    """What is to be sent where, and how far that is. `row` is as the journal has it now.

    `choices` stand under the last part; `reply_to` is the message that the first one answers.
    `copy` goes out beside it: the same question, where somebody is who may say yes. `draft` is the
    message that shows it as far as it had grown: "" for one whose id is not known, None for none;
    `draft_outdated`: it stands above what came after it. `since`: it was not sent before.

    `ids` are those of the messages that were sent, `unsure` says that the next one may have been
    sent, too; `lost` counts the answers to it that were lost. `written` is what the journal has.
    """

    row: OutboxRow
    address: Address
    since: datetime
    markdown: str = ""
    choices: tuple[Choice, ...] = ()
    reply_to: str = ""
    copy: OutboxRow | None = None
    draft: str | None = None
    draft_outdated: bool = False
    parts: Sequence[MessagePart] = ()
    file: AttachmentFile | None = None
    ids: list[str] = field(default_factory=list)
    unsure: bool = False
    written: tuple[str, int] = ("", -1)
    pause: float = FIRST_PAUSE
    lost: int = 0


def message_key(turn: str, *parts: object) -> str:
    """The name of one message, for ever the same: a platform that knows such names takes it
    once.
    """
    return sha256(".".join(map(str, (turn, *parts))).encode()).hexdigest()[:24]


def load_delivery(tx: Tx, row: OutboxRow, channels: Mapping[str, ChannelState]) -> Delivery:
    """The message as things stand now: a question that was answered meanwhile has no buttons any
    more.
    """
    row, begun = tx.get_delivery(row.turn, row.part) or row, tx.get_turn_input(row.turn)
    since = min(begun.received_at, row.created_at) if begun else row.created_at
    home = parse_address(row.channel, row.chat)
    delivery = Delivery(row, channels[row.channel].to_platform(home), since, row.body)
    if row.kind == APPROVAL:
        _load_question(tx, delivery, channels)
    elif row.kind == MAIL:
        head, delivery.markdown = parse_mail(row.body)
        delivery.reply_to = json.dumps(head, sort_keys=True, separators=(",", ":"))
    elif row.kind != REPLY:
        delivery.markdown = escape_markdown(row.body)
    elif (draft := tx.get_draft(row.turn)) not in (None, GONE):
        file_sent = (FILE, row.session, "sent")  # what is said after a file is to stand below it
        rows = tx.list_turn_outbox(row.turn)
        delivery.draft = draft
        delivery.draft_outdated = any((o.kind, o.session, o.state) == file_sent for o in rows)
    in_thread = is_mail_session(row.session) and row.kind != MAIL
    has_moved = begun and tx.has_moved_since(row.channel, home.chat, begun.received_at)
    if begun and (row.kind == REPLY or in_thread) and not has_moved:
        delivery.reply_to = begun.message_id
    return delivery


def _load_question(tx: Tx, delivery: Delivery, channels: Mapping[str, ChannelState]) -> None:
    """Who may not approve here is told who has been asked; a button is shown only where it may
    count.
    """
    row, delivery.markdown = delivery.row, OVER
    asked = tx.get_approval(row.turn, parse_call_id(row.body))
    if asked is None:
        return
    text = render_question(tx, row, asked)
    if asked.state != "pending":
        delivery.markdown = f"{text}\n\n{OVER}"
        return
    choices = _list_choices(tx, row, asked)
    if not (choices.keys() - {"d"} or (choices and asked.tool == ASK_TOOL)):
        chats = [one.session for one in tx.list_owner_chats() if one.session != row.session]
        found = [session for chat in chats if (session := tx.get_session(chat))]
        up = [one for one in found if one.channel in channels and channels[one.channel].up.is_set()]
        owner = next(iter(up + found), None)
        text = f"{text}\n\n{ELSEWHERE if owner else NOWHERE}"
        if owner and not row.attempts:  # what was tried before has been copied before
            delivery.copy = replace(
                row, part=-1, session=owner.id, channel=owner.channel, chat=owner.chat,
                platform_message_id="", state="new",
            )  # fmt: skip
    if asked.tool != ASK_TOOL:  # no yes answers that, so no code does
        text = f"{text}\n\n{CODE.format(code=make_short_code(asked.token_hash))}"
    delivery.markdown = text
    if channels[row.channel].channel.capabilities.buttons:
        delivery.choices = tuple(choices.values())
    elif asked.tool != ASK_TOOL:
        delivery.markdown = f"{text}\n\n{WORDS}"


def _list_choices(tx: Tx, row: OutboxRow, asked: ApprovalRow) -> dict[str, Choice]:
    """The buttons that may count when the person in this chat presses them, by the question's own
    token: their meaning does not depend on where they stand (A15).
    """
    asker, begun = tx.get_session(asked.session), tx.get_turn_input(row.turn)
    label = asker.label if asker else Label.UNTRUSTED
    chats = [chat.session for chat in tx.list_owner_chats()]
    person, is_owners = OWNER, label is Label.UNTRUSTED or row.session in chats
    if begun and (begun.session == row.session or not is_owners):
        person = Person(begun.sender, Role(begun.role) if begun.role in list(Role) else Role.GUEST)
    begun_by = begun.sender if begun and person is not OWNER else ""
    choices: dict[str, Choice] = {}
    for name, (answer, text, style) in _list_answers(asked).items():
        if may_answer_question(asked, answer, person, begun_by=begun_by, session_label=label) or (
            name == "d" and choices
        ):
            choices[name] = Choice(text, button_data(name, asked.token_hash), style)
    return choices


def _list_answers(asked: ApprovalRow) -> Mapping[str, tuple[Answer, str, str]]:
    """What can be said to it, by the name of the button: answer, label, style."""
    if is_system_question(asked):
        return {"o": (Answer.ONCE, "Yes", "good"), "d": (Answer.DENY, "No", "bad")}
    if is_call(asked) or not (system := parse_system_question(asked.tool, asked.arguments)):
        return BUTTONS
    if asked.tool == SECRET_TOOL:
        return {"o": (Answer.ONCE, "It is stored", "good"), "d": (Answer.DENY, "No", "bad")}
    options = enumerate(map(escape_invisible, system.options), 1)
    answers = {str(n): (Answer.CHOICE, shorten_line(one, LABEL), "") for n, one in options}
    return {**answers, "d": (Answer.DENY, "Skip", "")}


def _describe_options(asked: QuestionText, row: ApprovalRow) -> list[str]:
    lines = [f"{n}. {escape_markdown(one)}" for n, one in enumerate(asked.options, 1)]
    how = "Choose one, or write your answer." if lines else "Write your answer."
    if asked.default:
        until = f"{row.expires.astimezone():%H:%M %Z}"
        how = f"{how} Without one by {until} I go on with: {escape_markdown(asked.default)}"
    warning = [f"⚠️ {UNTRUSTED_INPUT}"] if row.label is Label.UNTRUSTED else []
    return ["\n".join(lines), how, *warning]


def parse_call_id(body: str) -> str:
    """Which call a question's delivery is about."""
    try:
        return str(json.loads(body)["call_id"])
    except (ValueError, LookupError, TypeError):
        return ""


def render_question(tx: Tx, row: OutboxRow, asked: ApprovalRow) -> str:
    """The question in markdown, and for whom it is, where that is another conversation than the one
    it is put in. A system question is a sentence, not a call.

    Names that people choose prove nothing: one never stands without the id.
    """
    is_outside = asked.label is Label.UNTRUSTED
    if not is_call(asked) and (system := parse_system_question(asked.tool, asked.arguments)):
        parts = [f"**{escape_markdown(system.title)}**", escape_markdown(system.text)]
        if asked.tool == ASK_TOOL:
            parts += _describe_options(system, asked)
        if asked.tool == SECRET_TOOL:
            parts += [how_to_store(*system.secret), NEVER_HERE]
        text = "\n\n".join(filter(None, parts))
    else:
        what = asked.tool, asked.arguments, asked.effect.value, asked.expires, asked.preview
        text = approval_prompt(*what, outside=is_outside)
    asker, begun = tx.get_session(asked.session), tx.get_turn_input(asked.turn)
    where = (asker.root if asker else "") or asked.session
    if where == row.session:
        return text
    sender = begun.sender if begun else ""
    name = tx.get_display_name(sender)
    who = f"{name} ({sender})" if name != sender else sender or "the assistant itself"
    return f"{text}\n\n{WHOSE.format(who=escape_markdown(who), where=escape_markdown(where))}"
