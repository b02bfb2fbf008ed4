"""A mailbox under fire: cut connections, answers that never come, mails numbered anew, and the daemon killed again and again (A14, F1)."""

import asyncio
import os
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pytest

from tests.e2e.mail.post import Letter, deliveries, letters
from tests.fakes.daemon_process import running_daemon
from tests.fakes.mail.mailbox import mail_config, until_watching
from tests.fakes.mail.server import MailServer, mail_server
from tests.fakes.openai import FakeOpenAI, Json, Step, by, says
from tests.full_form import FULL

MAILS, KILLS, HUGE, PATIENCE_S = (200, 20, 4, 120.0) if FULL else (60, 4, 1, 60.0)
FAULTS = ("cut", "cut", "hole", "refuse", "lost", "cut before", *["later"] * FULL)
MARK = re.compile(r"\[m\d+\]")
MORE = {"limits": {"events_per_minute": 0, "mb_per_day": 0}}
EMAIL = {"reply": True, "allowed_senders": ["@example.org"]}


@dataclass(slots=True)
class Siege:
    """The server, and what is done to it."""

    server: MailServer
    chance: random.Random
    told: Counter[str] = field(default_factory=Counter)

    async def fire(self) -> None:
        """One fault after another, until cancelled."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.05, 0.8))
            what = self.chance.choice(FAULTS)
            self.told[what] += 1
            match what:
                case "cut":
                    self.server.proxy.cut()
                case "hole":
                    await self._for_a_while("swallows")
                    self.server.proxy.cut()
                case "refuse":
                    await self._for_a_while("refuses")
                case "lost":
                    self.server.sink.faults.append("lost")
                case "cut before":
                    self.server.sink.faults.append("cut")
                case _:
                    self.server.sink.faults.append("421 come again")

    async def _for_a_while(self, what: str) -> None:
        setattr(self.server.proxy, what, True)
        try:
            await asyncio.sleep(self.chance.uniform(0.1, 0.6))
        finally:
            setattr(self.server.proxy, what, False)

    async def number_anew(self) -> None:
        """The server forgets its numbers."""
        self.told["numbered anew"] += 1
        await self.server.dovecot.stop()
        self.server.dovecot.number_anew()
        await self.server.dovecot.start()

    async def deliver(self, post: Sequence[tuple[Letter, bytes]], anew: bool) -> None:
        """As the world sends them; in the midst of it the server may number its mails `anew`."""
        for n, (letter, raw) in enumerate(post):
            if anew and n == len(post) // 2:
                await self.number_anew()
            sender = "" if letter.bounce else "someone@example.org"
            await self.server.dovecot.deliver(raw, sender=sender)
            await asyncio.sleep(self.chance.uniform(0, 0.02))


async def test_a14_each_mail_is_handled_once_whatever_breaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, chance = monotonic(), random.Random(int(os.environ.get("SEED", "14")))
    mails = letters(MAILS, chance, HUGE)
    post = list(deliveries(mails, chance))
    async with mail_server() as server, FakeOpenAI() as model:
        model.otherwise(by(answer))
        siege, config = Siege(server, chance), mail_config(model, server, MORE, **EMAIL)
        async with running_daemon(tmp_path, config) as daemon:
            await until_watching(daemon)
        for life in range(KILLS):
            part = post[life * len(post) // KILLS : (life + 1) * len(post) // KILLS]
            await killed(siege, model, tmp_path, config, part, anew=life % 5 == 2)
        server.sink.faults.clear()
        async with running_daemon(tmp_path, config):
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    while not at_rest(tmp_path, mails):
                        await asyncio.sleep(0.2)
        faults = [*of_turns(tmp_path, mails), *of_answers(server, mails)]
        sent = len(server.sink.sent)
    assert not faults, "\n".join(faults)
    answers = sum(one.answered for one in mails)
    with capsys.disabled():
        print(  # noqa: T201
            f" [{len(mails)} mails, {len(post)} deliveries, {KILLS} kills, {dict(siege.told)}:"
            f" {sum(one.turn for one in mails)} turns, {answers} answers, {sent - answers} sent once more,"
            f" {model.count} model calls, {monotonic() - began:.0f} s]",
            end="",
        )


async def killed(
    siege: Siege,
    model: FakeOpenAI,
    home: Path,
    config: str,
    post: Sequence[tuple[Letter, bytes]],
    *,
    anew: bool,
) -> None:
    """One life, which ends by kill -9 at some moment."""
    firing = asyncio.create_task(siege.fire())
    delivering = asyncio.create_task(siege.deliver(post, anew))
    try:
        async with running_daemon(home, config):
            await die(siege.chance, model)
    finally:
        firing.cancel()
        await delivering
        with suppress(asyncio.CancelledError):
            await firing
    siege.told["killed"] += 1


async def die(chance: random.Random, model: FakeOpenAI) -> None:
    """The moment: wherever it is after a while, or when the model is asked for the n-th time."""
    if chance.random() < 0.4:
        await asyncio.sleep(chance.uniform(0.02, 2.0))
        return
    with suppress(TimeoutError):
        await model.asked(model.count + chance.randrange(8, 16), 2.5)


def answer(body: Json) -> Step:
    """The model's, which takes its time."""
    return says("re: " + MARK.findall(str(body["messages"]))[-1], delay=0.05)


def rows(home: Path, query: str) -> list[tuple[str, ...]]:
    """Of the journal."""
    with closing(sqlite3.connect(f"file:{home / 'journal.db'}?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def at_rest(home: Path, mails: Sequence[Letter]) -> bool:
    """All turns have ended and all answers have left."""
    taken = {
        mark for (body,) in rows(home, "SELECT body FROM inbox") for mark in MARK.findall(body)
    }
    open_turns = rows(home, "SELECT id FROM inbox WHERE state NOT IN ('done', 'command')")
    unsent = rows(
        home, "SELECT turn FROM outbox WHERE channel = 'email' AND state NOT IN ('sent', 'failed')"
    )
    return taken >= {one.mark for one in mails if one.turn} and not open_turns and not unsent


def of_turns(home: Path, mails: Sequence[Letter]) -> list[str]:
    """Each mail has begun one turn, or none where none is due; nothing was set aside."""
    bodies = [body for (body,) in rows(home, "SELECT body FROM inbox WHERE channel = 'email'")]
    begun = Counter(mark for body in bodies for mark in set(MARK.findall(body)))
    faults = [
        f"{one.mark} ({one.kind}): {begun[one.mark]} turns instead of {int(one.turn)}"
        for one in mails
        if begun[one.mark] != one.turn
    ]
    faults += [
        f"turn {row}" for row in rows(home, "SELECT id, state FROM turns WHERE state != 'ended'")
    ]
    return faults + [f"set aside: {row}" for row in rows(home, "SELECT * FROM unreadable_updates")]


def of_answers(server: MailServer, mails: Sequence[Letter]) -> list[str]:
    """Each that is due has left, under one id; what was sent once more is the same, byte for byte. Nobody else got any."""
    answers: dict[str, set[bytes]] = {}
    for sent in server.sink.sent:
        answers.setdefault(sent.people[0], set()).add(sent.raw)
    due = {f"p{one.mark[2:-1]}@example.org": one.mark for one in mails if one.answered}
    faults = [f"{one} got an answer" for one in answers.keys() - due.keys()]
    faults += [f"{one} got none ({mark})" for one, mark in due.items() if one not in answers]
    faults += [
        f"{one}: {len(raws)} different mails" for one, raws in answers.items() if len(raws) > 1
    ]
    texts = {one: raw.decode() for one, raws in answers.items() for raw in raws}
    return faults + [
        f"{one}: {text}" for one, text in texts.items() if f"re: {due.get(one)}" not in text
    ]
