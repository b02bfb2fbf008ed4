"""A proxy that the environment names is used by every channel, and not for a server on this machine (F1)."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import closing

import pytest
from aiohttp import web

from channels.base import Channel, RetryLater, Revoked
from channels.discord.channel import Discord
from channels.discord.config import DiscordAccount
from channels.slack.channel import Slack
from channels.slack.config import SlackAccount
from channels.telegram.channel import Telegram
from channels.telegram.config import TelegramAccount

Make = Callable[[str], Channel]
MAKES: dict[str, Make] = {
    "telegram": lambda host: Telegram(TelegramAccount(bot_token="1:a", base_url=f"http://{host}")),
    "slack": lambda host: Slack(
        SlackAccount(bot_token="xoxb-1", app_token="xapp-1", base_url=f"http://{host}/api/")
    ),
    "discord": lambda host: Discord(
        DiscordAccount(bot_token="a.b", api_url=f"http://{host}/api/v10")
    ),
}
NO = b'{"ok": false, "error": "invalid_auth", "error_code": 401, "description": "no", "message": "no", "code": 0}'
makes = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[str]]:
    """The hosts that a proxy was asked for; the environment names it, and it refuses everything."""
    hosts: list[str] = []

    async def refuse(request: web.BaseRequest) -> web.Response:
        hosts.append(request.host)
        return web.Response(status=401, body=NO, content_type="application/json")

    runner = web.ServerRunner(web.Server(refuse))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{runner.addresses[0][1]}")
    yield hosts
    await runner.cleanup()


@makes
async def test_a_proxy_of_the_environment_is_used(make: Make, asked: list[str]):
    channel = make("platform.test")
    with pytest.raises(Revoked):
        await channel.check()
    await channel.aclose()
    assert asked == ["platform.test"]


@makes
async def test_a_server_on_this_machine_needs_no_proxy(make: Make, asked: list[str]):
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    channel = make(f"127.0.0.1:{port}")
    with pytest.raises(RetryLater):
        await channel.check()
    await channel.aclose()
    assert asked == []
