"""The three fake platforms by name, and what can be seen of a bot at each of them."""

from collections.abc import Callable, Mapping

from tests.fakes.discord import FakeDiscord
from tests.fakes.platform import Platform
from tests.fakes.slack import FakeSlack
from tests.fakes.telegram import FakeTelegram

MADE: Mapping[str, Callable[[], Platform]] = {
    "telegram": FakeTelegram,
    "slack": FakeSlack,
    "discord": FakeDiscord,
}
NAMES = tuple(MADE)
SEND = {"telegram": "sendMessage", "slack": "chat.postMessage", "discord": "POST messages"}
"""What a platform calls the sending of a message."""


def fake(name: str) -> Platform:
    """The platform of this name."""
    return MADE[name]()


def comings(platform: Platform) -> int:
    """How often the bot has come to hear what is said (at Telegram: how often it asked)."""
    match platform:
        case FakeSlack():
            return platform.sockets.connected
        case FakeDiscord():
            return len(platform.gateway.sessions)
        case _:
            return len(platform.calls.of("getUpdates"))
