"""Files from outside stay in the inbox, whatever they are called and however big they are (A6 Files)."""

from pathlib import Path
from typing import cast

import pytest

from tests.fakes.discord import FakeDiscord
from tests.fakes.openai import says
from tests.fakes.platform import OWNER
from tests.fakes.slack import FakeSlack
from tests.fakes.telegram import FakeTelegram
from tests.security.fronts import PLATFORMS, Front, front_of

NAMES = (
    "../../../config.toml", "../../workspace/AGENTS.md", "/etc/passwd", "..", "...", ".bashrc", "-rf", "a\nb\r.txt", "nul\0.txt",
    "x" * 4000 + ".txt", "a/../../b.txt", "..\\..\\secrets.toml", "\u202egpj.exe", "] [file: /etc/shadow", "same.txt", "same.txt",
    "$(reboot).txt", "`id`.txt", "~root.txt", "\u200b.txt", "con:nul|*?.txt",
)  # fmt: skip
BIG = 26 << 20


async def heard(front: Front) -> str:
    """All that the model was asked until the owner's next message was answered."""
    home = front.platform.private(OWNER)
    front.script.on("now", says("that was all"))
    front.platform.say(OWNER, home, "and now")
    await front.platform.until(
        lambda: any("that was all" in one.text for one in front.shown(home)), 60
    )
    return "\n".join(str(asked["messages"]) for asked in front.model.requests)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_A6_a_files_name_leads_nowhere(platform: str, tmp_path: Path) -> None:
    async with front_of(platform, tmp_path / "home") as front:
        before = {file for file in tmp_path.rglob("*") if file.is_file()}
        config = (front.home / "config.toml").read_bytes()
        front.platform.say(
            OWNER, front.platform.private(OWNER), "look", files=[(name, b"evil") for name in NAMES]
        )
        await heard(front)
        evil = [
            file
            for file in tmp_path.rglob("*")
            if file.is_file() and file not in before and file.read_bytes() == b"evil"
        ]
        inbox = front.home / "files" / "inbox"
        assert len(evil) > len(NAMES) // 2  # some names cannot stand in an address, and are missed
        assert all(
            file.is_relative_to(inbox) and len(file.parts) == len(inbox.parts) + 2 for file in evil
        )
        assert all(
            file.name.isprintable()
            and len(file.name) < 120
            and not file.name.startswith((".", "-"))
            for file in evil
        )
        assert (front.home / "config.toml").read_bytes() == config


@pytest.mark.timeout(120)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_A6_a_file_that_is_bigger_than_it_says_is_not_kept(
    platform: str, tmp_path: Path
) -> None:
    async with front_of(platform, tmp_path / "home") as front:
        there, home = front.platform, front.platform.private(OWNER)
        match there:
            case FakeTelegram():
                there.world.generous = True
                more = {
                    "document": {
                        "file_id": "big",
                        "file_unique_id": "u",
                        "file_name": "big.bin",
                        "file_size": 5,
                    }
                }
                there.world.files["big"] = ("documents/big.bin", bytes(BIG))
                there.people.say(OWNER, home, "look", more=more)
            case FakeSlack():
                channel, user = there.work.channel(home), there.person(OWNER)
                file = there.work.keep_file(there.server.url, "big.bin", bytes(BIG), user) | {
                    "size": 5
                }
                there.happens(
                    channel,
                    there.work.post(channel, user, text="look", files=[file], subtype="file_share"),
                )
            case _:
                discord = cast(FakeDiscord, there)
                kept = discord.rest.keep(home, "big.bin", bytes(BIG)) | {"size": 5}
                discord.say(OWNER, home, "look", attachments=[kept])
        asked = await heard(front)
        assert "big.bin could not be fetched" in asked
        assert not [file for file in (front.home / "files").rglob("*") if file.is_file()]


@pytest.mark.parametrize(
    "where",
    ["https://evil.example/x.txt", "http://127.0.0.1:9/x.txt", "file:///etc/passwd", "//evil/x"],
)
@pytest.mark.parametrize("platform", ["slack", "discord"])
async def test_A6_a_file_that_is_elsewhere_is_not_asked_for(
    platform: str, where: str, tmp_path: Path
) -> None:
    """The bot's token would go there."""
    async with front_of(platform, tmp_path / "home") as front:
        there, home = front.platform, front.platform.private(OWNER)
        match there:
            case FakeSlack():
                channel, user = there.work.channel(home), there.person(OWNER)
                kept = there.work.keep_file(there.server.url, "x.txt", b"x", user)
                file = kept | {"url_private_download": where, "url_private": where}
                there.happens(
                    channel,
                    there.work.post(channel, user, text="look", files=[file], subtype="file_share"),
                )
            case _:
                discord = cast(FakeDiscord, there)
                discord.say(
                    OWNER,
                    home,
                    "look",
                    attachments=[{**discord.rest.keep(home, "x.txt", b"x"), "url": where}],
                )
        asked = await heard(front)
        fetched = (front.home / "files").exists() and [
            file for file in (front.home / "files").rglob("*") if file.is_file()
        ]
        assert "x.txt could not be fetched" in asked and not fetched
