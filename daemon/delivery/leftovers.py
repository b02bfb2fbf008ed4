"""Drafts that no reply will replace: a crash came before they were taken away."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from channels.base import ChannelError
from channels.message import Address
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import UNSENT
from daemon.delivery.addresses import address_of
from daemon.delivery.letters import DRAFT, GONE, REPLY
from daemon.delivery.outlet import Outlet
from daemon.store.protocol import ReadTx, Store

log = logging.getLogger(__name__)
LAST_CALL_S = 10.0


@dataclass(frozen=True, slots=True)
class Left:
    """A draft; `message` is "" or GONE where there is nothing to take away."""

    turn: str
    address: Address
    message: str


async def tidy_up(store: Store, outlets: Mapping[str, Outlet]) -> None:
    """Take them away, each as soon as its channel works."""
    try:
        left = await store.read(_left)
        await asyncio.gather(*(_away(store, outlets[one.address.channel], one) for one in left if one.address.channel in outlets))
    except StoreUnavailable as error:
        log.warning("drafts of before are not looked after: %s", error)


async def _away(store: Store, outlet: Outlet, left: Left) -> None:
    if left.message.removeprefix(GONE):
        await outlet.up.wait()
        try:
            await asyncio.wait_for(outlet.channel.delete(left.address, left.message), LAST_CALL_S)
        except (ChannelError, TimeoutError) as error:
            log.info("%s: a draft of before stays: %s", outlet.name, error)
    await store.write(lambda tx: tx.drop(DRAFT, left.turn))


def _left(tx: ReadTx) -> list[Left]:
    found = []
    for name, message in tx.all_kept(DRAFT).items():
        turn = tx.turn(name)
        waits = any(row.kind == REPLY and row.state in UNSENT for row in tx.outbox_of(name))
        session = tx.session(turn.session) if turn and turn.ended_at and not waits else None
        if session:
            found.append(Left(name, address_of(session.channel, session.chat), message))
    return found
