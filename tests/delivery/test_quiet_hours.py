"""What nobody asked for waits for the morning, or for the digest; what is asked is answered at once (issue 12)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from daemon.app.config import load_config
from daemon.app.daemon import Daemon, Overrides
from daemon.core.clock import set_timezone
from daemon.core.errors import ConfigError
from daemon.outbox.held import NotifyConfig
from tests.delivery.scripts import hammer, smash
from tests.delivery.stage import AT_ONCE, Cutter, Journal, at_home, outbox, settled
from tests.e2e.channels.stage import by_bot, config
from tests.fakes.channel import CAN, OWNER, STRANGER, FakeChannel
from tests.fakes.daemon_process import Daemon as Process
from tests.fakes.daemon_process import running_daemon
from tests.fakes.openai import FakeOpenAI, Json, Step, by, says
from tests.fakes.platform import OWNER as PERSON
from tests.fakes.platforms import fake

EVENING = datetime(
    2026, 3, 27, 21, 30, tzinfo=UTC
)  # 22:30 in Berlin; the clocks change two nights later
MORNING = datetime(2026, 3, 28, 6, 0, tzinfo=UTC)
BELL = "0123456789abcdef"
QUIET = {"quiet_hours": "22:00-07:00"}


@dataclass
class Night:
    """A phone, a clock that stands, and a HOME, which outlive the daemon."""

    home: Path
    model: FakeOpenAI
    clock: Path
    phone: FakeChannel = field(default_factory=FakeChannel)

    def at(self, now: datetime) -> None:
        kept = self.clock.with_suffix(".new")
        kept.write_text(now.isoformat())
        kept.replace(self.clock)

    @asynccontextmanager
    async def open(
        self, journal: Journal | None = None, more_parts: Overrides | None = None, **notify: object
    ) -> AsyncIterator[Daemon]:
        more = {
            "general": {"timezone": "Europe/Berlin"},
            "notify": notify or QUIET,
            "events": {"enabled": True, "notify": OWNER, "tokens": {"bell": BELL}},
        }
        parts = more_parts or (journal.parts() if journal else Overrides())
        async with at_home(
            self.home, self.model, self.phone, more=more, times=AT_ONCE, parts=parts
        ) as house:
            yield house


async def ring(house: Daemon, text: str, *, wait: bool = True) -> None:
    """An event whose result the owner is told."""
    row = await house.triggers.accept("bell", {"say": text}, 100)
    if wait:
        await house.client.wait_until_ended(row.turn)


@pytest.fixture
def berlin() -> Iterator[None]:
    set_timezone("Europe/Berlin")
    yield


def echo(body: Json) -> Step:
    text = str(body["messages"][-1]["content"])
    return says(text.split('"say": "')[1].split('"')[0] if '"say"' in text else "here I am")


@pytest.fixture
def night(tmp_path: Path, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> Night:
    made = Night(tmp_path / "home", model, tmp_path / "clock")
    made.at(EVENING)
    monkeypatch.setenv("AIDAEMON_TEST_CLOCK", str(made.clock))
    model.otherwise(by(echo))
    return made


async def held(house: Daemon, count: int) -> None:
    """So many wait."""

    async def look() -> bool:
        return sum(row.state == "held" for row in await outbox(house)) == count

    await settled(look)


async def test_at_night_results_wait_and_what_is_asked_is_answered_at_once(night: Night) -> None:
    async with night.open() as house:
        await night.phone.say("hello")  # the owner is known, and where
        await night.phone.until(lambda: "here I am" in night.phone.texts())
        for text in ("one", "two"):
            await ring(house, text)
        await held(house, 2)
        await night.phone.say("are you there?")
        await night.phone.until(lambda: night.phone.texts().count("here I am") == 2)
        await night.phone.say("/status")
        told = "Told later: 2 notices for you, until 07:00 CET"
        await night.phone.until(lambda: told in night.phone.texts()[-1])
        before = len(night.phone.texts())
    night.at(MORNING - timedelta(minutes=1))
    async with night.open() as house:
        await held(house, 2)
        assert len(night.phone.texts()) == before
        night.at(MORNING)
        await night.phone.until(lambda: len(night.phone.texts()) > before)
        await ring(house, "three")
        await night.phone.until(lambda: len(night.phone.texts()) > before + 1)
    told_then = night.phone.texts()[before:]
    assert [("one" in it, "two" in it, "three" in it) for it in told_then] == [
        (True, True, False),
        (False, False, True),
    ]
    assert told_then[0].index("one") < told_then[0].index("two")


async def test_a_digest_gathers_the_day_and_is_one_message(night: Night) -> None:
    night.at(datetime(2026, 3, 27, 9, 0, tzinfo=UTC))
    async with night.open(digest=["18:00", "08:00"]) as house:
        for number in range(5):
            await ring(house, f"result {number}")
        await held(house, 5)
        night.at(datetime(2026, 3, 27, 17, 0, tzinfo=UTC))  # 18:00 in Berlin
        await night.phone.until(lambda: bool(night.phone.texts()))
        await ring(house, "after it")
        await held(house, 1)
    [text] = night.phone.texts()
    assert all(f"result {number}" in text for number in range(5)) and "after it" not in text


async def test_a_kill_at_any_step_loses_no_result_and_tells_none_twice(night: Night) -> None:
    for at in range(1, 100):
        night.home, night.phone = night.clock.with_name(f"home{at}"), FakeChannel("telegram", CAN)
        cutter = Cutter(at)
        night.at(EVENING)
        async with night.open() as house:
            await ring(house, "one")
            await held(house, 1)
        async with night.open(Journal(cutter)) as house:
            await ring(house, "two")
            with suppress(TimeoutError):
                await settled(lambda c=cutter: _reached(c), 0.3)
            night.at(MORNING)
            with suppress(TimeoutError):
                await settled(lambda c=cutter: _reached(c), 1.0)
        if not cutter.reached.is_set():
            break
        async with night.open() as house:
            night.at(MORNING)
            await night.phone.until(lambda n=night: "two" in " ".join(n.phone.texts()))
        said = " ".join(night.phone.texts())
        assert (said.count("one"), said.count("two")) == (1, 1), at
        assert said.index("one") < said.index("two"), at
    assert at > 4


async def _reached(cutter: Cutter) -> bool:
    return cutter.reached.is_set()


async def test_what_comes_in_the_morning_does_not_overtake_what_waited(night: Night) -> None:
    """The second one is in the journal, unseen by the postman, when the daemon dies."""
    async with night.open() as house:
        await ring(house, "one")
        await held(house, 1)
    cutter = Cutter(1)
    async with night.open(Journal(cutter)) as house:
        await ring(house, "two")
        await settled(lambda: _reached(cutter))
    night.at(MORNING)
    async with night.open():
        await night.phone.until(lambda: "two" in " ".join(night.phone.texts()))
    said = " ".join(night.phone.texts())
    assert (said.count("one"), said.count("two")) == (1, 1)
    assert said.index("one") < said.index("two")


async def test_a_reload_counts_for_what_waits_already(night: Night) -> None:
    async with night.open() as house:
        await night.phone.say("hello")
        await night.phone.until(lambda: "here I am" in night.phone.texts())
        await ring(house, "one")
        await held(house, 1)
        path = house.paths.config
        path.write_text(path.read_text().replace("22:00-07:00", "22:00-06:00"))
        await night.phone.say("/reload")
        await settled(lambda: _is_due(house, MORNING - timedelta(hours=1)))
        path.write_text(path.read_text().replace("22:00-06:00", ""))
        await night.phone.say("/reload")
        await night.phone.until(lambda: any("one" in it for it in night.phone.texts()))


async def _is_due(house: Daemon, due: datetime) -> bool:
    return [row.due for row in await outbox(house) if row.state == "held"] == [due]


async def test_a_clock_that_is_set_back_tells_nothing_in_the_night(night: Night) -> None:
    night.at(EVENING + timedelta(days=3, hours=3))
    async with night.open() as house:
        await ring(house, "one")
        await held(house, 1)
        night.at(EVENING)
        await settled(lambda: _is_due(house, MORNING))
        assert not night.phone.texts()
        night.at(MORNING)
        await night.phone.until(lambda: bool(night.phone.texts()))
    assert "one" in night.phone.texts()[0]


async def test_a16_what_begins_by_itself_at_night_asks_in_the_morning_and_waits_for_a_day(
    night: Night,
) -> None:
    struck: list[str] = []
    night.model.script(says("hi"), smash(), says("it is done"))
    async with night.open(more_parts=hammer(struck)) as house:
        await night.phone.say("hello")
        await night.phone.until(lambda: night.phone.texts() == ["hi"])
        await ring(house, "break it", wait=False)
        async with asyncio.timeout(20):
            while not (asked := await house.store.read(lambda tx: tx.list_approvals("pending"))):
                await asyncio.sleep(0.02)
        assert asked[0].expires == MORNING + timedelta(days=1)
        async with asyncio.timeout(20):
            while [row.state for row in await outbox(house) if row.kind == "approval"] != ["held"]:
                await asyncio.sleep(0.02)
        assert night.phone.texts() == ["hi"]
        night.at(MORNING + timedelta(seconds=5))
        await night.phone.until(lambda: len(night.phone.texts()) == 2)
        night.at(MORNING + timedelta(hours=23))
        buttons = await night.phone.buttons()
        await night.phone.press(buttons["Once"])
        await night.phone.until(lambda: "it is done" in night.phone.texts()[-1])
    assert struck == ["pots"]


async def test_who_writes_at_night_is_told_at_once_why_it_is_not_taken(night: Night) -> None:
    async with night.open() as house:
        await night.phone.say("let me in", sender=STRANGER)
        await night.phone.until(lambda: bool(night.phone.shown(STRANGER)))
        assert not any(row.state == "held" for row in await outbox(house))


def test_a_wrong_value_is_named_with_its_file_and_key(tmp_path: Path) -> None:
    for line, key in (('quiet_hours = "22-7"', "notify.quiet_hours"), ('digest = "8"', "digest")):
        path = tmp_path / "config.toml"
        path.write_text(f"[notify]\n{line}\n")
        with pytest.raises(ConfigError) as found:
            load_config(path, env={}, secrets={})
        assert str(path) in str(found.value) and key in str(found.value)
        assert "expected" in str(found.value)


def test_one_time_of_the_digest_needs_no_list() -> None:
    assert NotifyConfig.model_validate({"digest": "08:00"}).digest == ("08:00",)
    assert NotifyConfig.model_validate({"digest": ""}).digest == ()


@pytest.mark.parametrize(
    ("config", "now", "due"),
    [
        (QUIET, "2026-03-28T21:30+01:00", None),
        (QUIET, "2026-03-28T22:00+01:00", "2026-03-29T07:00+02:00"),  # an hour shorter
        (QUIET, "2026-03-29T06:59+02:00", "2026-03-29T07:00+02:00"),
        (QUIET, "2026-03-29T07:00+02:00", None),
        (QUIET, "2026-10-25T02:30+02:00", "2026-10-25T07:00+01:00"),  # the hour that comes twice
        ({"quiet_hours": "13:00-15:00"}, "2026-03-28T14:00+01:00", "2026-03-28T15:00+01:00"),
        ({"digest": ["02:30"]}, "2026-03-28T12:00+01:00", "2026-03-29T03:30+02:00"),  # skipped
        ({"digest": ["08:00", "18:00"]}, "2026-03-28T08:00+01:00", "2026-03-28T18:00+01:00"),
        ({**QUIET, "digest": ["08:00"]}, "2026-03-28T23:00+01:00", "2026-03-29T08:00+02:00"),
        ({}, "2026-03-28T23:00+01:00", None),
    ],
)
def test_when_what_comes_now_is_told(
    config: dict[str, object], now: str, due: str | None, berlin: None
) -> None:
    found = NotifyConfig.model_validate(config).find_due(datetime.fromisoformat(now))
    assert found == (due and datetime.fromisoformat(due))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"quiet_hours": "22-7"}, 'expected hours such as "22:00-07:00"'),
        ({"quiet_hours": "07:00-07:00"}, "expected hours"),
        ({"digest": ["8 o'clock"]}, "expected times such as"),
        ({**QUIET, "digest": ["23:00"]}, "lies in the quiet hours"),
    ],
)
def test_what_is_wrong_is_named(config: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        NotifyConfig.model_validate(config)


@pytest.mark.timeout(120)
async def test_kill_9_in_the_night_and_in_the_morning_loses_no_result_and_keeps_the_order(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A real process: killed as one waits, as two wait, and as soon as they are told."""
    clock, platform = tmp_path / "clock", fake("telegram")
    clock.write_text(EVENING.isoformat())
    model.otherwise(by(echo))
    more = {
        "general": {"timezone": "Europe/Berlin"},
        "notify": QUIET,
        "events": {
            "enabled": True,
            "notify": platform.private(PERSON),
            "tokens": {"bell": BELL},
        },
    }
    await platform.start()
    written = config(model, platform, more=more)

    def told() -> list[str]:
        return [one.text for one in by_bot(platform, platform.private(PERSON))]

    @asynccontextmanager
    async def living() -> AsyncIterator[Process]:
        env = {"AIDAEMON_TEST_CLOCK": str(clock)}
        async with running_daemon(tmp_path / "home", written, env) as daemon:
            yield daemon

    async def happened(daemon: Process, text: str) -> None:
        bearer = {"Authorization": f"Bearer {BELL}"}
        async with daemon.http.post("/v1/events/bell", json={"say": text}, headers=bearer) as begun:
            assert begun.status == 202
            turn = str((await begun.json())["turn"])
        async with asyncio.timeout(20):
            while (await daemon.run(turn))["state"] != "ended":
                await asyncio.sleep(0.02)

    try:
        for text in ("first", "second"):
            async with living() as daemon:
                await happened(daemon, text)
        assert not told()
        clock.write_text(MORNING.isoformat())
        async with living():  # killed between the send and its mark, maybe: K13, one duplicate
            await platform.until(lambda: bool(told()))
        async with living() as daemon:
            await happened(daemon, "third")
            await platform.until(lambda: "third" in " ".join(told()))
    finally:
        await platform.stop()
    said = " ".join(told())
    found = [said.index(text) for text in ("first", "second", "third")]
    assert found == sorted(found)
    assert said.count("third") == 1  # nothing was killed after it
    assert all(said.count(text) in (1, 2) for text in ("first", "second"))  # K13, of each message
