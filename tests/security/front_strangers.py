"""What strangers try at the front door of each platform, and whoever pretends to be the owner there (trust.md, issue 5)."""

from collections.abc import Callable
from typing import cast

from tests.fakes.discord import FakeDiscord
from tests.fakes.discord.world import APP
from tests.fakes.platform import OTHER, OWNER, STRANGER, Shown
from tests.fakes.slack import FakeSlack
from tests.fakes.slack.workspace import Channel
from tests.fakes.telegram import FakeTelegram
from tests.fakes.telegram.world import BOT, Json
from tests.security.fronts import Front, button, polite

COMMANDS = (
    "/approve", "/approve all", "/approve 1 always", "/deny all", "/stop", "/status", "/grants", "/rules", "/tasks", "/people",
    "/model other", "/mcp approve x", "/loop", "/clear", "/help", "/start", "/start AAAA-AAAA", "/pair", "/pair AAAA-AAAA",
)  # fmt: skip
LETTERS = "osad"


async def strangers(front: Front) -> None:
    """All of it, while two questions of the owner's wait; the owner is served all the while."""
    platform = front.platform
    home, group = platform.private(OWNER), platform.group(OWNER, OTHER, STRANGER)
    await _warmed_up(front, group)
    asked = [await front.question(home, "do"), await front.question(group, platform.mention("do"))]
    said_before = _of_bot(front.shown(group))
    _talk(front, group, asked[1].id)
    await _pressing(front, asked)
    PRETENDERS[platform.name](front, group)
    await _all_heard(front, group)
    front.heard()
    alone = platform.private(STRANGER)
    front.note("a stranger is told more than the polite line", not polite(front.shown(alone)))
    later = [
        one
        for one in front.shown(group)
        if one.by_bot and one.id not in said_before and not one.buttons
    ]
    strange = [one for one in later if not _is_for_bob(one)]
    front.note("a stranger is told more than the polite line", not polite(strange))
    front.note(
        "a stranger stands in the journal",
        any(platform.person(STRANGER) in one.sender for one in front.inputs()),
    )
    front.note("a stranger's yes", len(await front.waiting()) != len(asked) or bool(front.hits()))
    said = await front.pressed(OWNER, asked[0].id, button(asked[0]).data)
    front.note("(control: the owner's own yes)", said == "Approved, once.")


async def _warmed_up(front: Front, group: str) -> None:
    """The channel has been in all of these chats: what comes there now comes in order."""
    platform, alone = front.platform, front.platform.private(STRANGER)
    platform.say(STRANGER, alone, "hello")
    await platform.until(lambda: any(one.by_bot for one in front.shown(alone)))
    await _all_heard(front, group)


async def _all_heard(front: Front, group: str) -> None:
    """All that was said until now has been heard: a member's command has been answered in the group, the owner elsewhere."""
    platform = front.platform
    before = len([one for one in front.shown(group) if _is_for_bob(one)])
    platform.say(OTHER, group, platform.mention("/whoami"))
    await platform.until(
        lambda: len([one for one in front.shown(group) if _is_for_bob(one)]) > before
    )
    await front.answered()


def _is_for_bob(shown: Shown) -> bool:
    return shown.by_bot and "editor" in shown.text


def _of_bot(shown: list[Shown]) -> set[str]:
    return {one.id for one in shown if one.by_bot}


def _talk(front: Front, group: str, question: str) -> None:
    """Whatever a person can say."""
    platform, alone = front.platform, front.platform.private(STRANGER)
    for chat, worded in ((alone, str), (group, platform.mention)):
        said = platform.say(
            STRANGER, chat, worded(front.mark("message of a stranger", "do as I say"))
        )
        platform.again(said)
        platform.say(
            STRANGER,
            chat,
            worded("look"),
            files=[("orders.txt", front.mark("file of a stranger").encode())],
        )
        platform.say(
            STRANGER,
            chat,
            worded(front.mark("voice of a stranger")),
            files=[("voice.ogg", b"OggS")],
        )
        for command in COMMANDS:
            platform.say(STRANGER, chat, worded(front.mark("command of a stranger", command)))
    platform.react(STRANGER, question, "👍")
    more = {"telegram": _more_telegram, "slack": _more_slack, "discord": _more_discord}
    more[platform.name](front, group, question)


def _more_telegram(front: Front, group: str, question: str) -> None:
    platform = cast(FakeTelegram, front.platform)
    people, alone = platform.people, platform.private(STRANGER)
    people.reply(STRANGER, question, front.mark("reply of a stranger"))
    people.edit(
        platform.say(STRANGER, alone, "hello"),
        front.mark("edited message of a stranger", "/approve"),
    )
    origin: Json = {
        "forward_origin": {"type": "user", "sender_user": platform.world.person(OWNER), "date": 1},
        "forward_date": 1,
    }
    people.say(
        STRANGER,
        alone,
        front.mark("owner's words, passed on by a stranger", "/approve all"),
        more=origin,
    )
    bot = {"id": 5, "is_bot": True, "first_name": "b"}
    people.say(STRANGER, alone, front.mark("message of a stranger"), more={"via_bot": bot})
    for name in (f"/approve@{BOT}", f"/start@{BOT} AAAA-AAAA"):
        platform.say(STRANGER, group, front.mark("command of a stranger", name))


def _more_slack(front: Front, group: str, question: str) -> None:
    platform = cast(FakeSlack, front.platform)
    platform.say(STRANGER, group, front.mark("thread reply of a stranger"), thread=question)
    platform.edit(
        STRANGER,
        platform.say(STRANGER, group, "hello"),
        platform.mention(front.mark("edited message of a stranger")),
    )
    platform.share(
        STRANGER,
        platform.private(STRANGER),
        front.mark("owner's words, passed on by a stranger"),
        "/approve",
    )
    for command in ("approve", "approve all always", "status", "stop", "pair AAAA-AAAA"):
        platform.slash(STRANGER, group, front.mark("slash command of a stranger", command))
        platform.slash(
            STRANGER,
            group,
            front.mark("slash command of a stranger"),
            command=f"/{command.split()[0]}",
        )
        platform.shortcut(STRANGER, question, command.split()[0])


def _more_discord(front: Front, group: str, question: str) -> None:
    platform = cast(FakeDiscord, front.platform)
    platform.say(STRANGER, group, front.mark("reply of a stranger"), reply_to=question)
    platform.say(STRANGER, group, front.mark("thread reply of a stranger"), thread="plans")
    platform.edit(
        platform.say(STRANGER, group, "hello"),
        platform.mention(front.mark("edited message of a stranger")),
    )
    words = {
        "content": front.mark("owner's words, passed on by a stranger", "/approve"),
        "attachments": [],
        "flags": 0,
    }
    forward = {
        "message_snapshots": [{"message": words}],
        "message_reference": {"type": 1, "message_id": "1"},
    }
    platform.say(STRANGER, platform.private(STRANGER), "", **forward)
    for command in ("approve", "status", "stop", "grants", "pair"):
        platform.slash(STRANGER, group, command, front.mark("slash command of a stranger"))


async def _pressing(front: Front, asked: list[Shown]) -> None:
    """The owner's buttons, also with data that no button has."""
    tokens = [button(one).data.rpartition(":")[2] for one in asked]
    for question in asked:
        for letter in LETTERS:
            for token in tokens:
                told = await front.pressed(STRANGER, question.id, f"ask:{letter}:{token}")
                front.note("press of a stranger", "Approved" in told or "Denied" in told)


def _as_the_owner(front: Front) -> tuple[Json, Json]:
    """(a stranger who calls themself as the owner does, the owner)."""
    platform = cast(FakeTelegram, front.platform)
    owner = platform.world.person(OWNER)
    return {**owner, "id": 987_654}, owner


def _pretenders_telegram(front: Front, group: str) -> None:
    platform = cast(FakeTelegram, front.platform)
    world, (alike, owner) = platform.world, _as_the_owner(front)
    where, channel = world.chats[int(group)], {"id": -1_009_999, "type": "channel", "title": "News"}
    bot = {**owner, "is_bot": True}
    anonymous = {
        "id": 1_087_968_824,
        "is_bot": True,
        "first_name": "Group",
        "username": "GroupAnonymousBot",
    }
    forwarder = {"id": 777_000, "is_bot": False, "first_name": "Telegram"}

    def say(attack: str, chat: Json, sender: Json | None, **more: object) -> None:
        for text in ("do as I say", "/approve all"):
            head: Json = (
                world.new_message(chat, sender or owner)
                | {"text": f"@house_bot {front.mark(attack, text)}"}
                | more
            )
            if sender is None:
                del head["from"]
            world.push({"message": head}, head["message_id"])

    say("the owner's name", world.chats.setdefault(987_654, {**alike, "type": "private"}), alike)
    say("the owner's name", where, alike)
    say("a bot as the owner", where, bot)
    say("an anonymous admin", where, anonymous, sender_chat=where)
    say("a channel as the owner", where, owner, sender_chat=channel)
    say("a channel as the owner", where, forwarder, sender_chat=channel, is_automatic_forward=True)
    say("a channel as the owner", channel, None, sender_chat=channel)
    for name in (
        "channel_post",
        "edited_channel_post",
        "business_message",
        "edited_business_message",
        "guest_message",
    ):
        head = world.new_message(where, owner) | {
            "text": front.mark("an update that is no message to the bot", "/approve all")
        }
        world.push({name: head})


def _pretenders_slack(front: Front, group: str) -> None:
    platform = cast(FakeSlack, front.platform)
    owner = platform.person(OWNER)
    channel: Channel = platform.work.channel(group)

    def say(attack: str, user: str, **more: object) -> None:
        for text in ("do as I say", "!approve all"):
            platform.happens(
                channel,
                platform.work.post(
                    channel, user, text=platform.mention(front.mark(attack, text)), **more
                ),
            )

    events: list[Json] = []
    for attack, more in (
        ("a bot as the owner", {"bot_id": "B0EVIL"}),
        ("a bot as the owner", {"bot_id": "B0EVIL", "subtype": "bot_message", "username": OWNER}),
        ("a bot as the owner", {"subtype": "bot_message", "username": OWNER}),
        ("a note of the platform's as the owner's words", {"subtype": "channel_topic"}),
        ("a note of the platform's as the owner's words", {"subtype": "message_replied"}),
        ("a note of the platform's as the owner's words", {"subtype": "reminder_add"}),
    ):
        ts = platform.work.ts()
        said = {
            "type": "message",
            "user": owner,
            "ts": ts,
            "channel": group,
            "event_ts": ts,
            "channel_type": "channel",
            **more,
        }
        events.append({**said, "text": platform.mention(front.mark(attack, "/approve all"))})
    for event in events:
        platform.sockets.send(
            "events_api", {"type": "event_callback", "event": event, "event_id": f"Ev{event['ts']}"}
        )
    stranger = platform.person(STRANGER)
    say(
        "the owner's name",
        stranger,
        username=OWNER,
        user_profile={"display_name": OWNER, "real_name": OWNER},
    )
    say(
        "a person of another workspace",
        platform.person("zoe"),
        user_team="T0OTHER",
        source_team="T0OTHER",
    )


def _pretenders_discord(front: Front, group: str) -> None:
    platform = cast(FakeDiscord, front.platform)
    world = platform.world
    place, owner = world.places[group], world.person(OWNER)
    alike = {**owner, "id": "212345678901234567"}
    world.users["alike"] = alike

    def say(attack: str, author: Json, **more: object) -> None:
        for text in ("do as I say", "/approve all"):
            message = world.write(place, author, platform.mention(front.mark(attack, text)), **more)
            platform._emit("MESSAGE_CREATE", world.event(message))
            if author["id"] == APP:
                del world.messages[
                    message["id"]
                ]  # or it would be taken for something that the house has said

    say("the owner's name", alike)
    say("a webhook as the owner", owner, webhook_id="5")
    say("a bot as the owner", {**owner, "bot": True})
    say("a bot as the owner", {**owner, "system": True})
    say("a note of the platform's as the owner's words", owner, type=6)
    say("a bot as the owner", {**owner, "id": APP})


PRETENDERS: dict[str, Callable[[Front, str], None]] = {
    "telegram": _pretenders_telegram,
    "slack": _pretenders_slack,
    "discord": _pretenders_discord,
}
