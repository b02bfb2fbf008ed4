"""A conversation's address and its session's name (DESIGN 2): the one from the other."""

from channels.message import Address

ACCOUNT, THREAD = "/", ":"
BARE = "telegram"


def name_of(kind: str, account: str = "") -> str:
    """What a channel is called in this house: "slack", or "work/slack" for the further account "work"."""
    return f"{account}{ACCOUNT}{kind}" if account else kind


def parted(name: str) -> tuple[str, str]:
    """(account, kind) of a channel's name."""
    account, _, kind = name.rpartition(ACCOUNT)
    return account, kind


def chat_of(address: Address) -> str:
    """As sessions and deliveries keep it: CHAT, or CHAT:THREAD."""
    return f"{address.chat}{THREAD}{address.thread}" if address.thread else address.chat


def address_of(channel: str, chat: str) -> Address:
    """Back from there."""
    where, _, thread = chat.partition(THREAD)
    return Address(channel, where, thread)


def session_of(address: Address) -> str:
    """`{chat}` or `{chat}:{topic}` for Telegram, `slack:{chat}[:{thread}]`, `discord:{chat}`, behind a further account (A13)."""
    account, kind = parted(address.channel)
    own = chat_of(address) if kind == BARE else f"{kind}:{chat_of(address)}"
    return f"{account}{ACCOUNT}{own}" if account else own
