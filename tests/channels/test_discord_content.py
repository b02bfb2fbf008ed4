"""What a person sees in a message of Discord, the model sees: embeds, polls, components, files, and what it passes on (A14)."""

from typing import Any

import pytest

from channels.message import InboundMessage
from tests.channels.discord_host import Scene, talking
from tests.fakes.discord import BOT
from tests.fakes.discord.world import Json

EMBED: Json = {
    "type": "rich",
    "title": "CPU 97% on db1",
    "url": "https://watch.example/7",
    "description": "slow since **9:00**",
    "color": 16711680,
    "author": {"name": "Watcher", "url": "https://watch.example"},
    "fields": [
        {"name": "host", "value": "db1", "inline": True},
        {"name": "load", "value": "97", "inline": True},
    ],
    "image": {"url": "https://watch.example/7.png", "width": 9, "height": 9},
    "footer": {"text": "rule 7"},
    "timestamp": "2026-11-25T09:00:00+00:00",
}
CARD = (
    "[card]\nWatcher\n[CPU 97% on db1](https://watch.example/7)\nslow since **9:00**\nhost: db1\n"
    "load: 97\nimage: https://watch.example/7.png\nrule 7\n[end of the card]"
)
ORIGIN = {"type": 1, "message_id": "11", "channel_id": "12", "guild_id": "13"}


def snapshot(content: str = "", **more: object) -> Json:
    """A message that is passed on, without its author, as Discord has it."""
    plain = {"type": 0, "flags": 0, "mentions": [], "attachments": [], "embeds": []}
    return {"message": {**plain, "content": content, "timestamp": "2026-11-25T09:00:00", **more}}


async def heard(on: Scene, text: str = "", **more: Any) -> InboundMessage:
    """What the host is told when Ann writes this to the bot."""
    count = len(on.host.messages)
    on.fake.say("ann", on.fake.private("ann"), text, **more)
    await on.host.until(lambda: len(on.host.messages) > count)
    return on.host.messages[-1]


async def test_a_forwarded_message_that_is_a_card_only_is_seen():
    async with talking() as on:
        passed = [snapshot(embeds=[EMBED])]
        alone = await heard(on, message_reference=ORIGIN, message_snapshots=passed)
        asked = await heard(on, "what now?", message_reference=ORIGIN, message_snapshots=passed)
    assert (alone.text, alone.forwarded, alone.references) == (CARD, True, ())
    assert (asked.text, asked.forwarded) == ("what now?", False)
    assert [(one.kind, one.text, one.by) for one in asked.references] == [("passed", CARD, "other")]


async def test_the_files_of_a_forwarded_message_come_and_one_without_content_is_named():
    async with talking() as on:
        file = on.fake.rest.keep(on.fake.private("ann"), "a.txt", b"words")
        passed = [snapshot("see", attachments=[file])]
        files = await heard(on, message_reference=ORIGIN, message_snapshots=passed)
        empty = await heard(on, message_reference=ORIGIN, message_snapshots=[])
    assert files.forwarded and files.text == "see\n\n[document: a.txt, 1 kB]"
    assert [one.name for one in files.attachments] == ["a.txt"]
    assert (empty.text, empty.forwarded) == (
        "[something that cannot be shown here: a message passed on]",
        True,
    )


async def test_a_preview_is_a_card_and_not_said_by_who_posted_the_link():
    async with talking() as on:
        said = await heard(on, "look: https://watch.example/7", embeds=[EMBED])
    assert (said.text, said.data) == (f"look: https://watch.example/7\n\n{CARD}", (CARD,))


async def test_a_poll_is_its_question_and_its_answers():
    poll = {
        "question": {"text": "Lunch?"},
        "answers": [
            {"answer_id": 1, "poll_media": {"text": "Pizza", "emoji": {"id": None, "name": "🍕"}}},
            {"answer_id": 2, "poll_media": {"text": "Soup"}},
        ],
        "expiry": "2026-11-26T09:00:00+00:00",
        "allow_multiselect": False,
        "layout_type": 1,
        "results": {
            "is_finalized": False,
            "answer_counts": [{"id": 2, "count": 3, "me_voted": False}],
        },
    }
    async with talking() as on:
        said = await heard(on, poll=poll)
    assert said.text == "[poll: Lunch?]\n- 🍕 Pizza\n- Soup (3)"
    assert said.data == (said.text,)


async def test_a_sticker_and_a_file_without_an_address_are_named_beside_the_text():
    async with talking() as on:
        odd = {"id": "1", "filename": "b.bin", "size": 3}
        said = await heard(on, "hi", sticker_items=[{"id": "1", "name": "Wave"}], attachments=[odd])
    assert said.text == "hi\n\n[sticker: Wave]\n\n[something that cannot be shown here: b.bin]"
    assert said.attachments == ()


async def test_the_address_below_other_words_is_not_said_by_who_sends_it():
    text = (
        "see [the page](https://a.example/x_(1)?y=ü) or <https://b.example>, `[no](https://c.example)`, "
        "[https://d.example](https://d.example) \\[not](https://e.example)"
    )
    async with talking() as on:
        said = await heard(on, text)
    assert (said.text, said.data) == (text, ("https://a.example/x_(1)?y=ü",))


COMPONENTS: dict[str, tuple[Json, str]] = {
    "text": ({"type": 10, "content": "# Down"}, "# Down"),
    "section": (
        {
            "type": 9,
            "components": [{"type": 10, "content": "one"}, {"type": 10, "content": "two"}],
            "accessory": {"type": 11, "media": {"url": "https://a/b.png"}, "description": "curve"},
        },
        "one\ntwo\n[media: curve](https://a/b.png)",
    ),
    "container": (
        {
            "type": 17,
            "components": [
                {"type": 10, "content": "in it"},
                {"type": 14, "divider": True},
                {"type": 12, "items": [{"media": {"url": "https://a/c.png"}, "description": "c"}]},
                {"type": 13, "file": {"url": "attachment://x.pdf"}, "name": "x.pdf", "size": 9},
            ],
        },
        "in it\n[media: c](https://a/c.png)\n[file: x.pdf](attachment://x.pdf)",
    ),
    "buttons": (
        {
            "type": 1,
            "components": [
                {"type": 2, "style": 5, "label": "Open", "url": "https://a.b"},
                {"type": 2, "style": 1, "label": "Mute", "custom_id": "secret"},
            ],
        },
        "[Open](https://a.b)\n[Mute]",
    ),
    "select": (
        {
            "type": 1,
            "components": [
                {
                    "type": 3,
                    "custom_id": "s",
                    "placeholder": "Which?",
                    "options": [{"label": "A", "value": "1"}, {"label": "B", "value": "2"}],
                }
            ],
        },
        "Which?\nA\nB",
    ),
    "unknown": ({"type": 99}, "[something that cannot be shown here: component 99]"),
}


@pytest.mark.parametrize("kind", COMPONENTS)
async def test_components_are_shown_as_text_and_an_unknown_one_is_named(kind: str):
    component, text = COMPONENTS[kind]
    async with talking() as on:
        passed = [snapshot(components=[component], flags=1 << 15)]
        said = await heard(on, message_reference=ORIGIN, message_snapshots=passed)
    assert said.text == f"[card]\n{text}\n[end of the card]"


async def test_what_cannot_be_read_of_a_message_to_the_bot_is_named():
    async with talking() as on:
        empty = await heard(on)
        unknown = await heard(on, type=4711)
        bare = await heard(on, f"<@{BOT}>")
    nothing = "[something that cannot be shown here: a message without words]"
    assert [one.text for one in (empty, unknown)] == [nothing] * 2
    assert bare.text == "[a mention without words]"


async def test_nothing_of_a_long_message_is_lost():
    long = " ".join(f"w{number}" for number in range(1_300))
    fields = [{"name": f"n{number}", "value": "x" * 200} for number in range(25)]
    async with talking() as on:
        said = await heard(on, long, embeds=[{"description": long[:4096], "fields": fields}])
    assert said.text.startswith(f"{long}\n\n[card]\n{long[:4096]}\nn0: ")
    assert said.text.endswith("x" * 200 + "\n[end of the card]")


@pytest.mark.parametrize(
    ("filename", "title", "name"),
    [
        ("_____.pdf", "Отчёт", "Отчёт.pdf"),
        ("_____.pdf", "Отчёт.pdf", "Отчёт.pdf"),
        ("plan.pdf", "", "plan.pdf"),
        ("___", "报告", "报告"),
    ],
)
async def test_a_file_has_the_name_that_its_sender_gave_it(filename: str, title: str, name: str):
    file = {"id": "1", "filename": filename, "size": 9, "url": "https://cdn.example/1"}
    async with talking() as on:
        said = await heard(on, "read this", attachments=[file | ({"title": title} if title else {})])
    assert [one.name for one in said.attachments] == [name]


async def test_the_description_of_a_picture_is_seen_as_data():
    file = {"id": "1", "filename": "a.png", "size": 9, "url": "https://cdn.example/1"}
    async with talking() as on:
        said = await heard(on, "look", attachments=[file | {"description": "a red car"}])
    assert said.text == "look\n\n[description of a.png: a red car]"
    assert said.data == ("[description of a.png: a red car]",)


async def test_a_moment_is_shown_as_a_date():
    async with talking() as on:
        said = await heard(on, "due <t:1618953630:R>, made <t:0>, not <t:99999999999999>")
    assert said.text == "due 2021-04-20 21:20 UTC, made 1970-01-01 00:00 UTC, not <t:99999999999999>"


async def test_moments_and_names_in_a_card_are_shown_as_people_see_them():
    embed = {
        "type": "rich",
        "title": "Standup <a:bell:5>",
        "description": "starts <t:1800000000:F>, say </join now:7>",
        "fields": [{"name": "<t:1800000000:R>", "value": "see <:ok:6>"}],
    }
    rows = [{"type": 17, "components": [{"type": 10, "content": "ends <t:1800003600:t>"}]}]
    async with talking() as on:
        said = await heard(on, "when?", embeds=[embed], components=rows)
    assert said.text == (
        "when?\n\n[card]\nStandup :bell:\nstarts 2027-01-15 08:00 UTC, say /join now\n"
        "2027-01-15 08:00 UTC: see :ok:\n[end of the card]\n\n"
        "[card]\nends 2027-01-15 09:00 UTC\n[end of the card]"
    )
