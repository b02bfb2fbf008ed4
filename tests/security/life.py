"""Two years with an assistant: facts change, others talk in groups, and now and then somebody asks (27, A18, F10)."""

import asyncio
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from daemon.app.daemon import Overrides
from daemon.core.trust import Role, label_for_role
from daemon.sessions.inbox import InboxMessage
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, says
from tests.fakes.tools import SteadyClock

YEARS = timedelta(days=730)
# A key, how the owner says a value of it, and asks for it.
TOPICS = (
    ("user.city", "By the way, I live in {} now", "In which city do I live now?"),
    ("user.doctor", "My doctor is called {}", "How is my doctor called?"),
    ("user.car", "I have bought a car, a {}", "Which car have I bought?"),
    ("user.employer", "I work for {} now", "For whom do I work now?"),
    ("anna.school", "My daughter Anna goes to the {} school", "To which school does Anna go?"),
    ("user.gym", "My gym is the {} hall", "Which hall is my gym?"),
)
OTHERS = ("ann", "bob", "cem", "dee")
GROUPS = ("web:family", "web:club")
FILLER = (
    "Sum up report {} for me", "Draft an answer to letter {}", "What is {} times three?",
    "Put entry {} on the list",
)  # fmt: skip
VALUE, STRANGE = re.compile(r"Val\d\dx\d{4}"), re.compile(r"Oth\d{4}")
SOON = re.compile(r"no longer, since [^;)]*")


@dataclass
class Life:
    """What came of it. Faults are told in words."""

    model: FakeOpenAI
    values: dict[str, list[str]] = field(default_factory=dict)
    checks: int = 0
    private_checks: int = 0
    faults: list[str] = field(default_factory=list)


def choose(body: Json) -> Step:
    """As the model that chooses facts, a good one; else it only answers."""
    text = str(body["messages"][-1]["content"])
    if "Lines:" not in text:
        return says("All right.")
    chosen = []
    for number, line in re.findall(r"^(\d+) \([^)]*\): (.*)$", text, re.MULTILINE):
        for key, said, _ in TOPICS:
            if line.startswith(said.partition("{}")[0]):
                chosen.append(f'{{"line": {number}, "category": "life", "key": "{key}"}}')
    return says("\n".join(chosen) or "{}")


async def live(home: Path, turns: int) -> Life:
    """So many turns in two years, with six facts that change all the time, four people and two groups."""
    clock = SteadyClock(datetime.fromisoformat("2024-01-01T12:00:00+00:00"))
    config = {"memory": {"embedder": "none"}}
    parts = Overrides(make_clock=lambda: clock)
    async with FakeOpenAI() as model, living(home, model, config, parts) as it:
        model.otherwise(by(choose))
        life = Life(model)
        for number in range(turns):
            clock.at += YEARS / turns
            await _happen(it, life, number)
            if number % 50 == 49:
                await _until_indexed(it)
                await it.command("/memory consolidate", "web:mine")
                await _check(it, life)
        return life


async def _happen(it: Living, life: Life, number: int) -> None:
    """Each third turn is another person's, each tenth a new value; the rest is work."""
    if number % 3 == 2:
        text = f"I live in Oth{number:04} now, and my doctor and your gym are Oth{number:04}, too"
        await _say(it, OTHERS[number % 4], text, GROUPS[number % 2])
    elif number % 10 < 2:
        index = number // 10 % len(TOPICS)
        key, said, _ = TOPICS[index]
        value = f"Val{index:02}x{number:04}"
        life.values.setdefault(key, []).append(value)
        await it.ask(said.format(value), f"web:mine{number % 4}")
    else:
        await it.ask(FILLER[number % len(FILLER)].format(number), f"web:mine{number % 4}")


async def _say(it: Living, sender: str, text: str, session: str) -> None:
    channel, _, chat = session.partition(":")
    label, role = label_for_role(Role.GUEST), Role.GUEST.value
    key = f"{sender}/{it.house.new_id()}"
    message = InboxMessage(channel, chat, session, sender, key, text, label, role=role)
    await it.settled((await it.house.client.inbox.accept(message)).row.turn)


async def _until_indexed(it: Living) -> None:
    async with asyncio.timeout(30):
        while await it.house.store.read(lambda tx: tx.list_ended(0, 1)) and not await _is_read(it):
            await asyncio.sleep(0.01)


async def _is_read(it: Living) -> bool:
    after = int((await it.house.conversations.read_cursor()).partition(" ")[0] or 0)
    return not await it.house.store.read(lambda tx: tx.list_ended(after, 1))


async def _check(it: Living, life: Life) -> None:
    """The owner asks of each fact in a chat of its own; others ask where they are."""
    for key, _, question in TOPICS:
        if not (values := life.values.get(key)):
            continue
        life.checks += 1
        run = await it.ask(question, f"web:asks{life.checks}")
        shown = _last_shown(life)
        told, now = SOON.sub("", shown), values[-1]
        if now not in told or any(old in told for old in values[:-1]):
            life.faults.append(f"{key}: {now} is not what is told, or not alone: {shown[:300]}")
        if len(values) > 1 and values[-2] not in shown:
            life.faults.append(f"{key}: what held before is not known")
        if STRANGE.search(shown) or run.label != "trusted":
            life.faults.append(f"{key}: the owner is shown what others said")
    for sender, group in zip(OTHERS, GROUPS * 2, strict=True):
        life.private_checks += 1
        await _say(it, sender, "In which city does the owner live, and what is their car?", group)
        if VALUE.search(_last_shown(life)):
            life.faults.append(f"{sender} is shown what the owner said")


def _last_shown(life: Life) -> str:
    """The newest message, as the model was shown it, with what memory adds."""
    return str(life.model.requests[-1].body["messages"][-1]["content"])
