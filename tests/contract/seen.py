"""What people can put into a message, as each platform sends it: what the tests of the neutral form are tried with.

A further platform is one more entry in `SAID`, with a function for each row of `SIGHTS`, or the reason why it has no such thing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fakes.discord import FakeDiscord
from tests.fakes.discord.world import Json
from tests.fakes.slack import FakeSlack
from tests.fakes.telegram import FakeTelegram

URL, WORDS, ASKED = "https://a.example/x", "The payroll is late", "what does this mean?"


@dataclass(frozen=True, slots=True)
class Sight:
    """What the daemon is told of a message. `seen`: words in it, or in what it points at by `kind`; `others`: they are not the
    sender's; `author`: whom it names; `files`: (kind, name, size).
    """

    seen: tuple[str, ...]
    kind: str = ""
    by: str = "other"
    author: str = ""
    others: bool = False
    forwarded: bool = False
    files: tuple[tuple[str, str, int], ...] = ()


SIGHTS = {
    "a link under a word": Sight((f"[the page]({URL})",)),
    "a preview": Sight(("Rain", "It rains", URL), others=True),
    "a quotation": Sight(("> he said no",)),
    "a poll": Sight(("Lunch?", "Pizza", "Soup")),
    "a file": Sight(("look",), files=(("document", "a.txt", 5),)),
    "something unknown": Sight(("[something that cannot be shown here",)),
    "an answer to another": Sight(("CPU 97%", "db1"), "reply", author="Alerts"),
    "an answer to the assistant": Sight(("I wrote this",), "reply", "assistant"),
    "a marked part": Sight((WORDS,), "part", author="Alerts"),
    "the root of a thread": Sight(("CPU 97%", "db1"), "root", author="Alerts"),
    "a forward": Sight((WORDS,), author="Zoe", forwarded=True),
    "a forward with a comment": Sight((WORDS,), "passed", author="Zoe"),
}
Say = Callable[[Any], object] | str
"""Ann says it, to whom the bot has said "I wrote this" before; or why nobody can say it there."""


def _rich(*elements: Json, kind: str = "rich_text_section") -> Json:
    return {"type": "rich_text", "elements": [{"type": kind, "elements": list(elements)}]}


def _word(text: str) -> Json:
    return {"type": "text", "text": text}


def _slack(text: str = "", **more: Any) -> Say:
    return lambda fake: fake.post("ann", fake.private("ann"), text, **more)


def _slack_forward(comment: str = "") -> Say:
    inner = {"channel": "C9", "ts": "17.000001", "message": {"blocks": [_rich(_word(WORDS))]}}
    row = {
        "is_msg_unfurl": True,
        "is_share": True,
        "author_id": "U9",
        "author_name": "Zoe",
        "text": "",
        "fallback": "[no preview available]",
        "message_blocks": [inner],
    }
    return _slack(comment, attachments=[row])


def _slack_root(fake: FakeSlack) -> None:
    chat = fake.group("ann")
    row = {"title": "CPU 97%", "fields": [{"title": "host", "value": "db1"}], "fallback": "alert"}
    fake.say("ann", chat, fake.mention(ASKED), thread=fake.alert(chat, attachments=[row]))


POLL_BLOCK = {
    "type": "section",
    "text": {"type": "mrkdwn", "text": "*Lunch?*"},
    "fields": [{"type": "plain_text", "text": "Pizza"}, {"type": "plain_text", "text": "Soup"}],
}
EMBED = {"title": "CPU 97%", "fields": [{"name": "host", "value": "db1", "inline": True}]}
ORIGIN = {"type": 1, "message_id": "11", "channel_id": "12"}


def _discord(text: str = "", **more: Any) -> Say:
    return lambda fake: fake.say("ann", fake.private("ann"), text, **more)


def _alert(fake: FakeDiscord, chat: str) -> str:
    fake.world.person("Alerts")["bot"] = True
    return fake.say("Alerts", chat, "", embeds=[EMBED])


def _discord_reply(fake: FakeDiscord) -> None:
    chat = fake.group("ann")
    fake.say("ann", chat, fake.mention(ASKED), reply_to=_alert(fake, chat))


def _discord_answer(fake: FakeDiscord) -> None:
    chat = fake.private("ann")
    fake.say("ann", chat, ASKED, reply_to=fake.shown(chat)[-1].id)


def _discord_root(fake: FakeDiscord) -> None:
    chat = fake.group("ann")
    fake.say("ann", fake.thread(_alert(fake, chat), chat, by="ann"), fake.mention(ASKED))


def _discord_forward(comment: str = "") -> Say:
    snapshots = [{"message": {"content": "", "embeds": [{"description": WORDS}]}}]
    return _discord(comment, message_reference=ORIGIN, message_snapshots=snapshots)


LINK = {"type": "text_link", "offset": 4, "length": 8, "url": URL}
PHOTO_CARD = "a preview is shown by the app and not sent to the bot"
UNKNOWN: Json = {"story": {"id": 3, "chat": {"id": 5, "type": "private"}}}
CHANNEL = {"type": "channel", "chat": {"id": -5, "type": "channel", "title": "Zoe"}}
ALERT = "CPU 97% on db1"


def _telegram(text: str | None = "", **more: Any) -> Say:
    return lambda fake: fake.people.say("ann", fake.private("ann"), text or "", more=more)


def _telegram_reply(fake: FakeTelegram, **more: Any) -> None:
    chat = fake.private("ann")
    theirs = {"id": 99, "is_bot": True, "first_name": "Alerts"}
    where = {"id": int(chat), "type": "private"}
    alert = {"message_id": 7, "date": 1, "chat": where, "from": theirs, "text": ALERT}
    fake.people.say("ann", chat, ASKED, more={"reply_to_message": alert, **more})


def _telegram_answer(fake: FakeTelegram) -> None:
    ours = fake.shown(fake.private("ann"))[-1].id
    fake.people.reply("ann", ours, ASKED)


SAID: dict[str, dict[str, Say]] = {
    "telegram": {
        "a link under a word": _telegram("see the page", entities=[LINK]),
        "a preview": PHOTO_CARD,
        "a quotation": _telegram("> he said no"),
        "a poll": _telegram(
            text=None,
            poll={
                "id": "1",
                "question": "Lunch?",
                "options": [{"text": "Pizza"}, {"text": "Soup"}],
            },
        ),
        "a file": lambda fake: fake.say(
            "ann", fake.private("ann"), "look", files=[("a.txt", b"words")]
        ),
        "something unknown": _telegram(**UNKNOWN),
        "an answer to another": _telegram_reply,
        "an answer to the assistant": _telegram_answer,
        "a marked part": lambda fake: _telegram_reply(fake, quote={"text": WORDS, "position": 0}),
        "the root of a thread": "a topic has a name and no first message",
        "a forward": _telegram(WORDS, forward_origin=CHANNEL),
        "a forward with a comment": "the comment is a message of its own",
    },
    "slack": {
        "a link under a word": _slack(f"see <{URL}|the page>"),
        "a preview": _slack(
            f"<{URL}>", attachments=[{"from_url": URL, "title": "Rain", "text": "It rains"}]
        ),
        "a quotation": _slack(blocks=[_rich(_word("he said no"), kind="rich_text_quote")]),
        "a poll": _slack(blocks=[POLL_BLOCK]),
        "a file": lambda fake: fake.say(
            "ann", fake.private("ann"), "look", files=[("a.txt", b"words")]
        ),
        "something unknown": _slack(blocks=[{"type": "hologram"}]),
        "an answer to another": "what is answered is the root of a thread",
        "an answer to the assistant": "what is answered is the root of a thread",
        "a marked part": "nobody can mark a part; it is quoted in the text",
        "the root of a thread": _slack_root,
        "a forward": _slack_forward(),
        "a forward with a comment": _slack_forward(ASKED),
    },
    "discord": {
        "a link under a word": _discord(f"see [the page]({URL})"),
        "a preview": _discord(
            URL,
            embeds=[{"type": "article", "url": URL, "title": "Rain", "description": "It rains"}],
        ),
        "a quotation": _discord("> he said no"),
        "a poll": _discord(
            poll={
                "question": {"text": "Lunch?"},
                "answers": [
                    {"answer_id": 1, "poll_media": {"text": "Pizza"}},
                    {"answer_id": 2, "poll_media": {"text": "Soup"}},
                ],
            }
        ),
        "a file": _discord("look", files=[("a.txt", b"words")]),
        "something unknown": _discord(components=[{"type": 99}]),
        "an answer to another": _discord_reply,
        "an answer to the assistant": _discord_answer,
        "a marked part": "nobody can mark a part; it is quoted in the text",
        "the root of a thread": _discord_root,
        "a forward": _discord_forward(),
        "a forward with a comment": _discord_forward(ASKED),
    },
}
SHARED = {("telegram", "a poll")}
"""It counts as passed on: the platform does not say who made it."""
NAMELESS = {("discord", "a forward"), ("discord", "a forward with a comment")}
"""The platform does not say who wrote it."""
