"""Where the owner can be told things, the private chats in which they were met; and what people of channels call themselves.

Who may speak on a channel (DESIGN 6): those whom its config lists, and those who had a code; nobody by coming first.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from urllib.parse import quote

from daemon.access.pairing import (
    CODE_VALID_FOR,
    MAX_WRONG_CODES,
    WRONG_CODE_WINDOW,
    find_matching,
    hash_code,
    new_code,
)
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.journal import ReadTx, Store, Tx
from daemon.core.rows import PairingCode, PersonRow
from daemon.core.trust import Role


@value
class PairedPerson:
    """Somebody who had a code. `name` is channel/account/sender."""

    name: str
    role: str
    since: str


@value
class NewCode:
    """A code as it is told, once; the journal has only its digest."""

    code: str
    role: str
    channel: str
    expires: str


def person_name(channel: str, account: str, sender: str) -> str:
    """Names from outside may hold anything; of these no two are the same that are not."""
    return "/".join(quote(part, safe="@+~") for part in (channel, account, sender))


def roles_of_config(
    allowed: Iterable[str | int] = (), owners: Iterable[str | int] = ()
) -> dict[str, Role]:
    """What a channel's config says: whom it allows may talk and work, its owners are owners; so is a single one whom it allows
    where it names no owner. Nobody is by being one of several.
    """
    members, heads = [str(one) for one in allowed], [str(one) for one in owners]
    if not heads and len(set(members)) == 1:
        heads = members
    return dict.fromkeys(members, Role.EDITOR) | dict.fromkeys(heads, Role.OWNER)


async def do_nothing() -> None:
    """Nobody works on what people have said."""


@value
class Directory:
    """The front door of every channel. Raises StoreUnavailable where the journal cannot be written. `on_removal`: what is to be
    done when somebody is a stranger again.
    """

    store: Store
    clock: Clock
    new_code: Callable[[], str] = new_code
    on_removal: Callable[[], Awaitable[None]] = do_nothing

    async def role_of(
        self, channel: str, account: str, sender: str, config: Mapping[str, Role] | None = None
    ) -> Role | None:
        """What this sender is to the house; None for a stranger. `config` is what the channel's config says, and goes first."""
        if config and sender in config:
            return config[sender]
        name = person_name(channel, account, sender)
        return _role_of(await self.store.read(lambda tx: tx.get_person(name)))

    async def invite(self, role: Role, channel: str = "") -> NewCode:
        """A code that makes whoever sends it first such a person; good for ten minutes, on this channel or on any."""
        code, now = self.new_code(), self.clock.now()
        waiting = PairingCode(hash_code(code), role.value, channel, now + CODE_VALID_FOR)

        def work(tx: Tx) -> None:
            tx.remove_stale_pairing(now, now - WRONG_CODE_WINDOW)
            tx.add_pairing_code(waiting)

        await self.store.write(work)
        return NewCode(code, role.value, channel, waiting.expires.isoformat())

    async def pair(self, channel: str, account: str, sender: str, code: str) -> Role | None:
        """The role that the code gave, once; None for a wrong one, and for any after five wrong ones within the hour.

        Code and person change in one atomic write: of two who send it at once one is let in, and a crash leaves the code
        whole or used.
        """
        name, now = person_name(channel, account, sender), self.clock.now()
        return await self.store.write(lambda tx: _use_code(tx, name, channel, code, now))

    async def list_people(self) -> list[PairedPerson]:
        """Everybody who had a code."""
        rows = await self.store.read(lambda tx: tx.list_people())
        return [
            PairedPerson(row.name, row.role, row.since.isoformat()) for row in rows if _role_of(row)
        ]

    async def remove(self, name: str) -> bool:
        """They are strangers again; False when nobody is known by this name."""

        def work(tx: Tx) -> bool:
            for chat in tx.list_owner_chats():
                if chat.person == name:
                    tx.remove_owner_chat(chat.channel)
            return tx.remove_person(name)

        removed = await self.store.write(work)
        if removed:
            await self.on_removal()
        return removed

    async def drop_former_owners(self, config: Mapping[str, Mapping[str, Role]]) -> None:
        """Nothing more is told to those who are owners no longer. `config`: what it says of people, by channel and by name."""

        def left(tx: ReadTx) -> list[str]:
            return [
                chat.channel
                for chat in tx.list_owner_chats()
                if not owns(tx, config.get(chat.channel), chat.person)
            ]

        def owns(tx: ReadTx, here: Mapping[str, Role] | None, person: str) -> bool:
            return here is not None and current_role(tx, person, here) is Role.OWNER

        for channel in await self.store.read(left):
            await self.store.write(lambda tx, channel=channel: tx.remove_owner_chat(channel))


def current_role(tx: ReadTx, person: str, config: Mapping[str, Role]) -> Role | None:
    """What somebody is to the house, by the name that is theirs here; None for a stranger. `config`: by name; it goes first."""
    return config.get(person) or _role_of(tx.get_person(person))


def _use_code(tx: Tx, name: str, channel: str, code: str, now: datetime) -> Role | None:
    tx.remove_stale_pairing(now, now - WRONG_CODE_WINDOW)
    if tx.count_wrong_codes(name) >= MAX_WRONG_CODES:
        return None
    found = find_matching(tx.list_pairing_codes(), code)
    role = _role_of(found) if found and found.channel in ("", channel) else None
    if found is None or role is None:
        tx.add_wrong_code(name, now)
        return None
    tx.remove_pairing_code(found.digest)
    tx.remove_wrong_codes(name)
    tx.put_person(PersonRow(name, role.value, now))
    return role


def _role_of(row: PersonRow | PairingCode | None) -> Role | None:
    """A role that this version does not know admits nobody."""
    return Role(row.role) if row and row.role in set(Role) else None
