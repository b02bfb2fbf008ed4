"""Becoming known by a one-time code, over both journals (trust.md): never by being first, never by guessing."""

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

from daemon.access.directory import (
    CODE_VALID_FOR,
    MAX_WRONG_CODES,
    WRONG_CODE_WINDOW,
    Directory,
    hash_code,
    new_code,
    person_name,
    roles_of_config,
)
from daemon.core.rows import PairingCode, PersonRow
from daemon.core.trust import Role
from daemon.store.journal import Store, Tx
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


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with aclosing(await SqliteStore.open(tmp_path / "journal.db")) as opened:
        yield opened


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def people(store: Store, clock: Hand) -> Directory:
    numbers = count(1)
    return Directory(store, clock, lambda: f"CODE-{next(numbers):04}")


async def test_an_empty_list_admits_nobody_not_even_the_first(people: Directory) -> None:
    assert await people.role_of(*ANN) is None
    assert roles_of_config() == {}
    assert await people.pair(*ANN, "") is None and await people.list_people() == []


def test_whom_the_config_lists_is_admitted_as_it_says() -> None:
    config = roles_of_config(allowed=[42, "43"], owners=["43"])
    assert config == {"42": Role.EDITOR, "43": Role.OWNER}


async def test_a_code_lets_one_person_in_once_with_its_role(people: Directory) -> None:
    invited = await people.invite(Role.VIEWER)
    assert await people.pair(*ANN, invited.code) is Role.VIEWER
    assert await people.pair(*BOB, invited.code) is None
    assert (await people.role_of(*ANN), await people.role_of(*BOB)) == (Role.VIEWER, None)


async def test_a_code_is_good_for_ten_minutes(people: Directory, clock: Hand) -> None:
    invited = await people.invite(Role.EDITOR)
    clock.at += CODE_VALID_FOR
    assert await people.pair(*ANN, invited.code) is None


async def test_a_code_of_one_channel_opens_no_other_and_is_not_used_up_by_it(
    people: Directory,
) -> None:
    invited = await people.invite(Role.EDITOR, "telegram")
    assert await people.pair("slack", "", "42", invited.code) is None
    assert await people.pair(*ANN, invited.code) is Role.EDITOR
    assert await people.role_of("slack", "", "42") is None


async def test_after_five_wrong_codes_the_right_one_does_not_help_for_an_hour(
    people: Directory, clock: Hand
) -> None:
    for _ in range(MAX_WRONG_CODES):
        assert await people.pair(*ANN, "WRONG") is None
    invited = await people.invite(Role.EDITOR)
    assert await people.pair(*ANN, invited.code) is None
    assert await people.pair(*BOB, invited.code) is Role.EDITOR  # another's guesses are not theirs
    clock.at += WRONG_CODE_WINDOW
    assert await people.pair(*ANN, (await people.invite(Role.EDITOR)).code) is Role.EDITOR


async def test_of_many_who_send_it_at_once_one_wins(people: Directory) -> None:
    invited = await people.invite(Role.EDITOR)
    came = await asyncio.gather(
        *(people.pair("telegram", "", str(sender), invited.code) for sender in range(20))
    )
    assert sorted(role is Role.EDITOR for role in came)[-2:] == [False, True]
    assert len(await people.list_people()) == 1


async def test_who_is_removed_is_a_stranger(people: Directory) -> None:
    await people.pair(*ANN, (await people.invite(Role.ADMIN)).code)
    (known,) = await people.list_people()
    assert (known.name, known.role) == ("telegram//42", "admin")
    assert (await people.remove(known.name), await people.remove(known.name)) == (True, False)
    assert await people.role_of(*ANN) is None


async def test_the_journal_holds_no_code_and_no_old_tries(
    people: Directory, store: Store, clock: Hand
) -> None:
    invited = await people.invite(Role.ADMIN)
    await people.pair(*ANN, "WRONG")

    def look(tx: Tx) -> tuple[str, int, int]:
        ann, bob = (tx.count_wrong_codes(person_name(*who)) for who in (ANN, BOB))
        return str(tx.list_pairing_codes()), ann, bob

    waiting, *wrong = await store.read(look)
    assert "admin" in waiting and invited.code not in waiting and wrong == [1, 0]
    clock.at += WRONG_CODE_WINDOW
    await people.pair(*BOB, "WRONG")
    assert await store.read(look) == ("[]", 0, 1)


async def test_a_role_that_is_not_known_admits_nobody(
    people: Directory, store: Store, clock: Hand
) -> None:
    def work(tx: Tx) -> None:
        tx.put_person(PersonRow(person_name(*ANN), "emperor", clock.at))
        tx.add_pairing_code(
            PairingCode(hash_code("AAAA"), "emperor", "", clock.at + WRONG_CODE_WINDOW)
        )

    await store.write(work)
    assert (
        await people.role_of(*ANN),
        await people.pair(*ANN, "AAAA"),
        await people.list_people(),
    ) == (None, None, [])


async def test_people_are_known_after_a_restart_and_a_used_code_stays_used(
    tmp_path: Path, clock: Hand
) -> None:
    async with aclosing(await SqliteStore.open(tmp_path / "journal.db")) as store:
        code = (await Directory(store, clock).invite(Role.EDITOR)).code
        await Directory(store, clock).pair(*ANN, code)
    async with aclosing(await SqliteStore.open(tmp_path / "journal.db")) as store:
        again = Directory(store, clock)
        assert (await again.role_of(*ANN), await again.pair(*BOB, code)) == (Role.EDITOR, None)


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_two_senders_have_one_name(channel: str, account: str, sender: str, other: str):
    names = {
        person_name(*parts)
        for parts in (
            (channel, account, sender),
            (channel, account, other),
            (channel, sender, account),
        )
    }
    assert len(names) == len(
        {(channel, account, sender), (channel, account, other), (channel, sender, account)}
    )


@given(st.integers(0, 100))
def test_a_code_may_be_typed_as_it_is_read(_: int):
    code = new_code()
    spoken = f" {code.lower()}\n".replace("-", " ").replace("0", "o").replace("1", "l")
    assert len(code) == 9 and hash_code(spoken) == hash_code(code)
    assert hash_code(code) != hash_code(new_code())


def test_the_times_are_as_promised():
    assert (
        timedelta(minutes=10) == CODE_VALID_FOR
        and timedelta(hours=1) == WRONG_CODE_WINDOW
        and MAX_WRONG_CODES == 5
    )
