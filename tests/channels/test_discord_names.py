"""Marks in a message of Discord are what people see in their place (A14): channels, roles, emoji, commands."""

import pytest

import channels.discord.api  # noqa: F401  # its library warns, at its import
from channels.discord.events import ChannelDirectory, parse_event
from channels.message import InboundMessage

ROLES = [{"id": "55", "name": "dev ops"}, {"id": "9", "name": "@everyone"}]
GUILD = {"id": "7", "roles": ROLES, "channels": [{"id": "123", "type": 0, "name": "off-topic"}]}


@pytest.fixture
def known() -> ChannelDirectory:
    directory = ChannelDirectory("discord", bot_id="1")
    list(directory.on_guild(GUILD))
    return directory


def heard(known: ChannelDirectory, content: str, **more: object) -> InboundMessage:
    """What the host is told."""
    author, where = {"id": "2", "username": "ann"}, {"channel_id": "123", "guild_id": "7"}
    found = parse_event("MESSAGE_CREATE", {"id": "5", "content": content, "author": author, **where, **more}, known)
    assert isinstance(found, InboundMessage)
    return found


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("see <#123>", "see #off-topic"),
        ("ask <@&55>, <@&9>", "ask @dev_ops, @everyone"),
        ("<#404> and <@&404>", "<#404> and <@&404>"),
        ("<:party:88> <a:run_1:9>", ":party: :run_1:"),
        ("use </remind me:12>", "use /remind me"),
        ("at <t:1700000000:R>", "at 2023-11-14 22:13 UTC"),
    ],
)
def test_each_mark_is_what_people_see(known: ChannelDirectory, content: str, text: str) -> None:
    assert heard(known, content).text == text
    replied = {"id": "4", "content": content, "author": {"id": "3", "username": "bob"}}
    assert heard(known, "?", referenced_message=replied).references[0].text == text


def test_a_channel_with_a_new_name_has_that(known: ChannelDirectory) -> None:
    known.on_event("CHANNEL_UPDATE", {"id": "123", "guild_id": "7", "type": 0, "name": "news"})
    assert heard(known, "see <#123>").text == "see #news"
