"""What waits of people who were taken off the list is not worked on, and they are told nothing more (trust.md)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from daemon.access.directory import REMOVED_STATE, Directory, apply_removals, drop_queued
from daemon.core.clock import Commit, SystemClock
from daemon.core.rows import InboxRow, OwnerChat, SessionRow
from daemon.core.trust import Label, Role
from daemon.store.journal import Tx
from daemon.store.sqlite import SqliteStore
from tests.fakes.commits import commit_of
from tests.fakes.files import open_store

T = TypeVar("T")

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CONFIG = {"1": Role.OWNER, "3": Role.VIEWER}


@dataclass
class Meanwhile:
    """A journal in which this message's turn begins just before the next write."""

    inner: SqliteStore
    begins: str

    async def read(self, look: Callable[[Tx], T]) -> T:
        return await self.inner.read(look)

    async def write(self, work: Callable[[Tx], T]) -> T:
        await self.inner.write(lambda tx: tx.set_input_state(self.begins, "taken"))
        return await self.inner.write(work)

    def submit(self, work: Callable[[Tx], T]) -> Commit[T]:
        return commit_of(self.write(work))

    async def aclose(self) -> None:
        await self.inner.aclose()

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        return self.inner.watch_outbox(told)

    @property
    def problem(self) -> str:
        return self.inner.problem


def waits(number: str, channel: str = "telegram") -> InboxRow:
    """A message of this person in their own chat, not begun."""
    session = f"{channel}:{number}"
    names = f"{channel}-{number}", channel, "", f"ext-{number}", session, f"{channel}:{number}"
    return InboxRow(*names, "hello", Label.TRUSTED, f"turn-{channel}-{number}", NOW, role="editor")


async def test_what_waits_of_people_who_were_taken_off_the_list_is_left_undone(
    tmp_path: Path,
) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db")
    rows = [waits("1"), waits("2"), waits("3"), waits("2", "discord")]

    for row in rows:
        await store.write(
            lambda tx, row=row: tx.put_session(
                SessionRow(row.session, row.channel, "1", Label.TRUSTED, NOW)
            )
        )
        await store.write(lambda tx, row=row: tx.accept_input(row))
    assert len(await drop_queued(Directory(store, SystemClock()), "telegram", CONFIG)) == 2
    assert [row.id for row in await store.read(lambda tx: tx.list_inputs("new"))] == [
        "telegram-1",
        "discord-2",
    ]
    assert [row.id for row in await store.read(lambda tx: tx.list_inputs(REMOVED_STATE))] == [
        "telegram-2",
        "telegram-3",
    ]
    assert sorted(await store.read(lambda tx: tx.list_unfinished_sessions())) == [
        "discord:2",
        "telegram:1",
    ]
    await store.aclose()


async def test_what_begins_while_people_are_taken_off_the_list_goes_on(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db")
    for row in (waits("2"), waits("4")):
        await store.write(lambda tx, row=row: tx.accept_input(row))
    gone = await drop_queued(
        Directory(Meanwhile(store, "telegram-2"), SystemClock()), "telegram", CONFIG
    )
    assert [row.id for row in gone] == ["telegram-4"]
    assert [row.id for row in await store.read(lambda tx: tx.list_inputs("taken"))] == [
        "telegram-2"
    ]
    await store.aclose()


async def test_who_is_an_owner_no_longer_is_told_nothing_of_the_owners_any_more(
    tmp_path: Path,
) -> None:
    store = await open_store(tmp_path / "journal.db")
    people = Directory(store, SystemClock(), new_code=lambda: "K7QF-2M9X")
    await people.invite(Role.OWNER)
    assert await people.pair("telegram", "club", "4", "K7QF-2M9X") is Role.OWNER

    async def told() -> list[str]:
        return sorted(await store.read(lambda tx: [chat.session for chat in tx.list_owner_chats()]))

    met = {
        "telegram": "1",
        "slack": "2",
        "discord": "3",
        "work/telegram": "5",
        "club/telegram": "4",
    }
    for channel, number in met.items():
        account, _, kind = channel.rpartition("/")
        name = f"{kind}/{account}/{number}"
        await store.write(
            lambda tx, on=channel, name=name: tx.put_owner_chat(
                OwnerChat(on, f"{on}-{name[-1]}", name, NOW)
            )
        )
    assert await told() == [
        "club/telegram-4",
        "discord-3",
        "slack-2",
        "telegram-1",
        "work/telegram-5",
    ]
    await apply_removals(
        people,
        {"telegram": CONFIG, "slack": {"1": Role.OWNER}, "discord": CONFIG, "club/telegram": {}},
    )
    assert await told() == ["club/telegram-4", "telegram-1"]
    assert await people.remove("telegram/club/4")
    assert await told() == ["telegram-1"]
    await store.aclose()
