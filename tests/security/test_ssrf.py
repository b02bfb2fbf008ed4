"""Addresses that no tool may ask, each tried with the real tools against real servers on loopback that must see nothing."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from daemon.core.events import Outcome
from daemon.tools.net.client import Ask, NoNames, Pinned, WebClient
from daemon.tools.net.config import NetConfig
from daemon.tools.net.errors import Refused
from daemon.tools.net.guard import Guard
from daemon.tools.web import Reading, web_fetch
from tests.fakes.tools import Bench
from tests.fakes.web import Resolver, Site, moved, response, site

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "ssrf_dev.json"
OURS = [
    # numbers in disguise
    "http://127.1/", "http://127.0.1/", "http://0x7f000001/", "http://0x7f.0x0.0x0.0x1/", "http://017700000001/", "http://0/",
    "http://0x7f.1/", "http://00000177.0.0.1/", "http://127.0.0.1.:80/", "http://3232235777/", "http://0xA9FEA9FE/",
    "http://127.00.0.1/", "http://①②⑦.0.0.1/", "http://１２７.0.0.1/", "http://127．0．0．1/", "http://127｡0｡0｡1/",
    "http://⑯⑨。②⑤④。⑯⑨。②⑤④/", "http://0。0。0。0/", "http://169.254.169.254/latest/meta-data/", "http://169.254.170.2/",
    "http://192.0.0.192/", "http://100.100.100.200/", "http://168.63.129.16/", "http://0.0.0.0:8080/", "http://0.1.2.3/",
    "http://127.255.255.254/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.0.1/", "http://100.64.0.1/",
    "http://198.19.255.255/", "http://192.0.2.1/", "http://198.51.100.7/", "http://203.0.113.9/", "http://224.0.0.1/",
    "http://239.255.255.250/", "http://240.0.0.1/", "http://192.88.99.1/",
    # IPv6
    "http://[::1]/", "http://[::]/", "http://[0:0:0:0:0:0:0:1]/", "http://[::ffff:7f00:1]/", "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/", "http://[2002:7f00:1::]/", "http://[2001:0:5db8:d70e::80ff:fffe]/",
    "http://[64:ff9b::169.254.169.254]/", "http://[64:ff9b:1::7f00:1]/", "http://[2600::5efe:127.0.0.1]/",
    "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[::1%25lo]/", "http://[fc00::1]/",
    "http://[fec0::1]/", "http://[ff02::1]/", "http://[2001:db8::1]/", "http://[fd20:ce::254]/", "http://[::127.0.0.1]:80/",
    "http://[127.0.0.1]/", "http://[::1/", "http://::1/", "http://[v1.fe80::a]/",
    # names inside
    "http://localhost./", "http://LocalHost/", "http://a.localhost/", "http://localhost.localdomain/",
    "http://ｌｏｃａｌｈｏｓｔ/", "http://ⓛocalhost/", "http://metadata.google.internal/computeMetadata/v1/",
    "http://metadata/", "http://printer.local/", "http://router.lan/", "http://1.0.0.127.in-addr.arpa/",
    "http://x.home.arpa/", "http://foo.127.0.0.1/", "http://ip6-localhost/", "http://lo\u00adcalhost/",
    # what two programs read in two ways
    "http://8.8.8.8@127.0.0.1/", "http://127.0.0.1#@8.8.8.8/", "http://8.8.8.8\\@127.0.0.1/", "http://8.8.8.8/\\x",
    "http:\\\\127.0.0.1/",
    "http:/\\127.0.0.1/", "http://127.0.0.1\\.example.com/", "http://user:pass@8.8.8.8/", "http://@8.8.8.8/",
    "http://127.0.0.1%2f.example.com/", "http://127.0.0.1%00.example.com/", "http://127.0.0.1\x00.example.com/",
    "http://127.0.0.1\t/", " http://127.0.0.1/", "http://127.0.0.1 /", "http://8.8.8.8/\r\nHost: 127.0.0.1",
    "http://8.8.8.8/x\nY: z", "http:127.0.0.1/", "http:///127.0.0.1/", "//127.0.0.1/", "127.0.0.1", "http://", "http://:80/",
    "http://./", "http://../", "http://a..example.com/", "http://%6cocalhost/", "http://%31%32%37.0.0.1/",
    "http://127.0.0.1:80:80/", "http://8.8.8.8:99999/", "http://8.8.8.8:0/", "http://8.8.8.8:８０/", "http://8.8.8.8:-1/",
    "http://8.8.8.8,127.0.0.1/", "http://127.0.0.1;x/", "http://example.com\u200b@127.0.0.1/", "http://exa mple.com/", "",
    # other schemes, other services
    "file:///etc/passwd", "FILE://localhost/etc/passwd", "ftp://8.8.8.8/", "gopher://8.8.8.8:6379/_INFO",
    "dict://8.8.8.8:11211/stat", "ldap://8.8.8.8/", "data:text/html,x", "javascript:alert(1)", "jar:http://8.8.8.8!/",
    "unix:///run/docker.sock", "http+unix://%2Frun/x", "ws://8.8.8.8/", "view-source:http://8.8.8.8/", "httpx://8.8.8.8/",
    "http://8.8.8.8:22/", "http://8.8.8.8:25/", "http://8.8.8.8:6379/",
]  # fmt: skip
REDIRECTS: tuple[Callable[[Site], str], ...] = (
    lambda trap: trap.url + "/",
    lambda trap: f"http://localhost:{trap.port}/",
    lambda trap: f"//127.0.0.1:{trap.port}/",
    lambda trap: f"http://[::ffff:127.0.0.1]:{trap.port}/",
    lambda trap: f"http://2130706433:{trap.port}/",
    lambda trap: f"http://8.8.8.8@127.0.0.1:{trap.port}/",
    lambda trap: f"\\\\127.0.0.1:{trap.port}/",
    lambda trap: f"http://inner.example:{trap.port}/",
    lambda trap: "http://169.254.169.254/latest/meta-data/",
    lambda trap: "file:///etc/passwd",
    lambda trap: "gopher://127.0.0.1:6379/_x",
    lambda trap: "data:text/plain,secret",
)


def told_to_refuse() -> list[str]:
    """The shared cases, where this tree stands beside them."""
    return json.loads(SHARED.read_text())["refuse"] if SHARED.exists() else []


@asynccontextmanager
async def fetching(*allow: str, names: Resolver | None = None) -> AsyncGenerator[Bench]:
    """A bench that can fetch; names are as they are made up here, no real one is looked up."""
    client = WebClient(NetConfig(timeout_s=5), guard=Guard(allow, resolve=names or Resolver({})))
    yield Bench(tools=(web_fetch,), parts={Reading: Reading(client, 2000)}, granted=("web_fetch",))


async def refused(bench: Bench, url: str) -> str:
    """What the model is told of an address that is refused."""
    told = await bench.one("web_fetch", json.dumps({"url": url}))
    assert told.outcome is Outcome.ERROR and told.error_class == "Refused", (url, told.text)
    return told.text


async def test_A4_every_address_that_may_not_be_asked_is_refused_before_anything_is_sent():
    async with fetching() as bench:
        for url in [*OURS, *told_to_refuse()]:
            assert (await refused(bench, url)).startswith("Not sent: "), url


async def test_A4_public_addresses_are_let_through():
    urls = json.loads(SHARED.read_text())["allow"] if SHARED.exists() else []
    guard = Guard()
    for url in [*urls, "http://1.1.1.1:8081/x", "https://[2606:4700:4700::1111]/", "https://example.com./", "https://münchen.example/ü?q=a%20b"]:
        assert not guard.opened(guard.check(url))


@pytest.mark.parametrize("place", REDIRECTS)
async def test_A4_a_redirect_is_judged_like_any_address(place: Callable[[Site], str]):
    names = Resolver({"inner.example": [["127.0.0.1"]]})
    async with site() as start, site() as trap, fetching(start.place, names=names) as bench:
        trap.put("/", response("the secret", kind="text/plain"))
        text = await refused(bench, start.put("/go", moved(place(trap))))
        assert text.startswith("Not sent: inner.example is 127.0.0.1" if "inner.example" in place(trap) else "Not followed: ")
        assert "secret" not in text and len(start.seen) == 1 and trap.seen == []


async def test_A4_rebinding_one_lookup_a_request_and_the_connection_goes_where_that_one_said():
    names = Resolver({})
    async with site() as first, fetching(f"rebind.example:{first.port}", names=names) as bench:
        first.put("/", response("first", kind="text/plain"))
        names.answers["rebind.example"] = [["127.0.0.1"], ["127.0.0.9"]]
        told = await bench.one("web_fetch", json.dumps({"url": f"http://rebind.example:{first.port}/"}))
        assert told.text.endswith("first") and names.asked == ["rebind.example"]
        assert first.seen[0].headers["host"] == f"rebind.example:{first.port}"


async def test_A4_rebinding_to_this_machine_between_two_requests_is_seen():
    names = Resolver({"rebind.example": [["93.184.215.14", "127.0.0.1"], ["127.0.0.1"]]})
    async with site() as trap, fetching(names=names) as bench:
        for _ in range(2):
            assert "127.0.0.1, and that is this machine itself" in await refused(bench, f"http://rebind.example:{trap.port}/")
        assert trap.seen == [] and len(names.asked) == 2


async def test_A4_a_name_never_comes_as_far_as_the_connector():
    async with site() as trap:
        connector = Pinned(resolver=NoNames(), force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(Refused):
                await session.get(f"http://localhost:{trap.port}/")
        assert trap.seen == []


async def test_A4_the_other_end_is_looked_at_before_anything_is_sent():
    connected = asyncio.Event()

    class Elsewhere(NoNames):
        """Leads a checked name to another address."""

        async def resolve(self, host: str, port: int = 0, family: object = None) -> list[aiohttp.abc.ResolveResult]:
            connected.set()
            return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 0, "flags": 0}]

    async with site() as trap:
        async with aiohttp.ClientSession(connector=Pinned(resolver=Elsewhere(), force_close=True)) as session:
            with pytest.raises(Refused, match="another address than the one that was checked"):
                await session.get(f"http://checked.example:{trap.port}/")
        assert connected.is_set() and trap.seen == []


async def test_A4_the_next_address_is_tried_when_one_takes_no_connection():
    names = Resolver({"two.example": [["127.0.0.9", "127.0.0.1"]]})
    async with site() as made:
        made.put("/", response("hello", kind="text/plain"))
        client = WebClient(NetConfig(), guard=Guard([f"two.example:{made.port}"], resolve=names))
        answer = await client.send(Ask(client.guard.check(f"http://two.example:{made.port}/")))
    assert answer.body == b"hello" and names.asked == ["two.example"]
