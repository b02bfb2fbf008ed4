"""The untrusted door: an event becomes a session of its own, and a turn that may not act unasked (A13, A16)."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from daemon.agent.lanes.sessions import Sessions
from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.label import Label
from daemon.core.places import place_of
from daemon.core.redaction import Redactor
from daemon.core.rows import EVENT, HTTP, InboxRow, SessionRow
from daemon.store.protocol import Store, Tx
from daemon.triggers.config import EventsConfig
from daemon.triggers.fence import message_of


@dataclass(frozen=True, slots=True)
class Arrived:
    """An event as a door hands it over. `key` is the sender's own: the same one twice is one event. `sized`: its bytes."""

    name: str
    payload: object
    sized: int
    key: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The session and the turn that an event became, now or when it came first."""

    session: str
    turn: str


@dataclass(frozen=True, slots=True)
class Events:
    """Takes events in. Nothing in a payload is a command, whatever it looks like: it never passes where commands are read."""

    config: EventsConfig
    store: Store
    sessions: Sessions
    clock: Clock
    new_id: NewId
    new_uuid: Callable[[], UUID] = uuid4
    new_mark: Callable[[], str] = secrets.token_hex
    redactor: Redactor = field(default_factory=Redactor)

    async def take(self, arrived: Arrived) -> Taken:
        """Durable when it returns. Raises StoreUnavailable: nothing was accepted; ValueError: JSON knows no such number."""
        row = self._row(arrived)
        session, kept = await self.store.write(lambda tx: self._accept(tx, arrived, row))
        if session:
            self.sessions.deliver(session, kept, watched=False)
        return Taken(kept.session, kept.turn)

    def _row(self, arrived: Arrived) -> InboxRow:
        prompt = self.config.prompts.get(arrived.name, "")
        return InboxRow(
            id=self.new_id(),
            channel=EVENT,
            account=arrived.name,
            external_id=f"key/{arrived.key}" if arrived.key else f"id/{self.new_id()}",
            session=f"{EVENT}_{self.new_uuid()}",
            sender=f"{EVENT}:{arrived.name}",  # with a colon, so that it is nobody's name
            body=message_of(arrived.name, self.redactor.value(arrived.payload), arrived.sized, prompt, self.new_mark()),
            label=Label.UNTRUSTED,
            turn=self.new_id(),
            received_at=self.clock.now(),
        )

    def _accept(self, tx: Tx, arrived: Arrived, row: InboxRow) -> tuple[SessionRow | None, InboxRow]:
        """Row and session together, or what stands there from the first time."""
        kept = tx.accept(row)
        if kept.id != row.id:
            return None, kept
        root = self._root(tx, row.received_at)
        session = SessionRow(row.session, EVENT, arrived.name, Label.UNTRUSTED, row.received_at, root=root)
        tx.put_session(session)
        return session, kept

    def _root(self, tx: Tx, now: datetime) -> str:
        """The conversation that is told and asked; it is made where nothing was said in it yet."""
        notify = self.config.notify
        if notify not in ("", HTTP) and tx.session(notify) is None:
            tx.put_session(SessionRow(notify, *place_of(notify), Label.TRUSTED, now))
        return notify
