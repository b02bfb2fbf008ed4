"""Addresses that no tool may ask, each tried with the real tools against real servers on loopback that must see nothing."""

import asyncio
from collections.abc import Callable

import aiohttp
import pytest

from daemon.tools.web.client import NoResolver, PinnedConnector, WebClient, WebRequest
from daemon.tools.web.config import NetConfig
from daemon.tools.web.guard import AddressGuard, AddressRefused
from tests.fakes.web import Resolver, Site, response, site
from tests.security.addresses import (
    OPEN,
    OURS,
    REDIRECTS,
    given,
    lookups,
    not_let_through,
    not_refused,
    rebound,
    redirected,
)


async def test_A4_every_address_that_may_not_be_asked_is_refused_before_anything_is_sent():
    assert await not_refused([*OURS, *given()["refuse"]]) == []


def test_A4_public_addresses_are_let_through():
    assert not_let_through([*OPEN, *given()["allow"]]) == []


@pytest.mark.parametrize("place", REDIRECTS)
async def test_A4_a_redirect_is_judged_like_any_address(place: Callable[[Site], str]):
    led = await redirected(place)
    assert led.told.startswith(
        "Not sent: inner.example is 127.0.0.1"
        if "inner.example" in place(Site())
        else "Not followed: "
    )
    assert led.stopped and led.begun == 1


async def test_A4_rebinding_one_lookup_a_request_and_the_connection_goes_where_that_one_said():
    assert await lookups() == 1


async def test_A4_rebinding_to_this_machine_between_two_requests_is_seen():
    led = await rebound()
    assert all(
        one.stopped and "127.0.0.1, and that is this machine itself" in one.told for one in led
    )
    assert len(led) == led[-1].begun == 2


async def test_A4_a_name_never_comes_as_far_as_the_connector():
    async with site() as trap:
        connector = PinnedConnector(resolver=NoResolver(), force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(AddressRefused):
                await session.get(f"http://localhost:{trap.port}/")
        assert trap.seen == []


async def test_A4_the_other_end_is_looked_at_before_anything_is_sent():
    connected = asyncio.Event()

    class Elsewhere(NoResolver):
        """Leads a checked name to another address."""

        async def resolve(
            self, host: str, port: int = 0, family: object = None
        ) -> list[aiohttp.abc.ResolveResult]:
            connected.set()
            return [
                {
                    "hostname": host,
                    "host": "127.0.0.1",
                    "port": port,
                    "family": 2,
                    "proto": 0,
                    "flags": 0,
                }
            ]

    async with site() as trap:
        async with aiohttp.ClientSession(
            connector=PinnedConnector(resolver=Elsewhere(), force_close=True)
        ) as session:
            with pytest.raises(
                AddressRefused, match="another address than the one that was checked"
            ):
                await session.get(f"http://checked.example:{trap.port}/")
        assert connected.is_set() and trap.seen == []


async def test_A4_the_next_address_is_tried_when_one_takes_no_connection():
    names = Resolver({"two.example": [["127.0.0.9", "127.0.0.1"]]})
    async with site() as made:
        made.put("/", response("hello", kind="text/plain"))
        client = WebClient(
            NetConfig(), guard=AddressGuard([f"two.example:{made.port}"], resolve=names)
        )
        answer = await client.send(
            WebRequest(client.guard.check(f"http://two.example:{made.port}/"))
        )
    assert answer.body == b"hello" and names.asked == ["two.example"]
