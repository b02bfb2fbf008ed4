"""What both directions of a channel share: ids of accounts, chats and sessions, and the data in
approval buttons.
"""

import re

from channels.message import Address
from daemon.core.events import Answer
from daemon.core.ids import ACCOUNT_SEPARATOR, build_session_id

NOTICE = "notice-"
"""Prefix of the names of notices that belong to no turn."""
PRESSED = re.compile(r"ask:([osad1-4]):([0-9a-f]{32})")
BUTTONS = {
    "o": (Answer.ONCE, "Once", "good"),
    "s": (Answer.SESSION, "This session", "good"),
    "a": (Answer.ALWAYS, "Always", "good"),
    "d": (Answer.DENY, "Deny", "bad"),
}


def account_name(kind: str, account: str = "") -> str:
    """The channel's name: "slack", or "work/slack" for the further account "work"."""
    return f"{account}{ACCOUNT_SEPARATOR}{kind}" if account else kind


def chat_id(address: Address) -> str:
    """As sessions and deliveries keep it: CHAT, or CHAT:THREAD."""
    return f"{address.chat}:{address.thread}" if address.thread else address.chat


def parse_address(channel: str, chat: str) -> Address:
    """The inverse of `chat_id`."""
    where, _, thread = chat.partition(":")
    return Address(channel, where, thread)


def session_id(address: Address) -> str:
    """The session of this conversation (A13)."""
    return build_session_id(address.channel, chat_id(address))


def button_data(name: str | int, token_hash: str) -> str:
    """Of an answer by its letter, or an option of `ask_user` by its number, to this question."""
    return f"ask:{name}:{token_hash[:32]}"


def parse_button(data: str) -> tuple[Answer, str, int] | None:
    """(answer, token, number of the option or 0) of a button's data; None for what no button of
    ours says.
    """
    found = PRESSED.fullmatch(data)
    if not found:
        return None
    name, token = found.groups()
    return (Answer.CHOICE, token, int(name)) if name.isdigit() else (BUTTONS[name][0], token, 0)
