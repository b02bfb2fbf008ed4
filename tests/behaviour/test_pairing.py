"""Becoming known by a one-time code, over both journals (DESIGN 6): never by being first, never by guessing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.roles import Role
from daemon.people.codes import MOST_WRONG, STANDS, WINDOW, digest, new_code
from daemon.people.people import People, listed, name_of
from daemon.store.memory import MemoryStore
from daemon.store.protocol import Store
from daemon.store.sqlite import SqliteStore

ANN = ("telegram", "", "42")
BOB = ("telegram", "", "43")


@dataclass
class Hand:
    """A clock that is moved by hand."""

    at: datetime = datetime(2026, 3, 1, 9, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = MemoryStore() if request.param == "memory" else await SqliteStore.open(tmp_path / "journal.db")
    async with aclosing(opened):
        yield opened


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def people(store: Store, clock: Hand) -> People:
    numbers = count(1)
    return People(store, clock, lambda: f"CODE-{next(numbers):04}")


async def test_an_empty_list_admits_nobody_not_even_the_first(people: People) -> None:
    assert await people.admit(*ANN) is None
    assert await people.admit(*ANN, listed()) is None
    assert await people.pair(*ANN, "") is None and await people.known() == []


async def test_whom_the_config_lists_is_admitted_as_it_says(people: People) -> None:
    config = listed(allowed=[42, "43"], owners=["43"])
    admitted = [await people.admit("telegram", "", sender, config) for sender in ("42", "43", "44")]
    assert admitted == [Role.EDITOR, Role.OWNER, None]


async def test_a_code_lets_one_person_in_once_with_its_role(people: People) -> None:
    invited = await people.invite(Role.VIEWER)
    assert await people.pair(*ANN, invited.code) is Role.VIEWER
    assert await people.pair(*BOB, invited.code) is None
    assert (await people.admit(*ANN), await people.admit(*BOB)) == (Role.VIEWER, None)


async def test_a_code_is_good_for_ten_minutes(people: People, clock: Hand) -> None:
    invited = await people.invite(Role.EDITOR)
    clock.at += STANDS
    assert await people.pair(*ANN, invited.code) is None


async def test_a_code_of_one_channel_opens_no_other_and_is_not_used_up_by_it(people: People) -> None:
    invited = await people.invite(Role.EDITOR, "telegram")
    assert await people.pair("slack", "", "42", invited.code) is None
    assert await people.pair(*ANN, invited.code) is Role.EDITOR
    assert await people.admit("slack", "", "42") is None


async def test_after_five_wrong_codes_the_right_one_does_not_help_for_an_hour(people: People, clock: Hand) -> None:
    for _ in range(MOST_WRONG):
        assert await people.pair(*ANN, "WRONG") is None
    invited = await people.invite(Role.EDITOR)
    assert await people.pair(*ANN, invited.code) is None
    assert await people.pair(*BOB, invited.code) is Role.EDITOR  # another's guesses are not theirs
    clock.at += WINDOW
    assert await people.pair(*ANN, (await people.invite(Role.EDITOR)).code) is Role.EDITOR


async def test_of_many_who_send_it_at_once_one_wins(people: People) -> None:
    invited = await people.invite(Role.EDITOR)
    came = await asyncio.gather(*(people.pair("telegram", "", str(sender), invited.code) for sender in range(20)))
    assert sorted(role is Role.EDITOR for role in came)[-2:] == [False, True]
    assert len(await people.known()) == 1


async def test_who_is_removed_is_a_stranger(people: People) -> None:
    await people.pair(*ANN, (await people.invite(Role.ADMIN)).code)
    (known,) = await people.known()
    assert (known.name, known.role) == ("telegram//42", "admin")
    assert (await people.remove(known.name), await people.remove(known.name)) == (True, False)
    assert await people.admit(*ANN) is None


async def test_the_journal_holds_no_code_and_no_old_tries(people: People, store: Store, clock: Hand) -> None:
    invited = await people.invite(Role.ADMIN)
    await people.pair(*ANN, "WRONG")

    async def kept(kind: str) -> dict[str, str]:
        return await store.read(lambda tx: tx.all_kept(kind))

    assert invited.code not in str(await kept("pairing")) and len(await kept("pairing_wrong")) == 1
    clock.at += WINDOW
    await people.pair(*BOB, "WRONG")
    assert (await kept("pairing"), list(await kept("pairing_wrong"))) == ({}, [name_of(*BOB)])


@pytest.mark.parametrize("damaged", ["", "{}", "[]", '{"role": "emperor"}', "nonsense"])
async def test_a_row_that_is_not_understood_admits_nobody(people: People, store: Store, damaged: str) -> None:
    await store.write(lambda tx: (tx.keep("person", name_of(*ANN), damaged), tx.keep("pairing", digest("AAAA"), damaged)))
    assert (await people.admit(*ANN), await people.pair(*ANN, "AAAA"), await people.known()) == (None, None, [])


async def test_people_are_known_after_a_restart_and_a_used_code_stays_used(tmp_path: Path, clock: Hand) -> None:
    async with aclosing(await SqliteStore.open(tmp_path / "journal.db")) as store:
        code = (await People(store, clock).invite(Role.EDITOR)).code
        await People(store, clock).pair(*ANN, code)
    async with aclosing(await SqliteStore.open(tmp_path / "journal.db")) as store:
        again = People(store, clock)
        assert (await again.admit(*ANN), await again.pair(*BOB, code)) == (Role.EDITOR, None)


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_two_senders_have_one_name(channel: str, account: str, sender: str, other: str):
    names = {name_of(*parts) for parts in ((channel, account, sender), (channel, account, other), (channel, sender, account))}
    assert len(names) == len({(channel, account, sender), (channel, account, other), (channel, sender, account)})


@given(st.integers(0, 100))
def test_a_code_may_be_typed_as_it_is_read(_: int):
    code = new_code()
    spoken = f" {code.lower()}\n".replace("-", " ").replace("0", "o").replace("1", "l")
    assert len(code) == 9 and digest(spoken) == digest(code)
    assert digest(code) != digest(new_code())


def test_the_times_are_as_promised():
    assert timedelta(minutes=10) == STANDS and timedelta(hours=1) == WINDOW and MOST_WRONG == 5
