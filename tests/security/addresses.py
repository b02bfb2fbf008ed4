"""Addresses that no tool may ask, each tried with the real tools against real servers on loopback that must see nothing."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from daemon.core.events import Outcome
from daemon.tools.web.client import WebClient
from daemon.tools.web.config import NetConfig
from daemon.tools.web.guard import AddressGuard, AddressRefused
from daemon.tools.web.requests import PageReader, web_fetch
from tests.fakes.tools import Bench
from tests.fakes.web import Resolver, Site, moved, response, site

Urls = Sequence[str]
SHARED = Path(__file__).parents[3] / "shared" / "data" / "ssrf_dev.json"
OPEN = [
    "http://1.1.1.1:8081/x",
    "https://[2606:4700:4700::1111]/",
    "https://example.com./",
    "https://münchen.example/ü?q=a%20b",
]
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


def given() -> dict[str, list[str]]:
    """The shared cases, "refuse" and "allow"; none where they are not at hand."""
    return json.loads(SHARED.read_text()) if SHARED.exists() else {"refuse": [], "allow": []}


@asynccontextmanager
async def fetching(*allow: str, names: Resolver | None = None) -> AsyncGenerator[Bench]:
    """A bench that can fetch; names are as they are made up here, no real one is looked up."""
    client = WebClient(
        NetConfig(timeout_s=5), guard=AddressGuard(allow, resolve=names or Resolver({}))
    )
    yield Bench(
        tools=(web_fetch,), parts={PageReader: PageReader(client, 2000)}, granted=("web_fetch",)
    )


async def refusal(bench: Bench, url: str) -> str:
    """What the model is told of an address that is refused; empty for one that was not."""
    told = await bench.one("web_fetch", json.dumps({"url": url}))
    return (
        told.text if told.outcome is Outcome.ERROR and told.error_class == "AddressRefused" else ""
    )


async def not_refused(urls: Urls) -> list[str]:
    """Those that the tool did not refuse before anything was sent."""
    async with fetching() as bench:
        return [url for url in urls if not (await refusal(bench, url)).startswith("Not sent: ")]


def not_let_through(urls: Urls) -> list[str]:
    """Those of these public addresses that the guard refused, or held for one of its owner's."""
    guard = AddressGuard()
    return [url for url in urls if not _lets_through(guard, url)]


def _lets_through(guard: AddressGuard, url: str) -> bool:
    try:
        return not guard.is_allowed(guard.check(url))
    except AddressRefused:
        return False


@dataclass(frozen=True, slots=True)
class Led:
    """Where an attempt to lead a request astray ended: what the model was told of its refusal, the requests that the page it
    began at and the one that nobody may ask have seen.
    """

    told: str
    begun: int
    arrived: int

    @property
    def stopped(self) -> bool:
        """Refused, and nothing came through."""
        return bool(self.told) and self.arrived == 0 and "secret" not in self.told


async def redirected(place: Callable[[Site], str]) -> Led:
    """A page moves to this place of a server on this machine."""
    names = Resolver({"inner.example": [["127.0.0.1"]]})
    async with site() as start, site() as trap, fetching(start.place, names=names) as bench:
        trap.put("/", response("the secret", kind="text/plain"))
        told = await refusal(bench, start.put("/go", moved(place(trap))))
        return Led(told, len(start.seen), len(trap.seen))


async def rebound() -> list[Led]:
    """A name that is a public address and this machine at once, and then this machine only."""
    names = Resolver({"rebind.example": [["93.184.215.14", "127.0.0.1"], ["127.0.0.1"]]})
    async with site() as trap, fetching(names=names) as bench:
        trap.put("/", response("the secret", kind="text/plain"))
        told = [await refusal(bench, f"http://rebind.example:{trap.port}/") for _ in range(2)]
        return [Led(one, len(names.asked), len(trap.seen)) for one in told]


async def lookups() -> int:
    """How often a name is looked up for one request that goes through: each one more could lead elsewhere."""
    names = Resolver({"rebind.example": [["127.0.0.1"], ["127.0.0.9"]]})
    async with site() as first, fetching(f"rebind.example:{first.port}", names=names) as bench:
        first.put("/", response("first", kind="text/plain"))
        told = await bench.one(
            "web_fetch", json.dumps({"url": f"http://rebind.example:{first.port}/"})
        )
        if (
            not told.text.endswith("first")
            or first.seen[0].headers["host"] != f"rebind.example:{first.port}"
        ):
            raise RuntimeError(told.text)
        return len(names.asked)
