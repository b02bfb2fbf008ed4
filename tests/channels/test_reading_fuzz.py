"""Recorded messages with members removed, doubled and of a wrong type, through the real sockets: nothing stops the channel, and
what a person says to the bot never vanishes: it is a message, or set aside as unreadable (F1). Some hundred mutations with a
fixed seed; 10,000 with AIDAEMON_TEST_FULL=1.
"""

import copy
import random
from typing import Any

import pytest

from channels.message import InboundMessage
from channels.telegram.channel import Telegram, TelegramTiming
from channels.telegram.config import TelegramAccount
from tests.channels.discord_host import talking
from tests.channels.host import Ledger, running
from tests.channels.slack_stage import fake, stage
from tests.contract.seen import EMBED, ORIGIN, POLL_BLOCK
from tests.fakes.discord.world import Json
from tests.fakes.telegram import FakeTelegram
from tests.full_form import FULL

COUNT = 10_000 if FULL else 300
ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, 10**30, "", "x", "nan", "<@U0BOT>", [], {}, [None])
ODD += ([[]], [{}], {"type": "text"}, {"id": []}, [{"type": {}}], "\ud800")
Path = tuple[Any, ...]
SOON = TelegramTiming(first_s=0.02, longest_s=0.1, poll_s=5, album_s=0.02)
SLACK: Json = {
    "type": "message",
    "text": "see <https://a.example/x|the page> & <@U0BOT>",
    "client_msg_id": "c1",
    "team": "T0",
    "thread_ts": "17.000001",
    "user_profile": {"display_name": "Ann", "real_name": "Ann A."},
    "blocks": [
        {
            "type": "rich_text",
            "elements": [
                {
                    "type": "rich_text_section",
                    "elements": [
                        {"type": "text", "text": "see ", "style": {"code": True}},
                        {"type": "link", "url": "https://a.example/x", "text": "the page"},
                        {"type": "user", "user_id": "U0BOT"},
                        {"type": "date", "timestamp": 1, "format": "{date}", "fallback": "then"},
                    ],
                },
                {
                    "type": "rich_text_list",
                    "style": "ordered",
                    "indent": 1,
                    "offset": 1,
                    "elements": [
                        {"type": "rich_text_section", "elements": [{"type": "emoji", "name": "x"}]}
                    ],
                },
                {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "```"}]},
            ],
        },
        POLL_BLOCK,
        {"type": "table", "rows": [[{"type": "raw_text", "text": "a"}, {"type": "raw_number"}]]},
        {"type": "actions", "elements": [{"type": "button", "text": {"text": "Mute"}}]},
    ],
    "attachments": [
        {
            "title": "CPU",
            "title_link": "https://a.example",
            "fields": [{"title": "host", "value": "db1"}],
            "actions": [{"type": "button", "text": "Mute"}],
            "files": [{"id": "F2", "name": "b.txt"}],
            "blocks": [{"type": "header", "text": {"type": "plain_text", "text": "Down"}}],
        },
        {
            "is_share": True,
            "author_id": "U9",
            "author_name": "Zoe",
            "message_blocks": [{"message": {"blocks": [POLL_BLOCK]}}],
        },
    ],
    "files": [
        {
            "id": "F1",
            "name": "a.txt",
            "mimetype": "text/plain",
            "size": 5,
            "url_private": "http://a",
        }
    ],
}
DISCORD: Json = {
    "type": 19,
    "content": "see [the page](https://a.example/x) <@7>",
    "timestamp": "2026-11-25T09:00:00+00:00",
    "edited_timestamp": None,
    "flags": 0,
    "mentions": [{"id": "7", "username": "bob", "global_name": "Bob"}],
    "mention_roles": ["8"],
    "embeds": [{**EMBED, "author": {"name": "W"}, "image": {"url": "http://a"}}],
    "attachments": [{"id": "1", "filename": "a.txt", "size": 5, "url": "http://a", "flags": 0}],
    "sticker_items": [{"id": "1", "name": "Wave"}],
    "components": [
        {"type": 17, "components": [{"type": 10, "content": "x"}, {"type": 12, "items": [{}]}]}
    ],
    "poll": {
        "question": {"text": "Lunch?"},
        "answers": [{"answer_id": 1, "poll_media": {"text": "Pizza", "emoji": {"name": "🍕"}}}],
        "results": {"answer_counts": [{"id": 1, "count": 2}]},
    },
    "message_reference": {"type": 0, "message_id": "11", "channel_id": "12"},
    "referenced_message": {
        "id": "11",
        "author": {"id": "9", "username": "watcher", "bot": True},
        "content": "",
        "embeds": [EMBED],
        "message_reference": ORIGIN,
        "message_snapshots": [{"message": {"content": "x", "embeds": [EMBED]}}],
    },
    "message_snapshots": [{"message": {"content": "", "embeds": [EMBED]}}],
}
USER = {"id": 9, "is_bot": True, "first_name": "Alerts"}
TELEGRAM: Json = {
    "date": 1_700_000_000,
    "text": "see the page, a quotation and code",
    "entities": [
        {"type": "text_link", "offset": 4, "length": 8, "url": "https://a.example/x"},
        {"type": "blockquote", "offset": 14, "length": 11},
        {"type": "text_mention", "offset": 0, "length": 3, "user": USER},
    ],
    "forward_origin": {"type": "channel", "chat": {"id": -5, "type": "channel", "title": "News"}},
    "reply_to_message": {
        "message_id": 4,
        "date": 1,
        "chat": {"id": 5, "type": "private"},
        "from": USER,
        "document": {"file_id": "f", "file_name": "a.pdf", "file_size": 9},
        "poll": {"id": "1", "question": "Lunch?", "options": [{"text": "Pizza"}]},
    },
    "quote": {"text": "a part", "position": 0},
    "external_reply": {"origin": {"type": "user", "sender_user": USER}, "message_id": 3},
    "poll": {"id": "1", "question": "Lunch?", "options": [{"text": "Pizza"}]},
    "checklist": {"title": "List", "tasks": [{"id": 1, "text": "milk", "completion_date": 1}]},
    "photo": [{"file_id": "p", "file_size": 5}],
    "contact": {"phone_number": "1", "first_name": "Bo"},
}
FORWARD = {**DISCORD, "type": 0, "content": "", "message_reference": ORIGIN}
WHO = ("from", "chat", "message_id", "type", "user", "subtype", "bot_id", "author")
WHO += ("webhook_id", "id", "case", "channel_type")


def places(value: object, at: Path = ()) -> list[Path]:
    """Every place in a structure but the top."""
    inner: list[tuple[Any, Any]] = list(value.items()) if isinstance(value, dict) else []
    inner += enumerate(value) if isinstance(value, list) else ()
    return [place for key, part in inner for place in ((*at, key), *places(part, (*at, key)))]


def mutate(message: Json, dice: random.Random) -> tuple[Json, bool]:
    """One to three wrong things in it; and whether it is still a person's message to the bot."""
    message, is_theirs = copy.deepcopy(message), True
    for _ in range(dice.randint(1, 3)):
        *path, last = dice.choice(places(message))
        inner: Any = message
        for key in path:
            inner = inner[key]
        is_theirs &= (path or [last])[0] not in WHO
        match dice.randrange(4):
            case 0:
                del inner[last]
            case 1 if isinstance(inner, list):
                inner.append(inner[last])
            case 1:
                inner[last] = [inner[last]] * 2
            case _:
                inner[last] = copy.deepcopy(dice.choice(ODD))
    return message, is_theirs


def check(host: Ledger, sent: dict[str, str]) -> None:
    """Each of these ids is a message with something in it, or its mark is in what was set aside."""
    heard = {one.message_id: one for one in host.messages}
    aside = "\n".join(f"{one.external_id} {one.raw}" for one in host.poison)
    for number, mark in sent.items():
        one = heard.get(number)
        assert mark in aside or (one and (one.text.strip() or one.attachments)), mark
        assert one is None or all(isinstance(part, str) for part in one.data)


def is_last(host: Ledger) -> bool:
    return bool(host.entries) and getattr(host.entries[-1], "text", "") == "the last"


@pytest.mark.timeout(600)
async def test_slack_whatever_is_wrong_with_a_message_it_is_heard_or_set_aside():
    dice, sent = random.Random(24), dict[str, str]()
    async with fake() as slack, stage(slack) as on:
        user, start = slack.person("ann"), int(slack.work.ts().partition(".")[0])
        for number in range(COUNT):
            ts, mark = f"{start}.{number:06d}", f"Ev{number:06d}"
            whole = {**SLACK, "user": user, "ts": ts, "channel": on.dm.chat, "channel_type": "im"}
            event, is_theirs = mutate(whole, dice)
            slack.sockets.send("events_api", {"event_id": mark, "event": event})
            sent |= {ts: mark} if is_theirs else {}
        slack.say("ann", on.dm.chat, "the last")
        await on.house.until(lambda: is_last(on.house), 300)
        check(on.house, sent)
        assert len(sent) > COUNT / 2
        assert sum(isinstance(one, InboundMessage) for one in on.house.entries) > COUNT / 2


@pytest.mark.timeout(600)
async def test_discord_whatever_is_wrong_with_a_message_it_is_heard_or_set_aside():
    dice, sent = random.Random(24), dict[str, str]()
    async with talking() as on:
        ann, chat = on.fake.world.person("ann"), on.fake.private("ann")
        for number in range(COUNT):
            count, mark = str(10**17 + number), f"case {number:06d}"
            whole = {"case": mark, "id": count, "author": ann, "channel_id": chat}
            base = dice.choice((DISCORD, FORWARD))
            event, is_theirs = mutate({**whole, **base}, dice)
            on.fake.gateway.emit("MESSAGE_CREATE", event, guild=False)
            sent |= {count: mark} if is_theirs else {}
        on.fake.say("ann", chat, "the last")
        await on.host.until(lambda: is_last(on.host), 300)
        check(on.host, sent)
        assert len(sent) > COUNT / 2
        assert sum(isinstance(one, InboundMessage) for one in on.host.entries) > COUNT / 2


@pytest.mark.timeout(600)
async def test_slack_whatever_is_wrong_with_the_root_of_a_thread_who_asks_there_is_heard():
    dice = random.Random(25)
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann")
        for _ in range(COUNT // 3):
            ts, (root, _) = slack.work.ts(), mutate({**SLACK, "user": "U9"}, dice)
            kept = {"user": "U9", **root, "ts": ts, "thread_ts": ts}
            slack.work.channel(chat).messages[ts] = kept
            slack.say("ann", chat, slack.mention("why?"), thread=ts)
        slack.say("ann", on.dm.chat, "the last")
        await on.house.until(lambda: is_last(on.house), 300)
    assert on.house.texts == ["why?"] * (COUNT // 3) + ["the last"]
    roots = [one.references for one in on.house.messages[:-1]]
    assert all(one[0].kind == "root" and one[0].text for one in roots)


@pytest.mark.timeout(600)
async def test_discord_whatever_is_wrong_with_the_root_of_a_thread_who_asks_there_is_heard():
    dice = random.Random(25)
    async with talking() as on:
        room, zoe = on.fake.group("ann"), on.fake.world.person("zoe")
        for _ in range(COUNT // 3):
            starter = on.fake.say("ann", room, "to be spoilt")
            root, _ = mutate({**DISCORD, "author": zoe}, dice)
            on.fake.world.messages[starter] = {**root, "id": starter, "channel_id": room}
            on.fake.say("ann", on.fake.thread(starter, room, by="ann"), on.fake.mention("why?"))
        on.fake.say("ann", on.fake.private("ann"), "the last")
        await on.host.until(lambda: is_last(on.host), 300)
    asked = [one for one in on.host.messages if one.text == "why?"]
    assert len(asked) == COUNT // 3
    assert all(one.references[0].kind == "root" and one.references[0].text for one in asked)


@pytest.mark.timeout(600)
async def test_telegram_whatever_is_wrong_with_a_message_it_is_heard_or_set_aside():
    """Those that are taken for a part of an album or a longer text, or are passed on with others, come with these; here are none."""
    dice, sent = random.Random(24), dict[str, str]()
    async with FakeTelegram() as telegram:
        account = TelegramAccount.model_validate(telegram.config())
        channel, host = Telegram(account, timing=SOON), Ledger()
        async with running(channel, host):
            chat = telegram.private("ann")
            ann, where = telegram.world.person("ann"), telegram.world.private("ann")
            for number in range(COUNT):
                count, mark = 10**6 + number, f"case {number:06d}"
                whole = {"case": mark, "message_id": count, "from": ann, "chat": where}
                apart = {**whole, **TELEGRAM, "date": 1_700_000_000 + 10 * number}
                event, is_theirs = mutate(apart, dice)
                telegram.world.push({"message": event})
                sent |= {str(count): mark} if is_theirs else {}
            telegram.say("ann", chat, "the last")
            await host.until(lambda: is_last(host), 300)
    check(host, sent)
    assert len(sent) > COUNT / 2
    assert sum(isinstance(one, InboundMessage) for one in host.entries) > COUNT / 2
