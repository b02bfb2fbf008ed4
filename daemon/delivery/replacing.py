"""A reply takes the place of what was shown of it while it grew, before a crash perhaps (E12; B5 #4)."""

import logging

from channels.base import Channel, ChannelError, Later, Refused, Unclear
from daemon.delivery.letters import draft_key
from daemon.delivery.parcel import Parcel

log = logging.getLogger(__name__)


async def over_the_draft(channel: Channel, parcel: Parcel) -> str:
    """The id of the draft, which now shows the reply; "" where there is none that can. Raises Later, Unclear, Revoked."""
    shown = parcel.letter.draft or await _unknown(channel, parcel)
    if not shown:
        return ""
    if parcel.letter.overtaken:
        await _away(channel, parcel, shown)
        return ""
    try:
        await channel.edit(parcel.letter.address, shown, parcel.piece, choices=parcel.choices)
    except Refused as error:
        log.info("%s: a draft cannot be replaced (%s); the reply is sent by itself", channel.name, error)
        await _away(channel, parcel, shown)
        return ""
    except Unclear as error:
        raise Later(str(error)) from error  # once more does no harm, however often: nothing is doubled by it
    return shown


async def _unknown(channel: Channel, parcel: Parcel) -> str:
    """One was begun, and what became of it is not known. Under the same key the platform gives the first one, or makes one.

    Where there are keys nothing is looked for: a platform that finds by words would take an equal answer of before for it.
    """
    letter, key = parcel.letter, draft_key(parcel.row.turn)
    if not channel.can.keyed:
        return await channel.find(letter.address, key, parcel.piece, letter.since)
    try:
        return await channel.draft(letter.address, key, letter.markdown, "", private=not letter.reply_to)
    except Refused:
        return ""


async def _away(channel: Channel, parcel: Parcel, shown: str) -> None:
    try:
        await channel.delete(parcel.letter.address, shown)
    except ChannelError as error:
        log.debug("%s: it stays where it is: %s", channel.name, error)
