"""People who were taken off the list: what waits of them is not worked on, and former owners are
told nothing more (trust.md).
"""

import logging
from collections.abc import Mapping

from daemon.access.directory import Directory, current_role, person_name
from daemon.core.ids import split_channel
from daemon.core.rows import InboxRow
from daemon.core.trust import Right, Role, has_right
from daemon.store.journal import Tx

log = logging.getLogger(__name__)
REMOVED_STATE = "gone"


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
            if row.channel == channel and not _may_talk(tx, row, here)
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
