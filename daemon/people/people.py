"""Who may speak on a channel (DESIGN 6): those whom its config lists, and those who had a code; nobody by coming first."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from daemon.core.clock import Clock
from daemon.core.roles import Role
from daemon.people.codes import MOST_WRONG, STANDS, Invitation, digest, matching, new_code, read, recent, written
from daemon.people.places import leave, whose_places
from daemon.store.protocol import ReadTx, Store, Tx

PERSON, CODE, WRONG = "person", "pairing", "pairing_wrong"


@dataclass(frozen=True, slots=True)
class Known:
    """Somebody who had a code. `name` is channel/account/sender."""

    name: str
    role: str
    since: str


@dataclass(frozen=True, slots=True)
class Invited:
    """A code as it is told, once; the journal has only its digest."""

    code: str
    role: str
    channel: str
    expires: str


def name_of(channel: str, account: str, sender: str) -> str:
    """Names from outside may hold anything; of these no two are the same that are not."""
    return "/".join(quote(part, safe="@+~") for part in (channel, account, sender))


def listed(allowed: Iterable[str | int] = (), owners: Iterable[str | int] = ()) -> dict[str, Role]:
    """What a channel's config says: whom it allows may talk and work, its owners are owners; so is a single one whom it allows
    where it names no owner. Nobody is by being one of several.
    """
    members, heads = [str(one) for one in allowed], [str(one) for one in owners]
    if not heads and len(set(members)) == 1:
        heads = members
    return dict.fromkeys(members, Role.EDITOR) | dict.fromkeys(heads, Role.OWNER)


async def nothing_waits() -> None:
    """Nobody works on what people have said."""


@dataclass(frozen=True, slots=True)
class People:
    """The front door of every channel. Raises StoreUnavailable where the journal cannot be written. `on_removal`: what is to be
    done when somebody is a stranger again.
    """

    store: Store
    clock: Clock
    new_code: Callable[[], str] = new_code
    on_removal: Callable[[], Awaitable[None]] = nothing_waits

    async def admit(self, channel: str, account: str, sender: str, config: Mapping[str, Role] | None = None) -> Role | None:
        """What this sender is to the house; None for a stranger. `config` is what the channel's config says, and goes first."""
        if config and sender in config:
            return config[sender]
        kept = await self.store.read(lambda tx: tx.kept(PERSON, name_of(channel, account, sender)))
        return _role(kept)

    async def invite(self, role: Role, channel: str = "") -> Invited:
        """A code that makes whoever sends it first such a person; good for ten minutes, on this channel or on any."""
        code, now = self.new_code(), self.clock.now()
        invitation = Invitation(role, channel, now + STANDS)

        def work(tx: Tx) -> None:
            _sweep(tx, now)
            tx.keep(CODE, digest(code), written(invitation))

        await self.store.write(work)
        return Invited(code, role.value, channel, invitation.expires.isoformat())

    async def pair(self, channel: str, account: str, sender: str, code: str) -> Role | None:
        """The role that the code gave, once; None for a wrong one, and for any after five wrong ones within the hour.

        Code and person change in one atomic write: of two who send it at once one is let in, and a crash leaves the code
        whole or used.
        """
        name, now = name_of(channel, account, sender), self.clock.now()
        return await self.store.write(lambda tx: _pair(tx, name, channel, code, now))

    async def known(self) -> list[Known]:
        """Everybody who had a code."""
        kept = await self.store.read(lambda tx: tx.all_kept(PERSON))
        return [Known(name, role.value, _since(text)) for name, text in kept.items() if (role := _role(text))]

    async def remove(self, name: str) -> bool:
        """They are strangers again; False when nobody is known by this name."""

        def work(tx: Tx) -> bool:
            for channel, person in whose_places(tx).items():
                if person == name:
                    leave(tx, channel)
            return tx.drop(PERSON, name)

        removed = await self.store.write(work)
        if removed:
            await self.on_removal()
        return removed

    async def leave_places(self, config: Mapping[str, Mapping[str, Role]]) -> None:
        """Nothing more is told to those who are owners no longer. `config`: what it says of people, by channel and by name."""

        def left(tx: ReadTx) -> list[str]:
            return [channel for channel, person in whose_places(tx).items() if not owns(tx, config.get(channel), person)]

        def owns(tx: ReadTx, here: Mapping[str, Role] | None, person: str) -> bool:
            return here is not None and standing(tx, person, here) is Role.OWNER

        for channel in await self.store.read(left):
            await self.store.write(lambda tx, channel=channel: leave(tx, channel))


def standing(tx: ReadTx, person: str, config: Mapping[str, Role]) -> Role | None:
    """What somebody is to the house, by the name that is theirs here; None for a stranger. `config`: by name; it goes first."""
    return config.get(person) or _role(tx.kept(PERSON, person))


def _pair(tx: Tx, name: str, channel: str, code: str, now: datetime) -> Role | None:
    _sweep(tx, now)
    wrong = _tries(tx, name, now)
    if len(wrong) >= MOST_WRONG:
        return None
    found = matching(tx.all_kept(CODE), code)
    invitation = read(tx.kept(CODE, found) or "") if found else None
    if invitation is None or not invitation.holds(channel, now):
        tx.keep(WRONG, name, json.dumps([at.isoformat() for at in (*wrong, now)]))
        return None
    tx.drop(CODE, found)
    tx.drop(WRONG, name)
    tx.keep(PERSON, name, json.dumps({"role": invitation.role.value, "since": now.isoformat()}))
    return invitation.role


def _sweep(tx: Tx, now: datetime) -> None:
    """Codes and tries that count no more are not kept, or strangers could fill the journal."""
    for name, text in tx.all_kept(CODE).items():
        invitation = read(text)
        if invitation is None or invitation.expires <= now:
            tx.drop(CODE, name)
    for name in tx.all_kept(WRONG):
        if not _tries(tx, name, now):
            tx.drop(WRONG, name)


def _tries(tx: ReadTx, name: str, now: datetime) -> tuple[datetime, ...]:
    return recent([datetime.fromisoformat(at) for at in json.loads(tx.kept(WRONG, name) or "[]")], now)


def _role(kept: str | None) -> Role | None:
    """What this version does not understand admits nobody."""
    try:
        return Role(json.loads(kept)["role"]) if kept else None
    except (ValueError, KeyError, TypeError):
        return None


def _since(kept: str) -> str:
    return str(json.loads(kept).get("since", ""))
