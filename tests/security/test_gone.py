"""What waits of people who were taken off the list is not worked on (DESIGN 6)."""

from datetime import UTC, datetime
from pathlib import Path

from daemon.core.clock import SystemClock
from daemon.core.label import Label
from daemon.core.roles import Role
from daemon.core.rows import InboxRow, SessionRow
from daemon.people.people import People
from daemon.reception.gone import GONE, turned_away
from daemon.store.sqlite import SqliteStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CONFIG = {"1": Role.OWNER, "3": Role.VIEWER}


def waits(number: str, channel: str = "telegram") -> InboxRow:
    """A message of this person in their own chat, not begun."""
    session = f"{channel}:{number}"
    names = f"{channel}-{number}", channel, "", f"ext-{number}", session, f"{channel}:{number}"
    return InboxRow(*names, "hello", Label.TRUSTED, f"turn-{channel}-{number}", NOW, role="editor")


async def test_what_waits_of_people_who_were_taken_off_the_list_is_left_undone(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db")
    rows = [waits("1"), waits("2"), waits("3"), waits("2", "discord")]

    for row in rows:
        await store.write(lambda tx, row=row: tx.put_session(SessionRow(row.session, row.channel, "1", Label.TRUSTED, NOW)))
        await store.write(lambda tx, row=row: tx.accept(row))
    assert await turned_away(People(store, SystemClock()), "telegram", CONFIG) == 2
    assert [row.id for row in await store.read(lambda tx: tx.inputs_in("new"))] == ["telegram-1", "discord-2"]
    assert [row.id for row in await store.read(lambda tx: tx.inputs_in(GONE))] == ["telegram-2", "telegram-3"]
    assert sorted(await store.read(lambda tx: tx.unfinished_sessions())) == ["discord:2", "telegram:1"]
    await store.aclose()
