"""Thirty people talk, the platform repeats itself and talks nonsense, and the daemon is killed again and again."""

import asyncio
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from aiohttp import web

from tests.e2e.channels.fate import Fate
from tests.e2e.channels.stage import MARK, Stage, Tables, by_bot, said_last, stage
from tests.fakes.openai import Exchange, says
from tests.fakes.platform import OTHER, OWNER, Platform
from tests.fakes.platforms import comings

PEOPLE = (OWNER, OTHER, *(f"user{n:02}" for n in range(3, 31)))
TOGETHER = PEOPLE[:5]
MESSAGES, IN_THE_GROUP, KILLS, SPARED = 300, 12, 30, 2
MOST = {"call": 30, "asked": 12, "answered": 12, "said": 10}
ACKS = {"ack": 10}
"""At Slack an acknowledgement is no call: who has it and not the message would lose it there."""


def settings(platform: Platform) -> Tables:
    """Everybody is let in."""
    people = [platform.person(name) for name in PEOPLE]
    allowed = [int(one) if one.isdecimal() else one for one in people]
    return {"agent": {"while_busy": "queue"}, platform.name: {"allowed_user_ids": allowed}}


@dataclass(slots=True)
class Conversation:
    """What was said in a chat, by its marks; `open`: what has not been seen answered yet."""

    chat: str
    people: tuple[str, ...]
    thread: str = ""
    said: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    open: set[str] = field(default_factory=set)

    def answers(self, platform: Platform) -> list[str]:
        """The marks in what the bot said, in order."""
        return [
            mark
            for one in by_bot(platform, self.chat)
            for mark in MARK.findall(one.text) or [one.text]
        ]


@dataclass(slots=True)
class Crowd:
    """`chance` decides who says what when, and when the daemon dies. `under_way`: replies that were being sent at a kill, each
    as often as a kill met it. `met`: the kills that each message has lived through unanswered.
    """

    it: Stage
    chance: random.Random
    talks: list[Conversation] = field(default_factory=list)
    unsaid: list[Conversation] = field(default_factory=list)
    now: int = 0
    again: int = 0
    poisons: int = 0
    under_way: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        platform = self.it.platform
        self.talks = [Conversation(platform.private(name), (name,)) for name in PEOPLE]
        self.unsaid = self.chance.choices(self.talks, k=MESSAGES - IN_THE_GROUP)
        group = Conversation(platform.group(*TOGETHER), TOGETHER)
        self.unsaid += [group] * IN_THE_GROUP
        self.talks.append(group)
        self.chance.shuffle(self.unsaid)
        self.it.model.otherwise(self._model)
        self.it.fate.heard = self._something

    @property
    def fate(self) -> Fate:
        """The daemon's."""
        return self.it.fate

    async def talk(self) -> None:
        """All of it."""
        for life in range(KILLS):
            await self.live(life)
        self.fate.kind = ""
        await self.fate.start()
        self.now = len(self.unsaid)
        while self.now:
            self._say()
        try:
            await self.it.platform.until(lambda: not self._open(), 40)
        except TimeoutError as late:
            raise AssertionError(
                f"never answered: {_stuck(self.fate.home, self._open())}\n{self.fate.log[-4000:]}"
            ) from late
        assert await self.fate.terminate() == 0

    async def live(self, life: int) -> None:
        """One life; it ends at a moment of its own, or when there is nothing left to do."""
        fate, platform = self.fate, self.it.platform
        self.now = len(self.unsaid) // (KILLS + 1 - life)
        fate.kind = ""
        await fate.start()
        if life == 0:
            await platform.until(lambda: comings(platform) > 0)
        await self._spared()
        kinds = MOST | (ACKS if platform.name == "slack" else {})
        kind = self.chance.choice(tuple(kinds))
        fate.dies_at(kind, self.chance.randrange(1, kinds[kind]))
        while fate.alive and (self.now or self._open()):
            if not self._open() or self.chance.random() < 0.5:
                self._say()
            await self._quiet_or_dead()
        fate.kill()
        await fate.buried()
        self.under_way.update(_being_sent(fate.home))
        self.met.update(self._open())
        while self.now:
            self._say()

    async def _spared(self) -> None:
        """Who has met two kills is answered before the next: a third could be their own doing: another story (K25)."""
        tried = {mark for mark, kills in self.met.items() if kills >= SPARED}
        await self.it.platform.until(lambda: tried.isdisjoint(self._open()), 40)

    async def _quiet_or_dead(self) -> None:
        """Nothing is open any more, or the daemon has died; that is no news to the platform."""
        async with asyncio.timeout(30):
            while self.fate.alive and self._open():
                with suppress(TimeoutError):
                    await self.it.platform.until(
                        lambda: not (self.fate.alive and self._open()), 0.3
                    )

    def _something(self, kind: str) -> None:
        """Whenever something happens, somebody may say something more."""
        if kind not in MOST | ACKS:
            self.fate.happens("call")
        elif kind == "call" and self.now and self.chance.random() < 0.3:
            asyncio.get_running_loop().call_soon(self._say)

    def _say(self) -> None:
        if not self.now:
            return
        self.now -= 1
        talk = self.unsaid.pop()
        number = MESSAGES - len(self.unsaid)
        platform, person = self.it.platform, self.chance.choice(talk.people)
        text = f"what about m{number:03}?"
        if len(talk.people) > 1 and not talk.thread:
            text = platform.mention(text)
        talk.said.append(f"m{number:03}")
        talk.open.add(f"m{number:03}")
        talk.ids.append(platform.say(person, talk.chat, text, thread=talk.thread))
        if platform.name == "slack" and len(talk.people) > 1:
            talk.thread = talk.ids[0]
        if self.chance.random() < 0.3:
            self.again += 1
            platform.again(self.chance.choice(talk.ids))
        if self.chance.random() < 0.1:
            self.poisons += 1
            platform.poison()
        self.fate.happens("said")

    def _open(self) -> set[str]:
        """What was said and has no answer yet."""
        for talk in self.talks:
            if talk.open:
                talk.open.difference_update(talk.answers(self.it.platform))
        return {mark for talk in self.talks for mark in talk.open}

    async def _model(self, x: Exchange) -> web.StreamResponse:
        self.fate.happens("asked")
        marks = MARK.findall(said_last(x.asked.body))
        try:
            response = await says(f"re: {' '.join(marks)}", delay=self.chance.uniform(0.01, 0.12))(
                x
            )
        except ConnectionResetError:  # it has died meanwhile
            return x.drop()
        self.fate.happens("answered")
        return response


@dataclass(slots=True)
class Count:
    """What became of it all. `extra`: replies more than there should be; `proven`: those that a kill met on their way."""

    said: int = 0
    lost: int = 0
    extra: int = 0
    proven: int = 0
    out_of_order: int = 0
    handled_twice: int = 0
    inbox: int = 0
    states: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    seconds: float = 0.0
    about: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lost = f"{self.said} said, {self.lost} lost, {self.handled_twice} handled twice, {self.out_of_order} chats out of order"
        where = "".join(f"\n{line}" for line in self.about)
        return f"{self.kills} kills in {self.seconds} s: {lost}, {self.extra} extra replies ({self.proven} proven){where}"


def count(crowd: Crowd, journal: Path) -> Count:
    """At the platform, and in the journal."""
    told = Count(said=sum(len(talk.said) for talk in crowd.talks), kills=crowd.fate.kills)
    for talk in crowd.talks:
        answers = talk.answers(crowd.it.platform)
        extra = Counter(answers) - Counter(talk.said)
        told.lost += len(set(talk.said).difference(answers))
        told.extra += extra.total()
        told.proven += sum(
            min(times, crowd.under_way[f"re: {mark}"]) for mark, times in extra.items()
        )
        in_order = list(dict.fromkeys(answers)) == talk.said
        told.out_of_order += not in_order
        if extra or not in_order:
            told.about.append(f"{talk.chat}: said {talk.said}, answered {answers}")
    _of_the_journal(told, journal)
    return told


def _stuck(home: Path, marks: set[str]) -> list[tuple[str, ...]]:
    """How far these messages have come."""
    about = "SELECT i.body, i.state, t.state, o.state, o.attempts, o.error FROM inbox i LEFT JOIN turns t ON t.id = i.turn"
    with closing(sqlite3.connect(f"file:{home / 'journal.db'}?mode=ro", uri=True)) as db:
        rows = db.execute(f"{about} LEFT JOIN outbox o ON o.turn = i.turn").fetchall()
    found = [row for row in rows if marks.intersection(MARK.findall(row[0]))]
    missing = marks.difference(mark for row in found for mark in MARK.findall(row[0]))
    return [*found, *((mark, "was never taken in") for mark in sorted(missing))]


def _being_sent(home: Path) -> list[str]:
    """Replies that the dead daemon had begun to send and not marked as sent. Its journal is left as it is."""
    with TemporaryDirectory() as folder:
        for file in home.glob("journal.db*"):
            shutil.copy(file, folder)
        with closing(sqlite3.connect(Path(folder) / "journal.db")) as db:
            return [
                body
                for (body,) in db.execute(
                    "SELECT body FROM outbox WHERE state IN ('sending', 'uncertain')"
                )
            ]


def _of_the_journal(told: Count, journal: Path) -> None:
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
        told.states = Counter(dict(_states(db)))
        told.inbox = sum(told.states.values())
        (told.handled_twice,) = db.execute(
            "SELECT COUNT(*) FROM (SELECT 1 FROM turns GROUP BY input_id HAVING COUNT(*) > 1)"
        ).fetchone()


def _states(db: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    yield from db.execute("SELECT state, COUNT(*) FROM inbox GROUP BY state")


async def crowded(name: str, folder: Path, seed: int) -> Count:
    """The whole story of one channel."""
    began = monotonic()
    async with stage(name, folder, settings) as it:
        crowd = Crowd(it, random.Random(seed))
        await crowd.talk()
        told = count(crowd, it.fate.home / "journal.db")
        told.seconds = round(monotonic() - began, 1)
        return told
