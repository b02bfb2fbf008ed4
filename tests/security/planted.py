"""Twenty planted secrets, a daemon that meets them everywhere, and what is left of them (issue 4, "Measure it")."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from daemon.settings.secrets import SecretStore
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Step, by, calls, fails, says
from tests.security.encodings import ENCODINGS

HOW_MANY = 20
KEY = "sk-environment-0f9d8c7b6a"
HEADER = "header-key-77aa66bb55"
OURS = ("secrets.toml", "config.toml", "config.toml.lastgood", "daemon.json")
SECRETS = {
    f"canary{i}": f"{base64.b85encode(bytes(range(7 * i, 7 * i + 18))).decode()}/é{i}"
    for i in range(HOW_MANY - 2)
}
SECRETS |= {"configured": "s3cret of the config", "plain": "correct horse battery staple"}
MORE = f"""
[provider.extra_headers]
X-Api-Key = "{HEADER}"
[[provider.fallbacks]]
kind = "anthropic"
base_url = "http://127.0.0.1:9/v1"
api_key = "secret:configured"
[tools.shell]
max_output_chars = 100000
"""


def ways(value: str) -> Iterator[str]:
    """A secret as it may be written."""
    raw = value.encode()
    for name, way in ENCODINGS.items():
        if not name.startswith("base64"):
            yield way(value)
    for ahead in range(3):
        cut = slice(-(-8 * ahead // 6), 8 * (ahead + len(raw)) // 6)
        yield base64.b64encode(bytes(ahead) + raw).decode()[cut]
        yield base64.urlsafe_b64encode(bytes(ahead) + raw).decode()[cut]
        yield quote(base64.b64encode(bytes(ahead) + raw).decode()[cut], safe="")


def every_way(value: str) -> str:
    """What a careless tool prints."""
    raw = value.encode()
    padded = (base64.b64encode(b"u" * ahead + raw + b"\n").decode() for ahead in range(3))
    return "\n".join(
        [
            *ways(value),
            *padded,
            f'{{"key": {json.dumps(value)}}}',
            f"\x1b[1m{value[:9]}\x1b[0m{value[9:]}",
        ]
    )


def everything() -> str:
    return "\n".join(every_way(value) for value in (*SECRETS.values(), KEY, HEADER))


@dataclass
class Meeting:
    """A daemon, its model, and everything that it said to anybody."""

    daemon: Daemon
    model: FakeOpenAI
    heard: list[str] = field(default_factory=list)

    async def ask(self, text: str) -> str:
        """Say it, look on to the end, approving what is asked; the turn."""
        turn = await self.daemon.begin(text)
        async with asyncio.timeout(60):
            async for sent in self.daemon.stream(turn):
                self.heard.append(json.dumps(sent.data, ensure_ascii=False))
                if sent.name == "approval.asked":
                    await self._say_yes(turn)
        for page in (f"/v1/runs/{turn}", "/v1/sessions", "/v1/approvals"):
            self.heard.append(json.dumps(await self.daemon.get(page), ensure_ascii=False))
        return turn

    async def _say_yes(self, turn: str) -> None:
        for asked in await self.daemon.listed("/v1/approvals", state="pending"):
            self.heard.append(json.dumps(asked, ensure_ascii=False))
            await self.daemon.post(f"/v1/runs/{turn}/approve", call_id=asked["call_id"])

    def left(self) -> dict[str, bytes]:
        """All that a secret could be left in, by where it is."""
        home = self.daemon.home
        files = [
            file
            for file in home.rglob("*")
            if file.is_file() and file.name not in OURS and "leak" not in file.name
        ]
        asked = {f"request {i}": asked.raw for i, asked in enumerate(self.model.requests)}
        said = {"stderr": "".join(self.daemon.log).encode(), "told": "\n".join(self.heard).encode()}
        return {str(file.relative_to(home)): file.read_bytes() for file in files} | asked | said


def found(left: dict[str, bytes]) -> list[str]:
    """Where which secret was left, and how it was written there."""
    values = {**SECRETS, "KEY": KEY, "HEADER": HEADER}
    return [
        f"{name} in {place}: {way!r}"
        for place, data in left.items()
        for name, value in values.items()
        for way in ways(value)
        if way.encode() in data or way.encode("unicode_escape") in data
    ]


@asynccontextmanager
async def meeting(home: Path) -> AsyncIterator[Meeting]:
    """A daemon whose workspace and settings are full of secrets."""
    for name, value in SECRETS.items():
        SecretStore(home / "secrets.toml").put(name, value, ["api.example.com"])
    work = home / "workspace"
    work.mkdir()
    for i, value in enumerate((*SECRETS.values(), KEY, HEADER)):
        (work / f"leak{i}.txt").write_text(every_way(value))
    (work / "leak.txt").write_text(everything())
    async with FakeOpenAI() as model:
        config = scripted(model.base_url, MORE).replace(
            "[provider.models]", 'api_key = "${A_KEY}"\n[provider.models]'
        )
        async with running_daemon(home, config, {"A_KEY": KEY}) as daemon:
            yield Meeting(daemon, model)


def _gives_all_back() -> Step:
    """A model that calls by what it read: none of it should be a secret."""
    return by(lambda body: says("I read: " + json.dumps(body["messages"][-3:])))


async def meet_everywhere(meeting: Meeting) -> None:
    """In what people, models, tools, errors and commands say."""
    model, values = meeting.model, list(SECRETS.values())
    reading = [("read_file", {"path": f"leak{i}.txt"}) for i in range(HOW_MANY + 2)]
    model.script(
        says(f"You said {values[0]}, I know {everything()}")
    )  # a model that knows, in a stream of pieces
    model.script(calls(*reading), _gives_all_back())
    model.script(
        calls(("shell", {"command": "cat leak.txt; echo; cat leak.txt >&2"})), _gives_all_back()
    )
    model.script(
        calls(
            ("shell", {"command": f"echo '{values[1]}' $(echo {KEY})"}),
            ("read_file", {"path": values[2]}),
        )
    )
    model.script(
        calls((f"no_{values[3]}", {}), ("read_file", f"no JSON: {values[4]}")), says("done")
    )
    model.script(
        fails(
            400,
            {
                "error": {
                    "message": f"bad key {everything()[:200]}",
                    "type": "invalid_request_error",
                }
            },
        )
    )
    model.script(fails(401, f"<html>{HEADER} {values[5]}</html>"), says("never"))
    await meeting.ask(f"my password is {values[0]} and {every_way(values[6])}")
    await meeting.ask("read them")
    await meeting.ask("print them")
    await meeting.ask("call with them")
    await meeting.ask("an error that gives them back")
    async with meeting.daemon.http.post(
        "/v1/messages", json={"text": f"/model {values[7]}", "session": "default"}
    ) as response:
        meeting.heard.append(await response.text())


@dataclass(frozen=True, slots=True)
class Traces:
    """What was found of the secrets: while the daemon ran, and after it had ended; in how many places it was looked for, and how
    many secrets were met and taken out.
    """

    running: list[str]
    ended: list[str]
    places: tuple[int, int]
    taken_out: int


async def traces(home: Path) -> Traces:
    """Meet all of them, and look."""
    async with meeting(home) as at:
        await meet_everywhere(at)
        running = at.left()
        said = "\n".join(at.heard)
        if code := await at.daemon.terminate():
            raise RuntimeError(f"the daemon ended with {code}")
        ended = at.left()
    taken_out = sum(f"[secret {name}]" in said for name in SECRETS)
    return Traces(found(running), found(ended), (len(running), len(ended)), taken_out)
