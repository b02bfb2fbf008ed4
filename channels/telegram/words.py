"""What a message says, in words, also where it is none."""

from channels.telegram.wire import Message


def words(message: Message) -> str:
    """Its text, or its caption, or what stands for it; "" for what is not said by anybody, such as a new title."""
    return message.text or message.caption or _shared(message)


def of_others(message: Message) -> bool:
    """What stands for it was written by others: a card, a place, a poll that the sender only passes on."""
    return not (message.text or message.caption) and bool(message.contact or message.venue or message.poll)


def _shared(message: Message) -> str:
    if message.sticker:
        return message.sticker.emoji or ""
    if message.venue:
        return f"[place: {message.venue.title}, {message.venue.address}{_where(message)}]"
    if message.location:
        return f"[location: {_where(message).strip()}]"
    if message.contact:
        name = f"{message.contact.first_name} {message.contact.last_name or ''}".strip()
        return f"[contact: {name}, {message.contact.phone_number}]"
    if message.poll:
        return f"[poll: {message.poll.question}]"
    return f"{message.dice.emoji} {message.dice.value}" if message.dice else ""


def _where(message: Message) -> str:
    return f" {message.location.latitude}, {message.location.longitude}" if message.location else ""
