"""What a person sees in a message of Slack, the model sees: blocks, attachments, files, and what is passed on (A14)."""

from typing import Any

import pytest

from channels.message import InboundMessage
from tests.channels.slack_stage import Stage, fake, stage
from tests.fakes.slack.workspace import BOT, Json


def text_of(text: str) -> Json:
    return {"type": "mrkdwn", "text": text}


def plain(text: str) -> Json:
    return {"type": "plain_text", "text": text, "emoji": True}


def rich(*parts: Json) -> Json:
    return {"type": "rich_text", "block_id": "b1", "elements": list(parts)}


def line(*elements: Json) -> Json:
    return {"type": "rich_text_section", "elements": list(elements)}


def word(text: str, **more: object) -> Json:
    return {"type": "text", "text": text, **more}


def forwarded(**more: object) -> Json:
    """A message that is passed on, as Slack describes it."""
    return {
        "is_msg_unfurl": True,
        "is_share": True,
        "channel_id": "C9",
        "ts": "17.000001",
        "author_id": "U9",
        "author_name": "Zoe",
        "author_subname": "Zoe",
        "fallback": "[no preview available]",
        "from_url": "https://fake.slack.com/archives/C9/p17000001",
        **more,
    }


def wrapped(*blocks: Json) -> list[Json]:
    return [{"team": "T0", "channel": "C9", "ts": "17.000001", "message": {"blocks": list(blocks)}}]


async def heard(on: Stage, text: str = "", **more: Any) -> InboundMessage:
    """What the host is told when Ann writes this to the bot."""
    count = len(on.house.messages)
    on.slack.post("ann", on.dm.chat, text, **more)
    await on.house.until(lambda: len(on.house.messages) > count)
    return on.house.messages[-1]


async def shown(on: Stage, **more: Any) -> str:
    """How the model is shown such a message of another bot, below which Ann asks."""
    chat = on.slack.group("ann")
    root, count = on.slack.alert(chat, **more), len(on.house.messages)
    on.slack.say("ann", chat, on.slack.mention("what does this mean?"), thread=root)
    await on.house.until(lambda: len(on.house.messages) > count)
    (reference,) = on.house.messages[-1].references
    return reference.text


async def test_the_words_of_a_forwarded_message_are_found_in_its_blocks():
    async with fake() as slack, stage(slack) as on:
        words = rich(line(word("The payroll "), word("is late", style={"bold": True})))
        said = await heard(
            on, "is this right?", attachments=[forwarded(message_blocks=wrapped(words))]
        )
        (passed,) = said.references
        alone = await heard(on, attachments=[forwarded(message_blocks=wrapped(words))])
    assert (said.text, said.forwarded) == ("is this right?", False)
    assert (passed.kind, passed.text, passed.by, passed.author) == (
        "passed",
        "The payroll is late",
        "other",
        "Zoe",
    )
    assert (alone.text, alone.forwarded, alone.author) == ("The payroll is late", True, "Zoe")
    assert alone.references == ()


async def test_a_forwarded_alert_comes_with_its_card_and_its_files():
    alert = {"title": "CPU 97%", "fields": [{"title": "host", "value": "db1", "short": True}]}
    files = [{"id": "F1", "name": "graph.png", "mimetype": "image/png", "size": 42_000}]
    async with fake() as slack, stage(slack) as on:
        said = await heard(on, "hm", attachments=[forwarded(attachments=[alert], files=files)])
    assert said.references[0].text == (
        "[card]\nCPU 97%\nhost: db1\n[end of the card]\n\n[photo: graph.png, 42 kB]"
    )


async def test_what_a_forwarded_message_has_beside_its_words_is_seen():
    row = forwarded(text="look", pretext="Alert", image_url="https://a.b/i.png")
    async with fake() as slack, stage(slack) as on:
        said = await heard(on, attachments=[row])
    assert said.text == "look\n\n[card]\nAlert\nimage: https://a.b/i.png\n[end of the card]"


async def test_each_of_several_forwarded_messages_has_its_own_author():
    async with fake() as slack, stage(slack) as on:
        both = [forwarded(text="one"), forwarded(text="two", author_id=BOT, author_name="aidaemon")]
        said = await heard(on, attachments=both)
    assert (said.text, said.author, said.forwarded) == ("one", "Zoe", True)
    assert [(one.text, one.by, one.author) for one in said.references] == [
        ("two", "assistant", "aidaemon")
    ]


async def test_of_a_forwarded_message_without_words_the_model_is_told_that_it_cannot_be_shown():
    async with fake() as slack, stage(slack) as on:
        said = await heard(on, "and this?", attachments=[forwarded()])
    (passed,) = said.references
    assert passed.text.startswith("[something that cannot be shown here: a message passed on")


async def test_what_text_and_blocks_say_alike_stands_once():
    async with fake() as slack, stage(slack) as on:
        link = {"type": "link", "url": "https://a.example/x?y=1&z", "text": "the page"}
        blocks = [
            rich(
                line(word("see "), link, word(", "), {"type": "emoji", "name": "tada"}),
                {"type": "rich_text_list", "style": "bullet", "elements": [line(word("a < b"))]},
            )
        ]
        text = "see <https://a.example/x?y=1&amp;z|the page>, :tada:\n• a &lt; b"
        channel = slack.work.channel(on.dm.chat)
        slack.happens(
            channel, slack.work.post(channel, slack.person("ann"), text=text, blocks=blocks)
        )
        await on.house.until(lambda: bool(on.house.messages))
        both = await heard(on, "the old text", blocks=[rich(line(word("quite another")))])
        mark = await heard(on, "?!", blocks=[rich(line(word("?!")))])
    assert on.house.texts[0] == "see [the page](https://a.example/x?y=1&z), :tada:\n• a < b"
    assert (both.text, mark.text) == ("the old text\nquite another", "?!")


async def test_text_that_stands_in_blocks_only_is_read_with_its_lists_quotes_and_code():
    parts = (
        line(
            word("look "),
            {"type": "user", "user_id": "U7"},
            word(": "),
            word("x<1", style={"code": True}),
        ),
        {
            "type": "rich_text_list",
            "style": "ordered",
            "offset": 2,
            "indent": 1,
            "elements": [line(word("three")), line(word("four"))],
        },
        {"type": "rich_text_quote", "elements": [word("he said\nno")]},
        {"type": "rich_text_preformatted", "elements": [word("a ``` b")]},
        line({"type": "broadcast", "range": "here"}, word(" "), {"type": "hologram", "x": 1}),
    )
    async with fake() as slack, stage(slack) as on:
        said = await heard(on, blocks=[rich(*parts)])
    assert said.text == (
        "look @U7: `x<1`\n    3. three\n    4. four\n> he said\n> no\n````\na ``` b\n````\n"
        "@here [something that cannot be shown here: hologram]"
    )


async def test_a_mention_in_blocks_alone_addresses_the_bot():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann")
        slack.post(
            "ann", chat, blocks=[rich(line({"type": "user", "user_id": BOT}, word(" hello")))]
        )
        await on.house.until(lambda: bool(on.house.messages))
    said = on.house.messages[0]
    assert (said.text, said.addressed) == ("hello", True)


async def test_the_preview_of_a_link_is_a_card_and_not_said_by_who_posted_the_link():
    preview = {
        "from_url": "https://news.example/1",
        "service_name": "The News",
        "title": "Rain",
        "title_link": "https://news.example/1",
        "text": "/stop It &amp; rains",
        "thumb_url": "https://news.example/1.png",
        "fallback": "The News: Rain",
        "footer": "today",
    }
    async with fake() as slack, stage(slack) as on:
        said = await heard(on, "look: <https://news.example/1>", attachments=[preview])
    card = (
        "[card]\nThe News\n[Rain](https://news.example/1)\n/stop It & rains\n"
        "image: https://news.example/1.png\ntoday\n[end of the card]"
    )
    assert (said.text, said.data) == (f"look: https://news.example/1\n\n{card}", (card,))


BLOCKS: dict[str, tuple[Json, str]] = {
    "section": ({"type": "section", "text": text_of("*CPU* &gt; 90 <https://a.b/x|graph>")}, "*CPU* > 90 [graph](https://a.b/x)"),
    "fields": (
        {"type": "section", "fields": [text_of("host"), plain("<db1>")]},
        "host\n<db1>",
    ),
    "header": ({"type": "header", "text": plain("Down!")}, "Down!"),
    "context": (
        {"type": "context", "elements": [{"type": "image", "image_url": "https://a/b.png", "alt_text": "logo"}, text_of("since 9")]},
        "[image: logo](https://a/b.png) since 9",
    ),
    "image": (
        {"type": "image", "image_url": "https://a/b.png", "alt_text": "a curve", "title": plain("Load")},
        "[image: Load](https://a/b.png)",
    ),
    "buttons": (
        {
            "type": "actions",
            "elements": [
                {"type": "button", "text": plain("Open"), "url": "https://a.b", "action_id": "a", "value": "secret"},
                {"type": "button", "text": plain("Mute"), "action_id": "b", "confirm": {"title": plain("Sure?")}},
            ],
        },
        "[Open](https://a.b)\n[Mute]",
    ),
    "poll": (
        {
            "type": "section",
            "text": text_of("Lunch?"),
            "accessory": {
                "type": "radio_buttons",
                "action_id": "v",
                "options": [{"text": plain("Pizza"), "value": "1"}, {"text": plain("Soup"), "value": "2"}],
            },
        },
        "Lunch?\nPizza\nSoup",
    ),
    "table": (
        {
            "type": "table",
            "rows": [
                [{"type": "raw_text", "text": "host"}, {"type": "raw_text", "text": "load"}],
                [rich(line(word("db1"))), {"type": "raw_number", "value": 9, "text": "9"}],
            ],
        },
        "host | load\ndb1 | 9",
    ),
    "markdown": ({"type": "markdown", "text": "**bold**"}, "**bold**"),
    "card": (
        {"type": "card", "title": plain("Ticket 7"), "body": text_of("broken"), "actions": []},
        "Ticket 7\nbroken",
    ),
    "video": (
        {"type": "video", "title": plain("Demo"), "video_url": "https://a/v", "alt_text": "x", "description": plain("how to")},
        "[video: Demo](https://a/v)\nhow to",
    ),
    "file": ({"type": "file", "external_id": "ABC", "source": "remote"}, "[file: ABC]"),
    "unknown": ({"type": "hologram_3d", "payload": 1}, "[something that cannot be shown here: hologram 3d]"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BLOCKS)
async def test_each_kind_of_block_is_shown_as_text_and_an_unknown_one_is_named(kind: str):
    block, text = BLOCKS[kind]
    async with fake() as slack, stage(slack) as on:
        assert await shown(on, blocks=[block]) == f"[card]\n{text}\n[end of the card]"
        quoted = {"fallback": "x", "blocks": [block]}
        assert await shown(on, attachments=[quoted]) == f"[card]\n{text}\n[end of the card]"


async def test_of_an_attachment_the_fallback_counts_only_where_nothing_else_is_shown():
    whole = {
        "pretext": "Alert",
        "author_name": "Watcher",
        "title": "db1",
        "title_link": "https://a.b/1",
        "text": "slow &amp; <https://a.b|late>",
        "fields": [{"title": "since", "value": "9:00", "short": True}, {"value": "no title"}],
        "image_url": "https://a.b/i.png",
        "actions": [{"type": "button", "text": "Mute"}],
        "footer": "rule 7",
        "fallback": "db1 is slow",
    }
    async with fake() as slack, stage(slack) as on:
        assert await shown(on, attachments=[whole, {"fallback": "only this", "color": "red"}]) == (
            "[card]\nWatcher\n[db1](https://a.b/1)\nAlert\nslow & [late](https://a.b)\nsince: 9:00\n"
            "no title\nimage: https://a.b/i.png\n[Mute]\nrule 7\n[end of the card]\n\n"
            "[card]\nonly this\n[end of the card]"
        )


async def test_of_what_a_bot_says_in_text_and_in_blocks_the_blocks_are_shown():
    async with fake() as slack, stage(slack) as on:
        blocks = [{"type": "section", "text": text_of("Deploy failed: step 3")}]
        both = await shown(on, text="Deploy failed", blocks=blocks)
        apart = await shown(on, text="Build 7", blocks=blocks)
    assert both == "[card]\nDeploy failed: step 3\n[end of the card]"
    assert apart == f"Build 7\n\n{both}"


async def test_what_cannot_be_read_of_a_message_to_the_bot_is_named():
    async with fake() as slack, stage(slack) as on:
        odd = await heard(on, blocks=[{"type": "hologram"}])
        empty = await heard(on)
        bare = await heard(on, f"<@{BOT}>")
        gone = await heard(on, files=[{"id": "F1", "mode": "tombstone"}])
    assert "[something that cannot be shown here: hologram]" in odd.text
    assert empty.text == "[something that cannot be shown here: a message without words]"
    assert bare.text == "[a mention without words]"
    assert gone.text == "[something that cannot be shown here: a file that was deleted]"
    assert gone.attachments == ()


async def test_nothing_of_a_long_message_is_lost():
    long = " ".join(f"w{number}" for number in range(6_000))
    async with fake() as slack, stage(slack) as on:
        said = await heard(on, long[:40_000])
        card = await heard(on, "see", attachments=[{"text": long}])
    assert said.text == long[:40_000]
    assert f"[{len(long) - 10_000:,} more characters are left out here]" in card.text
    assert card.data[0] in card.text


async def test_the_description_of_a_picture_is_seen_as_data():
    file = {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 9, "alt_txt": "a red car"}
    async with fake() as slack, stage(slack) as on:
        said = await heard(on, "look", files=[file | {"url_private": "https://files.slack.com/1"}])
    assert said.text == "look\n\n[description of a.png: a red car]"
    assert said.data == ("[description of a.png: a red car]",)


async def test_a_moment_without_a_fallback_is_a_day_and_a_time():
    async with fake() as slack, stage(slack) as on:
        typed = await heard(on, "due <!date^1392734382^Posted {date_num} {time_secs}>")
        kept = await heard(on, "due <!date^1392734382^{date_num}|Feb 18>")
        form = {"type": "date", "timestamp": 1720710212, "format": "{date_short_pretty} at {time}"}
        laid_out = await heard(on, blocks=[rich(line(form))])
    assert typed.text == "due Posted 2014-02-18 14:39 UTC"
    assert (kept.text, laid_out.text) == ("due Feb 18", "2024-07-11 at 15:03 UTC")


MAIL: Json = {
    "mode": "email",
    "filetype": "email",
    "subject": "Invoice 7",
    "from": [{"address": "bob@example.org", "original": "Bob <bob@example.org>"}],
    "plain_text": "Please pay 7 by Friday.",
}


@pytest.mark.parametrize(
    ("file", "card"),
    [
        (MAIL, "Bob <bob@example.org>\nInvoice 7\nPlease pay 7 by Friday."),
        ({"mode": "snippet", "preview": "Traceback: no such key"}, "Traceback: no such key"),
    ],
)
async def test_what_slack_shows_of_a_mail_or_a_snippet_is_seen(file: Json, card: str):
    file = {"id": "F1", "name": "it", "url_private": "https://files.example/1", **file}
    async with fake() as slack, stage(slack) as on:
        text = await shown(on, text="", files=[file])
    assert f"[card]\n{card}\n[end of the card]" in text


async def test_a_call_says_where_it_is():
    call = {"v1": {"id": "R1", "name": "Standup", "join_url": "https://meet.example/1"}}
    async with fake() as slack, stage(slack) as on:
        text = await shown(on, text="", blocks=[{"type": "call", "call_id": "R1", "call": call}])
    assert "[card]\nStandup\nhttps://meet.example/1\n[end of the card]" in text


async def test_words_that_are_struck_out_are_marked_where_only_blocks_say_so():
    words = rich(line(word("take "), word("the red", style={"strike": True}), word(" the blue")))
    async with fake() as slack, stage(slack) as on:
        said = await heard(on, blocks=[words])
        passed = await heard(on, "which?", attachments=[forwarded(message_blocks=wrapped(words))])
    assert said.text == "take ~the red~ the blue"
    assert passed.references[0].text == "take ~the red~ the blue"


async def test_what_stands_in_an_attachment_of_no_known_kind_is_seen():
    rows = [{"fields": [{"key": "name", "text": "buy milk"}]}, {"fields": [{"text": "buy bread"}]}]
    attached = {"title": "Tasks", "title_link": "https://lists.example/1", "list_records": rows}
    async with fake() as slack, stage(slack) as on:
        text = await shown(on, text="", attachments=[attached])
    assert text == (
        "[card]\n[Tasks](https://lists.example/1)\nbuy milk\nbuy bread\n[end of the card]"
    )


async def test_an_emoji_of_a_skin_tone_does_not_say_the_words_twice():
    thumb = {"type": "emoji", "name": "+1", "unicode": "1f44d-1f3fc", "skin_tone": 3}
    async with fake() as slack, stage(slack) as on:
        said = await heard(on, ":+1::skin-tone-3: ok", blocks=[rich(line(thumb, word(" ok")))])
    assert said.text == ":+1::skin-tone-3: ok"
