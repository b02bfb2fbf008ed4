"""A fake platform with people who talk there, as a process of its own: `python -m tests.bench.people telegram 200`.

Prints the part of config.toml that reaches it, as JSON; then, for every line {"people": [first, last], "turns": n, "at_once":
bool} on its standard input, it lets each of these people say something n times, each time when the last was answered, and prints
the seconds that each answer took.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from time import perf_counter

from tests.fakes.platform import Platform
from tests.fakes.platforms import SEND, comings, fake

WHERE = {"telegram": "chat_id", "slack": "channel", "discord": "channel"}
SAID, ANSWER = "hello", "ok"
LONGEST_S = 120.0
Json = dict[str, object]


class People:
    """`names` of so many people, each with a private chat."""

    def __init__(self, platform: Platform, number: int) -> None:
        self._platform = platform
        self.names = [f"p{one}" for one in range(number)]
        self._chats = {name: platform.private(name) for name in self.names}
        self._seen = 0

    def config(self) -> Json:
        """The platform's own, in which all of them are let in."""
        config = self._platform.config()
        return config | {"allowed_user_ids": [self._platform.person(name) for name in self.names]}

    async def listened(self) -> None:
        """Wait until the bot has come; what is said while it is away later on it finds itself."""
        await self._platform.until(lambda: comings(self._platform) > 0, LONGEST_S)

    async def talk(self, names: Sequence[str], turns: int) -> list[float]:
        """All at once; the seconds that each answer took."""
        left = dict.fromkeys(names, turns)
        waiting = {self._chats[name]: name for name in names}
        began: dict[str, float] = {}
        took: list[float] = []
        for name in names:
            self._say(name, left, began)
        while began:
            await self._platform.until(
                lambda: len(self._platform.calls.made) > self._seen, LONGEST_S
            )
            now = perf_counter()
            for chat in self._answered():
                name = waiting.get(chat, "")
                if name in began:
                    took.append(now - began.pop(name))
                    self._say(name, left, began)
        return took

    def _say(self, name: str, left: dict[str, int], began: dict[str, float]) -> None:
        if left[name]:
            left[name] -= 1
            began[name] = perf_counter()
            self._platform.say(name, self._chats[name], SAID)

    def _answered(self) -> list[str]:
        """Chats in which an answer came since this was asked last."""
        method, where = SEND[self._platform.name], WHERE[self._platform.name]
        calls, self._seen = self._platform.calls.made[self._seen :], len(self._platform.calls.made)
        sent = [given for name, given in calls if name == method]
        return [
            str(given[where])
            for given in sent
            if ANSWER in (given.get("text"), given.get("content"))
        ]


async def _main(name: str, number: int) -> None:
    platform = fake(name)
    await platform.start()
    people = People(platform, number)
    _tell({name: people.config()})
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            first, last = asked["people"]
            await people.listened()
            names = people.names[first:last]
            groups = [names] if asked["at_once"] else [[name] for name in names]
            _tell(
                [
                    seconds
                    for group in groups
                    for seconds in await people.talk(group, asked["turns"])
                ]
            )
    finally:
        await platform.stop()


def _tell(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
