"""People who were taken off the list: what waits of them is not worked on, and former owners are told nothing more (DESIGN 6)."""

import logging
from collections.abc import Mapping

from daemon.core.places import parted
from daemon.core.roles import Right, Role, may
from daemon.core.rows import InboxRow
from daemon.people.people import People, name_of, standing
from daemon.store.protocol import ReadTx, Tx

log = logging.getLogger(__name__)
GONE = "gone"


async def turned_away(people: People, channel: str, roles: Mapping[str, Role]) -> list[InboxRow]:
    """Settle what waits of them; gives it. `roles` is what the channel's config says now.

    A turn of theirs that had begun goes on: what it asks is answered by people as they stand then. Raises StoreUnavailable.
    """
    here = by_name(channel, roles)

    def theirs(tx: ReadTx) -> list[InboxRow]:
        return [row for row in tx.inputs_in("new") if row.channel == channel and not _may_talk(tx, row, here)]

    def settle(tx: Tx) -> list[InboxRow]:
        rows = theirs(tx)  # looked for again: one that was begun meanwhile goes on
        for row in rows:
            tx.settle_input(row.id, GONE)
        return rows

    gone = await people.store.write(settle) if await people.store.read(theirs) else []
    if gone:
        log.warning("%s: %d messages of people who may give no work any more are left undone", channel, len(gone))
    return gone


async def taken_off(people: People, config: Mapping[str, Mapping[str, Role]]) -> None:
    """Before anything is taken up. `config`: what it says of people now, by channel. Raises StoreUnavailable."""
    await people.leave_places({channel: by_name(channel, roles) for channel, roles in config.items()})
    for channel, roles in config.items():
        await turned_away(people, channel, roles)


def _may_talk(tx: ReadTx, row: InboxRow, here: Mapping[str, Role]) -> bool:
    account, kind = parted(row.channel)
    role = standing(tx, name_of(kind, account, row.sender.removeprefix(f"{row.channel}:")), here)
    return role is not None and may(role, Right.TALK)


def by_name(channel: str, roles: Mapping[str, Role]) -> dict[str, Role]:
    """The same, by the names that people.py has."""
    account, kind = parted(channel)
    return {name_of(kind, account, sender): role for sender, role in roles.items()}
