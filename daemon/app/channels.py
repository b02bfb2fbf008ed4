"""The channels of the config: what comes in goes to the house, what the outbox holds goes out (DESIGN 3)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from daemon.app.accounts import Configured, configured
from daemon.app.telling import Telling
from daemon.app.works import Works
from daemon.delivery.closing import Closing
from daemon.delivery.delivery import Delivery
from daemon.delivery.drafts import Drafts
from daemon.delivery.enclosed import sweep
from daemon.delivery.outlet import AILING_S, SILENT_S, Outlet
from daemon.delivery.pacing import Pacing
from daemon.delivery.postman import GIVE_UP_S, Postman
from daemon.delivery.tending import REFUSED_PAUSE, TELL_AFTER_S, Tending
from daemon.delivery.writing import Writing
from daemon.people.gone import taken_off
from daemon.people.people import People
from daemon.reception.host import Reception
from daemon.reception.visitors import Visitors
from daemon.tools.inbox import FilesInbox


@dataclass(frozen=True, slots=True)
class Times:
    """How long things may take, in seconds: until a channel that is silent, or ails, counts as down, and until the owner is told;
    until a message is given up; until a platform that refused us is asked again; until what is to go out at the end has gone.
    """

    silent_s: float = SILENT_S
    ailing_s: float = AILING_S
    tell_after_s: float = TELL_AFTER_S
    give_up_s: float = GIVE_UP_S
    refused_pause_s: float = REFUSED_PAUSE
    flush_s: float = 5.0


@asynccontextmanager
async def at_work(works: Works, accounts: Sequence[Configured] | None = None, times: Times | None = None) -> AsyncIterator[None]:
    """The channels of the config, or these, listen, and the outbox is emptied as long as this is open; what is ready then still
    goes out. Raises ConfigError for a channel that cannot be made.
    """
    times = times or Times()
    accounts, store = configured(works.config) if accounts is None else accounts, works.desk.store
    await asyncio.to_thread(FilesInbox(works.paths.inbox).tidy)
    await sweep(store, works.paths.outbox)
    for one in accounts:
        works.outlets[one.name] = await _outlet(works, one, times)
        works.listed[one.name] = one.roles()
    telling, writing = Telling(store, works.clock, works.new_id, works.answers), Writing(store, works.answers)
    drafts = Drafts(store, works.clock, works.live, works.desk.sessions.known, works.outlets)
    closing = Closing(store, works.live, works.outlets)
    postman = Postman(store, works.clock, drafts, closing, writing, telling.post, works.paths.outbox, times.give_up_s)
    delivery = Delivery(store, works.outlets, postman)
    hosts = {one.name: _reception(works, one) for one in accounts}
    tending = Tending(works.outlets, lambda outlet: hosts[outlet.name], telling, times.tell_after_s, times.refused_pause_s)
    followers = (drafts.begun, closing.resumed)
    works.live.followers.extend(followers)
    drafts.begin()
    await closing.begin()
    await taken_off(People(store, works.clock), works.listed)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(delivery.run(), name="delivery"), group.create_task(tending.run(), name="channels")]
        try:
            yield
        finally:
            for follower in followers:
                works.live.followers.remove(follower)
            await delivery.idle(times.flush_s)
            for task in tasks:
                task.cancel()
            await asyncio.gather(drafts.aclose(), closing.aclose(), *(one.aclose() for one in hosts.values()))


async def _outlet(works: Works, one: Configured, times: Times) -> Outlet:
    await asyncio.to_thread(one.load)
    channel = one.open()
    pacing = Pacing(channel.rate, works.clock.monotonic, asyncio.sleep)
    return Outlet(channel, works.clock, pacing, times.silent_s, times.ailing_s)


def _reception(works: Works, one: Configured) -> Reception:
    store, people = works.desk.store, People(works.desk.store, works.clock)
    visitors = Visitors(one.name, works.listed[one.name], people, store, works.clock, works.new_id)
    return Reception(works.outlets[one.name], works.desk, works.intake, visitors, works.redactor)
