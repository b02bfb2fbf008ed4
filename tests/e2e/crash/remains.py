"""Everything that is left when the last life has ended well: the journal, the world outside, what the model was asked."""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from daemon.client.view_types import RunView
from daemon.client.views import run_view
from daemon.core.events import Event, ModelReplied, RecordedEvent
from daemon.core.messages import ToolCall
from daemon.core.rows import ChildRow, FileLabel, FileVersion, LoopRow, RuleRow, TurnRow
from daemon.store.journal import Tx
from daemon.store.sqlite import SqliteStore
from tests.e2e.crash.moments import Outside
from tests.e2e.crash.person import Plan
from tests.fakes.openai import Asked

E = TypeVar("E", bound=Event)
Row = dict[str, str]
TABLES = ("inbox", "outbox", "approvals", "leases", "grants", "grant_uses")
HOUSE = ("agent", "loop", "event")


@dataclass(frozen=True, slots=True)
class Remains:
    """`turns` in the order in which they began, `inbox` and `outbox` in order of arrival. `last`: who ended well."""

    plan: Plan
    outside: Outside
    turns: dict[str, TurnRow]
    events: dict[str, list[RecordedEvent]]
    inbox: list[Row]
    outbox: list[Row]
    approvals: list[Row]
    lanes: list[Row]
    requests: Sequence[Asked]
    kills: int
    children: list[ChildRow]
    loops: list[LoopRow]
    grants: list[Row]
    uses: list[Row]
    rules: list[RuleRow]
    file_labels: list[FileLabel]
    file_versions: list[FileVersion]
    last: int = 0

    @property
    def said(self) -> list[Row]:
        """What people said, of the inbox; the rest is what agents and loops say, what strangers sent, and commands."""
        return [
            row for row in self.inbox if row["channel"] not in HOUSE and row["state"] != "command"
        ]

    def calls(self, turn: str) -> dict[str, ToolCall]:
        """The turn's calls, by their ids."""
        replies = [one for one in self.events[turn] if isinstance(one.event, ModelReplied)]
        return {
            f"{one.seq}.{n}": call
            for one in replies
            for n, call in enumerate(cast(ModelReplied, one.event).calls)
        }

    def own(self, turn: str) -> bool:
        """A turn of a conversation of people: its reply goes to them."""
        row = self.turns[turn]
        return not row.parent and not row.session.startswith(("loop:", "event_"))

    def of(self, turn: str, kind: type[E]) -> list[E]:
        """The turn's events of this kind."""
        return [one.event for one in self.events[turn] if isinstance(one.event, kind)]

    def view(self, turn: str) -> RunView:
        """What its owner is shown of it."""
        return run_view(self.turns[turn], self.events[turn])


def copied(folder: Path) -> Path:
    """The journal as a kill left it, in a place where it can be looked at without changing what the next life finds."""
    place = folder / "halfway"
    shutil.rmtree(place, ignore_errors=True)
    (place / "home").mkdir(parents=True)
    for file in folder.glob("home/journal.db*"):
        shutil.copy(file, place / "home" / file.name)
    return place


async def remains(
    folder: Path, plan: Plan, requests: Sequence[Asked], kills: int, last: int = 0
) -> Remains:
    """Read it all; `requests` are those that this daemon made."""
    path = folder / "home" / "journal.db"
    store = await SqliteStore.open(path)
    turns, events = await store.read(_turns)
    children = await store.read(
        lambda tx: [row for turn in turns for row in tx.list_children(turn)]
    )
    loops = await store.read(lambda tx: tx.list_loops())
    more = await store.read(
        lambda tx: (tx.list_rules(), tx.list_file_labels(), tx.list_file_versions())
    )
    await store.aclose()
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        inbox, outbox, approvals, lanes, grants, uses = (_rows(db, table) for table in TABLES)
    return Remains(
        plan, Outside(folder), turns, events, inbox, outbox, approvals, lanes, requests, kills, children, loops,
        grants, uses, *more, last,
    )  # fmt: skip


def _turns(tx: Tx) -> tuple[dict[str, TurnRow], dict[str, list[RecordedEvent]]]:
    turns = {row.id: row for row in reversed(tx.list_all_turns(10_000))}
    return turns, {turn: tx.list_events(turn) for turn in turns}


def _rows(db: sqlite3.Connection, table: str) -> list[Row]:
    rows = db.execute(f"SELECT * FROM {table}")
    names = [column[0] for column in rows.description]
    return [{name: str(row[name]) for name in names} for row in rows]
