"""What a person sees in a message of Telegram, the model sees: buttons of programs, votes, cards of people, music (A14)."""

from typing import Any

import pytest

from channels.message import InboundMessage
from channels.telegram.updates import TelegramIdentity, parse_update

ME = TelegramIdentity(1, "helper", "telegram")
ANN = {"id": 7, "is_bot": False, "first_name": "Ann"}
SHOP = {"type": "user", "sender_user": {"id": 9, "is_bot": True, "first_name": "Shop"}, "date": 1}
KEYBOARD = {
    "inline_keyboard": [
        [{"text": "Track", "url": "https://shop.example/t/7"}, {"text": "Cancel", "callback_data": "c"}],
        [{"text": "Help", "url": "https://shop.example/help"}],
    ]
}
BUTTONS = (
    "[card]\n[Track](https://shop.example/t/7)\n[Cancel]\n[Help](https://shop.example/help)\n"
    "[end of the card]"
)


def heard(**fields: Any) -> InboundMessage:
    """The message that the host gets."""
    message = {"message_id": 5, "date": 1_800_000_000, "chat": {"id": 7, "type": "private"}}
    found = parse_update({"update_id": 1, "message": message | {"from": ANN} | fields}, ME)
    assert isinstance(found, InboundMessage)
    return found


def test_the_buttons_under_a_message_that_is_passed_on_are_seen_with_where_they_lead():
    found = heard(text="It is on its way", forward_origin=SHOP, reply_markup=KEYBOARD)
    assert found.text == f"It is on its way\n\n{BUTTONS}"
    assert found.data == (BUTTONS,)
    assert found.forwarded


def test_the_buttons_under_a_message_that_is_answered_are_seen():
    shop = {"id": 9, "is_bot": True, "first_name": "Shop"}
    answered = {"message_id": 4, "from": shop, "text": "On its way", "reply_markup": KEYBOARD}
    found = heard(text="which one?", reply_to_message=answered)
    assert found.references[0].text == f"On its way\n\n{BUTTONS}"


@pytest.mark.parametrize("odd", [{}, {"inline_keyboard": 3}, {"inline_keyboard": [1, [2], [{}]]}])
def test_buttons_of_no_known_form_cost_nothing(odd: object):
    assert heard(text="hello", reply_markup=odd).text == "hello"


def test_the_votes_of_a_poll_are_seen():
    options = [{"text": "Tea", "voter_count": 3}, {"text": "Coffee", "voter_count": 0}]
    found = heard(poll={"question": "Which?", "options": options}, forward_origin=SHOP)
    assert found.text == "[poll: Which?]\n- Tea (3)\n- Coffee"


def test_all_of_a_contact_is_seen():
    card = "BEGIN:VCARD\nFN:Bob\nEMAIL:bob@example.org\nEND:VCARD"
    found = heard(contact={"first_name": "Bob", "phone_number": "+49 1", "vcard": card})
    assert found.text == f"[contact: Bob, +49 1]\n{card}"


def test_music_is_named():
    audio = {"file_id": "f", "duration": 9, "performer": "Nina", "title": "Feeling Good"}
    found = heard(audio=audio, caption="who wrote this?")
    assert found.text == "who wrote this?\n\n[audio: Nina - Feeling Good]"
    assert found.data == ("[audio: Nina - Feeling Good]",)


def test_what_cannot_be_shown_is_named_beside_a_caption_too():
    found = heard(paid_media={"star_count": 5, "paid_media": []}, caption="look")
    assert found.text == "look\n\n[something that cannot be shown here: paid media]"


@pytest.mark.parametrize(
    ("kind", "held", "shown"),
    [
        ("giveaway_winners", {"winner_count": 2, "prize_description": "a TV"}, "giveaway winners a TV"),
        ("gift", {"gift": {"id": "1"}, "text": "Happy birthday!"}, "gift Happy birthday!"),
        ("hologram", {"file_id": "f"}, "hologram"),
    ],
)
def test_what_has_no_words_is_named_even_of_a_kind_that_nobody_knows(kind: str, held: object, shown: str):
    note = f"[something that cannot be shown here: {shown}]"
    assert heard(**{kind: held}).text == note
    answered = {"message_id": 4, "from": ANN, kind: held}
    assert heard(text="and this?", reply_to_message=answered).references[0].text == note


@pytest.mark.parametrize("kind", ["new_chat_participant", "pinned_message", "video_chat_started"])
def test_what_telegram_itself_says_is_no_message(kind: str):
    message = {"message_id": 5, "date": 1, "chat": {"id": 7, "type": "private"}, "from": ANN, kind: {"id": 1}}
    assert parse_update({"update_id": 1, "message": message}, ME) is None


def test_a_live_photo_is_a_file():
    found = heard(live_photo={"file_id": "f", "duration": 3, "mime_type": "video/mp4"})
    assert [(one.kind, one.ref) for one in found.attachments] == [("video", "f")]


NEWS = {"type": "channel", "chat": {"id": -1, "title": "News"}, "message_id": 4, "date": 1}
UNSEEN = "[something that cannot be shown here: {}]"


@pytest.mark.parametrize(
    ("points", "shown"),
    [
        ({"reply_to_story": {"chat": {"id": 7}, "id": 3}}, (UNSEEN.format("a story"), "")),
        ({"external_reply": {"origin": NEWS}}, (UNSEEN.format("a message without words"), "News")),
        (
            {"external_reply": {"origin": NEWS, "link_preview_options": {"url": "https://a.example"}}},
            ("https://a.example", "News"),
        ),
        (
            {"reply_to_message": {"chat": {"id": 7}, "message_id": 3, "date": 0}},
            (UNSEEN.format("a message without words"), ""),
        ),
    ],
)
def test_an_answer_to_what_telegram_does_not_show_says_so(points: dict[str, object], shown: object):
    (found,) = heard(text="is this true?", **points).references
    assert (found.text, found.author) == shown


def test_an_answer_to_a_line_of_a_list_or_a_poll_names_the_line():
    tasks = [{"id": 1, "text": "milk"}, {"id": 2, "text": "bread"}]
    one = {"message_id": 3, "from": ANN, "checklist": {"title": "Shop", "tasks": tasks}}
    (task,) = heard(text="which one?", reply_to_message=one, reply_to_checklist_task_id=2).references
    options = [{"persistent_id": "a", "text": "Tea"}, {"persistent_id": "b", "text": "Juice"}]
    two = {"message_id": 3, "from": ANN, "poll": {"question": "Drink?", "options": options}}
    (option,) = heard(text="why this?", reply_to_message=two, reply_to_poll_option_id="b").references
    assert (task.kind, task.text) == ("part", "Shop: bread")
    assert (option.kind, option.text) == ("part", "Drink?: Juice")


def test_words_that_are_struck_out_are_marked():
    struck = {"type": "strikethrough", "offset": 5, "length": 7}
    found = heard(text="take the red the blue", entities=[struck])
    assert (found.text, found.data) == ("take ~~the red~~ the blue", ())
    quoted = {"type": "blockquote", "offset": 0, "length": 21}
    assert heard(text="take the red the blue", entities=[struck, quoted]).data == (found.text,)


@pytest.mark.parametrize(
    ("struck", "link", "shown"),
    [
        ((0, 8), (4, 4), "~~the [shop](https://a.example)~~ is shut"),
        ((4, 4), (0, 8), "[the ~~shop~~](https://a.example) is shut"),
        ((0, 8), (0, 8), "~~[the shop](https://a.example)~~ is shut"),
        ((0, 4), (4, 4), "~~the ~~[shop](https://a.example) is shut"),
    ],
)
def test_words_that_are_struck_out_keep_the_addresses_under_them(struck: Any, link: Any, shown: str):
    entities = [
        {"type": "strikethrough", "offset": struck[0], "length": struck[1]},
        {"type": "text_link", "offset": link[0], "length": link[1], "url": "https://a.example"},
    ]
    found = heard(text="the shop is shut", entities=entities)
    assert (found.text, found.data) == (shown, ("https://a.example",))


def test_a_mention_without_words_is_heard_with_what_it_answers():
    group, bob = {"id": -7, "type": "supergroup"}, {"id": 8, "is_bot": False, "first_name": "Bob"}
    answered = {"message_id": 4, "from": bob, "text": "Is it open on Sunday?"}
    found = heard(chat=group, text="@helper", reply_to_message=answered)
    assert (found.text, found.addressed) == ("[a mention without words]", True)
    assert [(one.text, one.author) for one in found.references] == [(answered["text"], "Bob")]
