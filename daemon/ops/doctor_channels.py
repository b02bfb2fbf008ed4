"""The doctor's questions to the platforms: is the token good, who are we there, and is anybody let in."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from channels.base import Channel, ChannelError, Revoked
from daemon.core.errors import ConfigError
from daemon.ops.checked import Check

PATIENCE_S = 10.0
NETWORK = "look at the network; the daemon tries again by itself"


@dataclass(frozen=True, slots=True)
class Line:
    """One account of the config. `section` is its place there; `allowed` and `owners` are how many people it lists."""

    name: str
    section: str
    open: Callable[[], Channel]
    allowed: int
    owners: int


def check_muted(sections: Sequence[str]) -> list[Check]:
    """People are listed where no token is: an empty variable, perhaps."""
    found, advice = "people are listed, but bot_token is empty: it is not started", "put the bot's token there, as secret:NAME"
    return [Check(name, "warn", found, f"{advice}; `aidaemon config get {name}` shows what holds") for name in sections]


async def check_channels(lines: Sequence[Line]) -> list[Check]:
    """All of them at once."""
    return [check for checks in await asyncio.gather(*map(_check, lines)) for check in checks]


async def _check(line: Line) -> list[Check]:
    return [await _asked(line), *_people(line)]


async def _asked(line: Line) -> Check:
    try:
        channel = line.open()
    except ConfigError as error:
        return Check(line.name, "fail", str(error), f"see [{line.section}]")
    try:
        async with asyncio.timeout(PATIENCE_S):
            return Check(line.name, "ok", f"the token is good: {await channel.check()}")
    except Revoked as error:
        return Check(line.name, "fail", str(error), f"mend that in [{line.section}], or at the platform")
    except TimeoutError:
        return Check(line.name, "fail", f"no answer within {PATIENCE_S:g} seconds", NETWORK)
    except ChannelError as error:
        return Check(line.name, "fail", str(error), NETWORK)
    finally:
        await _closed(channel)


async def _closed(channel: Channel) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await channel.aclose()
    except (ChannelError, TimeoutError, OSError):
        return


def _people(line: Line) -> list[Check]:
    """Nobody is let in by being first: a channel without people talks to nobody."""
    name = f"{line.name} people"
    if not line.allowed and not line.owners:
        nobody = "nobody is listed: only those who had a code (`aidaemon pair`) are let in"
        return [Check(name, "warn", nobody, f"put your own id into owner_ids of [{line.section}]")]
    if not line.owners and line.allowed > 1:
        headless = f"{line.allowed} people may talk, and none of them may approve what cannot be undone"
        return [Check(name, "warn", headless, f"put your own id into owner_ids of [{line.section}]")]
    return []
