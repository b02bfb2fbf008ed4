"""Whatever Telegram sends, reading it never raises; and what servers simpler than the real one leave out is not missed."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.json_access import find_number
from channels.message import InboundMessage, UnreadableUpdate
from channels.telegram.updates import TelegramIdentity, parse_update

ME = TelegramIdentity(7001, "house_bot", "telegram")
CHAT = {"id": 42, "type": "private", "first_name": "Ann"}
ANN = {"id": 42, "is_bot": False, "first_name": "Ann"}
WHOLE: dict[str, Any] = {
    "update_id": 5,
    "message": {
        "message_id": 7,
        "date": 1_700_000_000,
        "edit_date": 1_700_000_001,
        "chat": CHAT,
        "from": ANN,
        "text": "hi @house_bot",
        "entities": [{"type": "text_mention", "offset": 0, "length": 2, "user": ANN}],
        "reply_to_message": {"message_id": 6, "from": ANN, "text": "before", "chat": CHAT},
        "quote": {"text": "bef", "position": 0},
        "photo": [{"file_id": "a", "file_size": 3}, {"file_id": "b", "file_size": 30}],
        "sticker": {"file_id": "c", "emoji": "🎉", "is_animated": True},
        "document": {"file_id": "d", "file_name": "x.pdf", "mime_type": "application/pdf"},
    },
    "callback_query": {
        "id": "9",
        "from": ANN,
        "data": "x",
        "message": {"message_id": 1, "chat": CHAT, "date": 0},
    },
    "message_reaction": {
        "chat": CHAT,
        "message_id": 7,
        "user": ANN,
        "old_reaction": [],
        "new_reaction": [{"emoji": "👍"}],
    },
}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(list(WHOLE["message"])), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(value: object, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a structure."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [at] + [place for key, part in inner for place in places(part, (*at, key))]


@given(
    st.sampled_from(["message", "edited_message", "callback_query", "message_reaction"]), st.data()
)
def test_one_wrong_thing_anywhere_never_raises(kind: str, data: st.DataObject):
    content = json.loads(json.dumps(WHOLE[kind.removeprefix("edited_")]))
    update = {"update_id": 5, kind: content}
    place = data.draw(st.sampled_from(places(update)[1:]))
    inner: Any = update
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = data.draw(anything)
    heard = parse_update(update, ME)
    if isinstance(heard, InboundMessage):
        heard.text.encode()
    if isinstance(heard, UnreadableUpdate):
        number = find_number(update, "update_id")
        assert heard.external_id == f"update/{number}" or not number


@given(anything)
def test_anything_at_all_never_raises(raw: object):
    parse_update(raw, ME)


def test_a_message_with_the_least_there_can_be_is_read():
    heard = parse_update(
        {
            "update_id": 1,
            "message": {"message_id": 3, "chat": {"id": 42}, "from": {"id": 42}, "text": "hi"},
        },
        ME,
    )
    assert isinstance(heard, InboundMessage)
    assert (heard.text, heard.private, heard.addressed, heard.sent_at) == ("hi", True, True, None)


def test_every_kind_of_file_has_a_name():
    kinds = {
        "voice": ("voice", ".ogg"),
        "audio": ("audio", ".mp3"),
        "video": ("video", ".mp4"),
        "video_note": ("video", ".mp4"),
        "animation": ("video", ".mp4"),
        "sticker": ("photo", ".webp"),
        "document": ("document", ".bin"),
    }
    for field, (kind, ending) in kinds.items():
        heard = parse_update(
            {
                "update_id": 1,
                "message": {"message_id": 3, "chat": CHAT, "from": ANN, field: {"file_id": "f"}},
            },
            ME,
        )
        assert isinstance(heard, InboundMessage), field
        (file,) = heard.attachments
        assert (file.kind, file.name, file.ref) == (kind, f"{kind}_3{ending}", "f")


def test_what_is_shared_without_words_is_told_in_words():
    shared: dict[str, dict[str, Any]] = {
        "[location: 52.5, 13.4]": {"location": {"latitude": 52.5, "longitude": 13.4}},
        "[place: Zoo, Budapester Str. 52.5, 13.4]": {
            "venue": {"title": "Zoo", "address": "Budapester Str."},
            "location": {"latitude": 52.5, "longitude": 13.4},
        },
        "[contact: Bob, +49 1]": {"contact": {"phone_number": "+49 1", "first_name": "Bob"}},
        "[poll: Tea?]": {"poll": {"question": "Tea?"}},
        "🎲 6": {"dice": {"emoji": "🎲", "value": 6}},
        "🎉": {"sticker": {"file_id": "f", "emoji": "🎉"}},
    }
    for text, fields in shared.items():
        heard = parse_update(
            {"update_id": 1, "message": {"message_id": 3, "chat": CHAT, "from": ANN} | fields}, ME
        )
        assert isinstance(heard, InboundMessage)
        assert heard.text == text
        assert heard.forwarded is bool({"contact", "venue", "poll"} & set(fields)), (
            "cards, places and polls hold others' words"
        )


def test_a_place_that_moves_is_not_said_anew():
    shared = {
        "message_id": 7,
        "date": 1_700_000_000,
        "chat": CHAT,
        "from": ANN,
        "location": {"latitude": 1.5, "longitude": 2.5},
    }
    moved = shared | {"edit_date": 1_700_000_060, "location": {"latitude": 1.6, "longitude": 2.5}}
    said = parse_update({"update_id": 5, "message": shared}, ME)
    assert isinstance(said, InboundMessage)
    assert said.text == "[location: 1.5, 2.5]"
    assert parse_update({"update_id": 6, "edited_message": moved}, ME) is None
