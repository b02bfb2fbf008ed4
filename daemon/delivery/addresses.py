"""A conversation's address as the journal keeps it: a channel's name and a chat, in which the thread stands, too."""

from channels.message import Address
from daemon.core.places import ACCOUNT, session_name

THREAD = ":"


def name_of(kind: str, account: str = "") -> str:
    """What a channel is called in this house: "slack", or "work/slack" for the further account "work"."""
    return f"{account}{ACCOUNT}{kind}" if account else kind


def chat_of(address: Address) -> str:
    """As sessions and deliveries keep it: CHAT, or CHAT:THREAD."""
    return f"{address.chat}{THREAD}{address.thread}" if address.thread else address.chat


def address_of(channel: str, chat: str) -> Address:
    """Back from there."""
    where, _, thread = chat.partition(THREAD)
    return Address(channel, where, thread)


def session_of(address: Address) -> str:
    """The session of this conversation (A13)."""
    return session_name(address.channel, chat_of(address))
