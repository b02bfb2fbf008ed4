"""Who may talk on a channel (trust.md): people in its config or with a one-time code. What waits of
people who were taken off the list is not worked on, and former owners are told nothing more.
"""

import hmac
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from urllib.parse import quote

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.ids import ALPHABET, split_channel
from daemon.core.rows import InboxRow, PairingCode, PersonRow
from daemon.core.trust import NewCode, PairedPerson, Right, Role, has_right
from daemon.store.journal import Store, Tx

CODE_VALID_FOR = timedelta(minutes=10)
MAX_WRONG_CODES, WRONG_CODE_WINDOW = 5, timedelta(hours=1)
CODE_LENGTH = 8
REMOVED_STATE = "gone"
LOOKALIKES = str.maketrans("OILU", "011V", "-")

log = logging.getLogger(__name__)


def new_code() -> str:
    """Forty random bits, to be read out and typed: K7QF-2M9X."""
    signs = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH)).upper()
    return f"{signs[:4]}-{signs[4:]}"


def hash_code(code: str) -> str:
    """As it is stored: useless to who reads the journal, usable for who reads O for 0."""
    typed = "".join(code[:100].upper().split()).translate(LOOKALIKES)
    return sha256(typed.encode("utf-8", "replace")).hexdigest()


def person_name(channel: str, account: str, sender: str) -> str:
    """Unique, whatever the parts contain."""
    return "/".join(quote(part, safe="@+~") for part in (channel, account, sender))


def roles_of_config(
    allowed: Iterable[str | int] = (), owners: Iterable[str | int] = ()
) -> dict[str, Role]:
    """Allowed people may talk and work, owners are owners; a single allowed person is the owner
    where none is named.
    """
    members, heads = [str(one) for one in allowed], [str(one) for one in owners]
    if not heads and len(set(members)) == 1:
        heads = members
    return dict.fromkeys(members, Role.EDITOR) | dict.fromkeys(heads, Role.OWNER)


@value
class Directory:
    """For all channels. Raises StoreUnavailable."""

    store: Store
    clock: Clock
    new_code: Callable[[], str] = new_code

    async def role_of(self, channel: str, account: str, sender: str) -> Role | None:
        """Of somebody who had a code; None for a stranger."""
        name = person_name(channel, account, sender)
        return _role_of(await self.store.read(lambda tx: tx.get_person(name)))

    async def invite(self, role: Role, channel: str = "") -> NewCode:
        """A code that gives this role to its first sender; valid for ten minutes, on this channel
        or on any.
        """
        code, now = self.new_code(), self.clock.now()
        waiting = PairingCode(hash_code(code), role.value, channel, now + CODE_VALID_FOR)

        def work(tx: Tx) -> None:
            tx.remove_stale_pairing(now, now - WRONG_CODE_WINDOW)
            tx.add_pairing_code(waiting)

        await self.store.write(work)
        return NewCode(code, role.value, channel, waiting.expires.isoformat())

    async def pair(self, channel: str, account: str, sender: str, code: str) -> Role | None:
        """The role that the code gave, once; None for a wrong one, and for any after five wrong
        ones within the hour.

        Code and person change in one atomic write: of two who send it at once one is let in, and
        a crash leaves the code whole or used.
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
        """False when nobody is known by this name."""

        def work(tx: Tx) -> bool:
            for chat in tx.list_owner_chats():
                if chat.person == name:
                    tx.remove_owner_chat(chat.channel)
            tx.remove_zone(name)
            return tx.remove_person(name)

        return await self.store.write(work)

    async def drop_former_owners(self, config: Mapping[str, Mapping[str, Role]]) -> None:
        """Former owners get no more notices. `config`: its roles, by channel and by name."""

        def work(tx: Tx) -> None:
            for chat in tx.list_owner_chats():
                here = config.get(chat.channel)
                if here is None or current_role(tx, chat.person, here) is not Role.OWNER:
                    tx.remove_owner_chat(chat.channel)

        await self.store.write(work)


def current_role(tx: Tx, person: str, config: Mapping[str, Role]) -> Role | None:
    """The role of this name; None for a stranger. `config`: roles by name, which go first."""
    return config.get(person) or _role_of(tx.get_person(person))


def _use_code(tx: Tx, name: str, channel: str, code: str, now: datetime) -> Role | None:
    tx.remove_stale_pairing(now, now - WRONG_CODE_WINDOW)
    if tx.count_wrong_codes(name) >= MAX_WRONG_CODES:
        return None
    digest, found = hash_code(code), None
    for one in tx.list_pairing_codes():  # all are compared, so that the time tells nothing
        found = one if hmac.compare_digest(one.digest, digest) else found
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


async def drop_queued(people: Directory, channel: str, roles: Mapping[str, Role]) -> list[InboxRow]:
    """Settle what waits of them; gives it. `roles` is what the channel's config says now.

    A turn of theirs that had begun goes on: what it asks is answered by people as they stand
    then. Raises StoreUnavailable.
    """
    here = roles_by_name(channel, roles)

    def theirs(tx: Tx) -> list[InboxRow]:
        return [
            row
            for row in tx.list_inputs("new")
            if row.channel == channel
            and row.role != Role.GUEST.value  # a mail, which nobody says
            and not _may_talk(tx, row, here)
        ]

    def settle(tx: Tx) -> list[InboxRow]:
        rows = theirs(tx)  # looked for again: one that was begun meanwhile goes on
        for row in rows:
            tx.set_input_state(row.id, REMOVED_STATE)
        return rows

    gone = await people.store.write(settle) if await people.store.read(theirs) else []
    if gone:
        log.warning(
            "%s: %d messages of people who may give no work any more are left undone",
            channel,
            len(gone),
        )
    return gone


async def apply_removals(people: Directory, config: Mapping[str, Mapping[str, Role]]) -> None:
    """Before anything is taken up. `config`: what it says of people now, by channel. Raises
    StoreUnavailable.
    """
    await people.drop_former_owners(
        {channel: roles_by_name(channel, roles) for channel, roles in config.items()}
    )
    for channel, roles in config.items():
        await drop_queued(people, channel, roles)


def _may_talk(tx: Tx, row: InboxRow, here: Mapping[str, Role]) -> bool:
    account, kind = split_channel(row.channel)
    role = current_role(
        tx, person_name(kind, account, row.sender.removeprefix(f"{row.channel}:")), here
    )
    return role is not None and has_right(role, Right.TALK)


def roles_by_name(channel: str, roles: Mapping[str, Role]) -> dict[str, Role]:
    """The same, by the names that people.py has."""
    account, kind = split_channel(channel)
    return {person_name(kind, account, sender): role for sender, role in roles.items()}
