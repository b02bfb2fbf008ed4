"""A message on its way out: its address, its buttons, the keys under which it is sent. Pure."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from channels.message import Address, Choice
from daemon.access.chat_ids import BUTTONS
from daemon.core import value
from daemon.core.rows import ApprovalRow, OutboxRow, is_system_question, may_answer_question
from daemon.core.trust import Label, Person, Role

REPLY, APPROVAL, FILE, DRAFT = "reply", "approval", "file", "draft"
GONE = "-"
"""In place of a draft's id: what was shown goes away by itself."""


@value
class Delivery:
    """What is to be sent where. `choices` stand under the last piece; `reply_to` is the message
    that the first one answers.

    `row` is as the journal has it now. `copy` goes out beside it: the same question, where somebody
    is who may say yes. `draft` is the message that shows it as far as it had grown: "" for one
    whose id is not known, None for none; `overtaken`: it stands above what came after it.
    """

    row: OutboxRow
    address: Address
    markdown: str
    since: datetime
    choices: tuple[Choice, ...] = ()
    reply_to: str = ""
    copy: OutboxRow | None = None
    draft: str | None = None
    draft_outdated: bool = False


def message_key(turn: str, part: int, index: int) -> str:
    """The name of one message, for ever the same: a platform that knows such names takes it
    once.
    """
    return sha256(f"{turn}.{part}.{index}".encode()).hexdigest()[:24]


def draft_key(turn: str) -> str:
    """The name of the message in which a turn shows what it is at."""
    return sha256(f"{turn}.draft".encode()).hexdigest()[:24]


def list_buttons(
    asked: ApprovalRow, person: Person, begun_by: str, session_label: Label
) -> list[str]:
    """Which buttons may count when this person presses them."""
    names = [
        name
        for name in (("o", "d") if is_system_question(asked) else BUTTONS)
        if may_answer_question(
            asked, BUTTONS[name][0], person, begun_by=begun_by, session_label=session_label
        )
    ]
    return names if "d" in names or not names else [*names, "d"]


def build_choices(asked: ApprovalRow, names: Sequence[str]) -> tuple[Choice, ...]:
    """Buttons by the question's own token: their meaning does not depend on where they stand
    (A15).
    """
    labels = {"o": "Yes", "d": "No"} if is_system_question(asked) else {}
    token, choices = asked.token_hash[:32], []
    for name in names:
        _, label, style = BUTTONS[name]
        choices.append(Choice(labels.get(name, label), f"ask:{name}:{token}", style))
    return tuple(choices)


def role_or_guest(role: str) -> Role:
    """The role that the journal has; what this version does not know is nobody."""
    try:
        return Role(role)
    except ValueError:
        return Role.GUEST
