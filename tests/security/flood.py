"""A flood of events at once, and how the owner's chat fares in it (issue 11, class K)."""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from aiohttp import ClientSession

from tests.fakes.daemon_process import TOKEN, Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI

BELL = "bell-token-2"
EVENTS = f'[events]\nenabled = true\nnotify = "terminal:main"\n[events.tokens]\nbell = "{BELL}"\n'
FLOOD, PAYLOAD = 1500, {"log": "x" * 20_000, "rows": [[number] for number in range(300)]}
MOST_RSS, MOST_JOURNAL = 150 << 20, 50 << 20
QUESTIONS = 5


@dataclass(frozen=True, slots=True)
class Flooded:
    """`waits`: seconds until the owner was answered; `grown`: bytes of the journal for one event that was taken."""

    taken: int
    refused: int
    unexplained: int
    done: int
    waits: tuple[float, ...]
    memory: int
    journal: int
    grown: float

    def __str__(self) -> str:
        return (
            f"flood: {self.taken} taken, {self.refused} refused; owner {max(self.waits):.2f} s;"
            f" RSS {self.memory >> 20} MB; journal {self.journal / (1 << 20):.1f} MB"
        )


async def post(daemon: Daemon, path: str, token: str, body: object) -> tuple[int, str, str]:
    """Status, Retry-After, the text."""
    headers = {"Authorization": f"Bearer {token}"}
    async with daemon.http.post(path, json=body, headers=headers) as response:
        return response.status, response.headers.get("Retry-After", ""), await response.text()


async def flood(home: Path, model: FakeOpenAI, events: int = FLOOD) -> Flooded:
    """All at once; meanwhile the owner asks, and at the end every event that was taken has been answered."""
    async with running_daemon(
        home, scripted(model.base_url, EVENTS), {"PYTHONNOUSERSITE": "1"}
    ) as daemon:
        await daemon.ask("hello")
        before = _size(home)
        sent = [
            asyncio.create_task(post(daemon, "/v1/events/bell", BELL, PAYLOAD))
            for _ in range(events)
        ]
        await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
        waits = [await _ask(daemon.url, number) for number in range(QUESTIONS)]
        answers = await asyncio.gather(*sent)
        taken = [json.loads(text) for status, _, text in answers if status == 202]
        refused = [
            text
            for status, wait, text in answers
            if status == 429 and 0 < int(wait or 0) <= 60 and "not accepted" in text
        ]
        for one in taken:
            await daemon.until(str(one["turn"]), "run.completed")
        ended = [await daemon.run(str(one["turn"])) for one in taken]
        done, journal = sum(one["stop_reason"] == "done" for one in ended), _size(home)
        unexplained = len(answers) - len(taken) - len(refused)
        grown = (journal - before) / max(1, len(taken))
        memory = _memory_of(daemon.process.pid)
    return Flooded(
        len(taken), len(refused), unexplained, done, tuple(waits), memory, journal, grown
    )


async def _ask(url: str, number: int) -> float:
    """Not in the flood's own queue."""
    headers, asked = {"Authorization": f"Bearer {TOKEN}"}, {"text": f"are you there? {number}"}
    async with ClientSession(url, headers=headers) as http:
        began = perf_counter()
        async with http.post("/v1/messages?wait=1", json=asked) as response:
            assert (await response.json())["stop_reason"] == "done"
        return perf_counter() - began


def _memory_of(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) << 10


def _size(home: Path) -> int:
    return sum(file.stat().st_size for file in home.glob("journal.db*"))
