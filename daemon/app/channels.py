"""The channels of the config: what comes in goes to the house, what the outbox holds goes out (DESIGN 3)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from daemon import plugins
from daemon.app.accounts import Configured, configured
from daemon.app.telling import Telling
from daemon.app.works import Works
from daemon.delivery.closing import Closing
from daemon.delivery.delivery import Delivery
from daemon.delivery.drafts import Drafts
from daemon.delivery.outlet import Outlet
from daemon.delivery.pacing import Pacing
from daemon.delivery.postman import Postman
from daemon.delivery.tending import Tending
from daemon.delivery.writing import Writing
from daemon.people.people import People
from daemon.reception.host import Reception
from daemon.reception.visitors import Visitors

FLUSH_S = 5.0


@asynccontextmanager
async def at_work(works: Works) -> AsyncIterator[None]:
    """The channels listen and the outbox is emptied as long as this is open; what is ready then still goes out.

    Raises ConfigError for a channel that cannot be made.
    """
    accounts, store = configured(works.config), works.desk.store
    for one in accounts:
        works.outlets[one.name] = await _outlet(works, one)
    telling = Telling(store, works.clock, works.new_id, lambda name: name in works.outlets and works.outlets[name].up.is_set())
    drafts = Drafts(store, works.clock, works.live, works.desk.sessions.known, works.outlets)
    closing = Closing(store, works.outlets)
    postman = Postman(store, works.clock, drafts, Writing(store), telling, works.paths.outbox)
    delivery = Delivery(store, works.outlets, postman)
    receptions = {one.name: _reception(works, one) for one in accounts}
    tending = Tending(works.outlets, lambda outlet: receptions[outlet.name], telling)
    works.live.followers.extend((drafts.begun, closing.resumed))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(delivery.run(), name="delivery"), group.create_task(tending.run(), name="channels")]
        try:
            yield
        finally:
            works.live.followers.clear()
            await delivery.idle(FLUSH_S)
            for task in tasks:
                task.cancel()
            await asyncio.gather(drafts.aclose(), closing.aclose(), *(one.aclose() for one in receptions.values()))


async def _outlet(works: Works, one: Configured) -> Outlet:
    await asyncio.to_thread(plugins.load, "channels", one.kind)
    channel = one.open()
    return Outlet(channel, works.clock, Pacing(channel.rate, works.clock.monotonic, asyncio.sleep))


def _reception(works: Works, one: Configured) -> Reception:
    store, people = works.desk.store, People(works.desk.store, works.clock)
    visitors = Visitors(one.name, one.roles(), people, store, works.clock, works.new_id)
    return Reception(works.outlets[one.name], works.desk, works.intake, visitors, works.redactor)
