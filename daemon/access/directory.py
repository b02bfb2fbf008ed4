"""Where the owner can be told things, the private chats in which they were met; and what people of channels call themselves.

Who may speak on a channel (DESIGN 6): those whom its config lists, and those who had a code; nobody by coming first.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from urllib.parse import quote

from daemon.access.pairing import (
    CODE_VALID_FOR,
    MAX_WRONG_CODES,
    Invitation,
    dump_invitation,
    find_matching,
    hash_code,
    load_invitation,
    new_code,
    recent_tries,
)
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.journal import ReadTx, Store, Tx
from daemon.core.trust import Role

OWNER_CHAT_KIND, NAME_KIND = "owners_place", "called"


def save_owner_chat(tx: Tx, channel: str, session: str, person: str, at: datetime) -> None:
    """The owner has spoken there; `person` is who that was, by the name that people.py has for them."""
    tx.keep(OWNER_CHAT_KIND, channel, f"{at.isoformat()} {session} {person}")


def owners_by_channel(tx: ReadTx) -> dict[str, str]:
    """Who was told things there, by channel."""
    return {
        channel: place.partition(" ")[2].partition(" ")[2]
        for channel, place in tx.all_kept(OWNER_CHAT_KIND).items()
    }


def drop_owner_chat(tx: Tx, channel: str) -> None:
    """Who was the owner there is none any more: nothing more of what is the owner's is told there."""
    tx.drop(OWNER_CHAT_KIND, channel)


def list_owner_chats(tx: ReadTx) -> list[str]:
    """Sessions, the one in which the owner was met last first."""
    return [
        place.split(" ")[1] for place in sorted(tx.all_kept(OWNER_CHAT_KIND).values(), reverse=True)
    ]


def save_display_name(tx: Tx, person: str, called: str) -> None:
    """What they call themselves: for showing, never for deciding."""
    tx.keep(NAME_KIND, person, called)


def display_name(tx: ReadTx, person: str) -> str:
    """Whoever is not known by another name stands by their own."""
    return tx.kept(NAME_KIND, person) or person


PERSON_KIND, CODE_KIND, WRONG_KIND = "person", "pairing", "pairing_wrong"


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
        kept = await self.store.read(
            lambda tx: tx.kept(PERSON_KIND, person_name(channel, account, sender))
        )
        return _parse_role(kept)

    async def invite(self, role: Role, channel: str = "") -> NewCode:
        """A code that makes whoever sends it first such a person; good for ten minutes, on this channel or on any."""
        code, now = self.new_code(), self.clock.now()
        invitation = Invitation(role, channel, now + CODE_VALID_FOR)

        def work(tx: Tx) -> None:
            _drop_expired(tx, now)
            tx.keep(CODE_KIND, hash_code(code), dump_invitation(invitation))

        await self.store.write(work)
        return NewCode(code, role.value, channel, invitation.expires.isoformat())

    async def pair(self, channel: str, account: str, sender: str, code: str) -> Role | None:
        """The role that the code gave, once; None for a wrong one, and for any after five wrong ones within the hour.

        Code and person change in one atomic write: of two who send it at once one is let in, and a crash leaves the code
        whole or used.
        """
        name, now = person_name(channel, account, sender), self.clock.now()
        return await self.store.write(lambda tx: _use_code(tx, name, channel, code, now))

    async def list_people(self) -> list[PairedPerson]:
        """Everybody who had a code."""
        kept = await self.store.read(lambda tx: tx.all_kept(PERSON_KIND))
        return [
            PairedPerson(name, role.value, _parse_since(text))
            for name, text in kept.items()
            if (role := _parse_role(text))
        ]

    async def remove(self, name: str) -> bool:
        """They are strangers again; False when nobody is known by this name."""

        def work(tx: Tx) -> bool:
            for channel, person in owners_by_channel(tx).items():
                if person == name:
                    drop_owner_chat(tx, channel)
            return tx.drop(PERSON_KIND, name)

        removed = await self.store.write(work)
        if removed:
            await self.on_removal()
        return removed

    async def drop_former_owners(self, config: Mapping[str, Mapping[str, Role]]) -> None:
        """Nothing more is told to those who are owners no longer. `config`: what it says of people, by channel and by name."""

        def left(tx: ReadTx) -> list[str]:
            return [
                channel
                for channel, person in owners_by_channel(tx).items()
                if not owns(tx, config.get(channel), person)
            ]

        def owns(tx: ReadTx, here: Mapping[str, Role] | None, person: str) -> bool:
            return here is not None and current_role(tx, person, here) is Role.OWNER

        for channel in await self.store.read(left):
            await self.store.write(lambda tx, channel=channel: drop_owner_chat(tx, channel))


def current_role(tx: ReadTx, person: str, config: Mapping[str, Role]) -> Role | None:
    """What somebody is to the house, by the name that is theirs here; None for a stranger. `config`: by name; it goes first."""
    return config.get(person) or _parse_role(tx.kept(PERSON_KIND, person))


def _use_code(tx: Tx, name: str, channel: str, code: str, now: datetime) -> Role | None:
    _drop_expired(tx, now)
    wrong = _wrong_tries(tx, name, now)
    if len(wrong) >= MAX_WRONG_CODES:
        return None
    found = find_matching(tx.all_kept(CODE_KIND), code)
    invitation = load_invitation(tx.kept(CODE_KIND, found) or "") if found else None
    if invitation is None or not invitation.is_valid(channel, now):
        tx.keep(WRONG_KIND, name, json.dumps([at.isoformat() for at in (*wrong, now)]))
        return None
    tx.drop(CODE_KIND, found)
    tx.drop(WRONG_KIND, name)
    tx.keep(
        PERSON_KIND, name, json.dumps({"role": invitation.role.value, "since": now.isoformat()})
    )
    return invitation.role


def _drop_expired(tx: Tx, now: datetime) -> None:
    """Codes and tries that count no more are not kept, or strangers could fill the journal."""
    for name, text in tx.all_kept(CODE_KIND).items():
        invitation = load_invitation(text)
        if invitation is None or invitation.expires <= now:
            tx.drop(CODE_KIND, name)
    for name in tx.all_kept(WRONG_KIND):
        if not _wrong_tries(tx, name, now):
            tx.drop(WRONG_KIND, name)


def _wrong_tries(tx: ReadTx, name: str, now: datetime) -> tuple[datetime, ...]:
    return recent_tries(
        [datetime.fromisoformat(at) for at in json.loads(tx.kept(WRONG_KIND, name) or "[]")], now
    )


def _parse_role(kept: str | None) -> Role | None:
    """What this version does not understand admits nobody."""
    try:
        return Role(json.loads(kept)["role"]) if kept else None
    except (ValueError, KeyError, TypeError):
        return None


def _parse_since(kept: str) -> str:
    return str(json.loads(kept).get("since", ""))
