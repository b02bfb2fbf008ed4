"""What Telegram sends, as far as the house reads it. Fields it does not know are passed over."""

from pydantic import BaseModel, ConfigDict, Field


class Wire(BaseModel):
    """Something that came from Telegram."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class User(Wire):
    """An account; bots are users too."""

    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str | None = None
    username: str | None = None


class Chat(Wire):
    """type: private, group, supergroup, channel."""

    id: int
    type: str = "private"


class Entity(Wire):
    """A part of a text that means something."""

    type: str
    user: User | None = None


class File(Wire):
    """A document, a picture, a voice message, a sticker ..."""

    file_id: str
    file_name: str | None = None
    mime_type: str | None = None
    file_size: int | None = None
    emoji: str | None = None
    is_animated: bool | None = None
    is_video: bool | None = None


class Location(Wire):
    """Where somebody is."""

    latitude: float
    longitude: float


class Venue(Wire):
    """A place that has a name."""

    title: str = ""
    address: str = ""


class Contact(Wire):
    """Somebody's card."""

    phone_number: str = ""
    first_name: str = ""
    last_name: str | None = None


class Poll(Wire):
    """A question with answers to choose from."""

    question: str = ""


class Dice(Wire):
    """A throw."""

    emoji: str = ""
    value: int = 0


class Quote(Wire):
    """The part of a message that is answered to."""

    text: str = ""


class Answered(Wire):
    """The message that is answered to. `forum_topic_created`: it only opens the topic."""

    message_id: int = 0
    sender: User | None = Field(None, alias="from")
    text: str | None = None
    caption: str | None = None
    forum_topic_created: object | None = None
    sender_chat: object | None = None
    forward_origin: object | None = None
    forward_date: object | None = None
    via_bot: object | None = None


class Message(Wire):
    """A message."""

    message_id: int
    chat: Chat
    date: int = 0
    edit_date: int | None = None
    sender: User | None = Field(None, alias="from")
    sender_chat: object | None = None
    message_thread_id: int | None = None
    is_topic_message: bool | None = None
    forward_origin: object | None = None
    forward_date: object | None = None
    via_bot: object | None = None
    reply_to_message: Answered | None = None
    quote: Quote | None = None
    text: str | None = None
    caption: str | None = None
    entities: tuple[Entity, ...] | None = None
    caption_entities: tuple[Entity, ...] | None = None
    document: File | None = None
    photo: tuple[File, ...] | None = None
    voice: File | None = None
    audio: File | None = None
    video: File | None = None
    video_note: File | None = None
    animation: File | None = None
    sticker: File | None = None
    location: Location | None = None
    venue: Venue | None = None
    contact: Contact | None = None
    poll: Poll | None = None
    dice: Dice | None = None


class Place(Wire):
    """The message under which a button was pressed; of old ones only this is left."""

    message_id: int
    chat: Chat
    message_thread_id: int | None = None
    is_topic_message: bool | None = None


class Query(Wire):
    """A button was pressed."""

    id: str
    sender: User = Field(alias="from")
    message: Place | None = None
    data: str | None = None


class Emoji(Wire):
    """One reaction; one's own pictures have no `emoji`."""

    emoji: str | None = None


class Reacted(Wire):
    """Somebody's reactions to a message, before and after."""

    chat: Chat
    message_id: int
    user: User | None = None
    old_reaction: tuple[Emoji, ...] = ()
    new_reaction: tuple[Emoji, ...] = ()


class Update(Wire):
    """One thing that happened."""

    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    callback_query: Query | None = None
    message_reaction: Reacted | None = None
