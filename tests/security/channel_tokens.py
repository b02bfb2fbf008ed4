"""What the platforms entrust to the house, planted, and looked for in all that it leaves and says (A6, issue 5)."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import tomli_w

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.discord import TOKEN as DISCORD_TOKEN
from tests.fakes.discord import FakeDiscord
from tests.fakes.openai import FakeOpenAI, says
from tests.fakes.platform import OWNER, STRANGER, Fault, Platform
from tests.fakes.slack import FakeSlack
from tests.fakes.slack.server import APP_TOKEN, BOT_TOKEN
from tests.fakes.telegram import FakeTelegram
from tests.fakes.wordy_model import Script, shell
from tests.security.planted import ways

TELEGRAM_TOKEN = "7001:telegram-Ab9_token-of-the-house"
TRIGGER, RESPONSE, VERIFIED = "trigger.9f8e7d6c5b", "response-0a1b2c3d4e", "verification-5f6e7d8c"
FROM_THE_CONFIG = {
    "telegram": TELEGRAM_TOKEN,
    "slack app": APP_TOKEN,
    "slack bot": BOT_TOKEN,
    "discord": DISCORD_TOKEN,
}
PASSING = {
    "trigger": TRIGGER,
    "response_url": RESPONSE,
    "verification token": VERIFIED,
    "interaction token": "itok-",
}
OURS = ("config.toml", "config.toml.lastgood", "daemon.json")
SEND = {
    "telegram": ("sendMessage", "getUpdates"),
    "slack": ("chat.postMessage",),
    "discord": ("POST messages",),
}


@dataclass(frozen=True, slots=True)
class Found:
    """Where which of them was, and in how many places it was looked for."""

    traces: list[str]
    places: int
    log: str


async def traces(home: Path) -> Found:
    """A daemon that logs everything meets them on all three platforms, in good order and in trouble."""
    platforms = [FakeTelegram(token=TELEGRAM_TOKEN), FakeSlack(), FakeDiscord()]
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(FakeOpenAI())
        for platform in platforms:
            await platform.start()
            stack.push_async_callback(platform.stop)
        tables = tomli_w.dumps({platform.name: platform.config() for platform in platforms})
        daemon = await stack.enter_async_context(
            running_daemon(home, scripted(model.base_url, tables), verbose=True)
        )
        heard = [await _use(cast(Platform, platform), Script(model)) for platform in platforms]
        for page in ("/health", "/v1/sessions", "/v1/approvals"):
            async with daemon.http.get(page) as response:
                heard.append(await response.text())
        for words in (("doctor", "--json"), ("show",)):
            done = await asyncio.to_thread(aidaemon, *words, home=home)
            heard.append(done.stdout + done.stderr)
        await daemon.terminate()
        left = {f"request {i}": asked.raw for i, asked in enumerate(model.requests)}
        left |= {f"said {i}": text.encode() for i, text in enumerate(heard)} | {
            "log": "".join(daemon.log).encode()
        }
    files = [file for file in home.rglob("*") if file.is_file() and file.name not in OURS]
    left |= {str(file.relative_to(home)): file.read_bytes() for file in files}
    return Found(_traces(left), len(left), "".join(daemon.log))


def _traces(left: dict[str, bytes]) -> list[str]:
    planted = [
        (name, way) for name, value in FROM_THE_CONFIG.items() for way in ways(value)
    ] + list(PASSING.items())
    return [
        f"{name} in {place}: ...{data[max(0, at - 120) : at + 60]!r}"
        for place, data in left.items()
        for name, way in planted
        if (at := data.find(way.encode())) >= 0
    ]


async def _use(platform: Platform, script: Script) -> str:
    """Messages, files, buttons, commands, strangers; then faults, and a token that is known no longer. What people saw."""
    home, group = platform.private(OWNER), platform.group(OWNER)
    await _told(platform, script, home)
    platform.say(OWNER, home, "keep this", files=[("report.txt", b"words")])
    script.on("run", shell("touch x; rm -f x"), says("ok"))
    platform.say(OWNER, group, platform.mention("please run"))
    await platform.until(lambda: any(one.buttons for one in platform.shown(group)))
    asked = next(one for one in platform.shown(group) if one.buttons)
    platform.press(STRANGER, asked.id, asked.buttons[0].data)
    platform.press(OWNER, asked.id, asked.buttons[0].data)
    _more(platform, home)
    platform.poison()
    platform.say(STRANGER, platform.private(STRANGER), "hello")
    for method in SEND[platform.name]:
        platform.fail(method, Fault("status", 500), Fault("garbage"), Fault("drop"))
    await _told(platform, script, home)
    platform.say(OWNER, home, "/status")
    await platform.until(
        lambda: any("model" in one.text.lower() for one in platform.shown(home) if one.by_bot)
    )
    platform.revoke()
    platform.say(OWNER, home, "hello?")
    return json.dumps(
        [[one.text for one in platform.shown(chat)] for chat in (home, group)]
        + [platform.pressed()]
    )


async def _told(platform: Platform, script: Script, home: str) -> None:
    number = len(platform.calls.made)
    script.on(f"hello{number}", says(f"well-{number}"))
    platform.say(OWNER, home, f"hello{number}")
    await platform.until(
        lambda: any(f"well-{number}" in one.text for one in platform.shown(home)), 60
    )


def _more(platform: Platform, home: str) -> None:
    """Slash commands, and such things as nobody can read, with the tokens that come with them."""
    passing = {
        "trigger_id": TRIGGER,
        "response_url": f"https://hooks.example/{RESPONSE}",
        "token": VERIFIED,
    }
    match platform:
        case FakeSlack():
            who = {
                "user_id": platform.person(OWNER),
                "user_name": OWNER,
                "command": "/aidaemon",
                "text": "status",
            }
            platform.sockets.send("slash_commands", {**who, "channel_id": home, **passing})
            platform.sockets.send("slash_commands", {"command": 5, **passing})
            platform.sockets.send(
                "interactive",
                {"type": "block_actions", "user": 5, "message": {"ts": "x"}, **passing},
            )
            platform.sockets.send(
                "events_api",
                {"event": {"type": "message", "text": 5}, "event_id": "Ev0", **passing},
            )
        case FakeDiscord():
            platform.slash(OWNER, home, "status")
            broken = {
                "id": 7,
                "application_id": [],
                "token": "itok-broken",
                "type": "x",
                "data": {"custom_id": 5},
            }
            platform._emit("INTERACTION_CREATE", broken)
        case _:
            return
