"""Which addresses may be requested (SSRF guard).

A URL is parsed strictly, its name resolved once, every address checked; only those are used.
"""

import asyncio
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from yarl import URL

from daemon.core import value
from daemon.tools.base import RetryableToolError, ToolError

Address = IPv4Address | IPv6Address

PRIVATE_NETWORK = "a private network"
TEST_NETWORK = "a network for tests and examples"
TUNNEL = "a tunnel to another network"
# Our own table: what the standard library calls global differs by its version.
BLOCKED = {
    ip_network(network): reason
    for network, reason in {
        "0.0.0.0/8": "this machine itself",
        "10.0.0.0/8": PRIVATE_NETWORK,
        "100.64.0.0/10": "the network of a provider (carrier-grade NAT)",
        "127.0.0.0/8": "this machine itself (loopback)",
        "168.63.129.16/32": "a cloud's own service for its machines",
        "169.254.0.0/16": "the local link, where clouds keep their machines' keys",
        "172.16.0.0/12": PRIVATE_NETWORK,
        "192.0.0.0/24": "reserved, and a cloud's own service for its machines",
        "192.0.2.0/24": TEST_NETWORK,
        "192.88.99.0/24": TUNNEL,
        "192.168.0.0/16": PRIVATE_NETWORK,
        "198.18.0.0/15": TEST_NETWORK,
        "198.51.100.0/24": TEST_NETWORK,
        "203.0.113.0/24": TEST_NETWORK,
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved or broadcast",
        "::/128": "this machine itself",
        "::1/128": "this machine itself (loopback)",
        "2001::/23": "reserved, or a tunnel to another network (Teredo)",
        "2001:db8::/32": TEST_NETWORK,
        "2002::/16": "a tunnel to another network (6to4)",
        "3fff::/20": TEST_NETWORK,
        "fc00::/7": PRIVATE_NETWORK,
        "fe80::/10": "the local link",
        "fec0::/10": PRIVATE_NETWORK,
        "ff00::/8": "multicast",
    }.items()
}
IPV6_GLOBAL = ip_network("2000::/3")
IPV4_IN_IPV6 = tuple(map(ip_network, ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
ISATAP = (0x00005EFE, 0x02005EFE)

MAX_URL = 8000
WHOLE_URL = re.compile(r"(?i)https?://([^/?#]*)")
PLACE = re.compile(r"(?a)(\[[0-9a-f:.]+\]|[^:\[\]]+)(:\d{1,5})?")
HOST_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

RESOLVE_S = 10.0
INTERNAL_NAMES = (
    "localhost", "localdomain", "local", "internal", "intranet", "private", "lan", "home", "corp",
    "arpa", "onion",
)  # fmt: skip
BLOCKED_PORTS = {
    **dict.fromkeys((22, 23, 2222, 3389, 5900), "for logging in"),
    **dict.fromkeys((25, 110, 119, 143, 465, 587, 993, 995, 2525), "for mail"),
    **dict.fromkeys((20, 21, 69, 111, 135, 137, 138, 139, 445, 2049), "for files"),
    **dict.fromkeys((53, 123, 161, 162, 179, 389, 636), "of the network itself"),
    **dict.fromkeys((1433, 1521, 3306, 5432, 6379, 11211, 27017), "of a database"),
    **dict.fromkeys((194, *range(6660, 6670), 6697), "for chat"),
}

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
IsMine = Callable[[Address], bool]


class AddressRefused(ToolError):
    """This address may not be requested. Nothing was sent."""


@value
class Target:
    """`host` is an ASCII name, or an address without brackets, which `address` then holds."""

    url: URL
    host: str
    port: int
    address: Address | None

    @property
    def secure(self) -> bool:
        """It uses TLS."""
        return self.url.scheme == "https"

    @property
    def host_port(self) -> str:
        """As [tools.http] allow has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address | None:
    """None for what is no address in its plain form."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def explain_blocked(address: Address) -> str:
    """What this address is if it is not public, else empty. IPv4 inside IPv6 counts as IPv4."""
    if address.version == 6 and any(address in network for network in IPV4_IN_IPV6):
        inside = IPv4Address(int(address) & 0xFFFFFFFF)
        reason = explain_blocked(inside)
        return reason and f"{inside} in another form, {reason}"
    isatap = int(address) >> 32 & 0xFFFFFFFF in ISATAP
    public = address.version == 4 or (address in IPV6_GLOBAL and not isatap)
    reasons = (reason for network, reason in BLOCKED.items() if address in network)
    return next(reasons, "" if public else "outside the public internet")


def parse_url(text: str) -> Target:
    """Raises AddressRefused for what is no whole http(s) URL, or what hides where it leads.

    The library that parses here is the one that sends, so there is one reading only.
    """
    if len(text) > MAX_URL:
        raise AddressRefused(f"the URL is longer than {MAX_URL} characters")
    if any(char == "\\" or unicodedata.category(char)[0] in "CZ" for char in text):
        raise AddressRefused(
            "the URL holds a space, a backslash or an invisible character; write a space as %20"
        )
    whole = WHOLE_URL.match(text)
    if whole is None:
        raise AddressRefused(
            "only whole addresses that begin with http:// or https:// can be requested"
        )
    try:
        url = URL(text).with_fragment(None)
        host, port, user = url.raw_host or "", url.port or 0, url.raw_user
    except ValueError as error:
        raise AddressRefused("the URL cannot be read") from error
    place = whole[1].lower()
    if user is not None or "@" in place:
        raise AddressRefused(
            "the URL holds a user name before its host; credentials go into a header"
        )
    if not PLACE.fullmatch(place) or not 0 < port < 65536:
        raise AddressRefused("the URL has no host and port that can be read")
    name, address = host.lower().removesuffix("."), parse_address(host)
    if not (HOST_NAME.fullmatch(name) or (address and place.startswith("["))):
        raise AddressRefused("the URL's host is no name")
    if NUMBER.fullmatch(name.rpartition(".")[2]) and (host not in place or address is None):
        raise AddressRefused(
            "the URL's host is a number in disguise; an address is written like 93.184.215.14"
        )
    return Target(url, str(address or name), port, address)


def parse_host_port(text: str) -> tuple[str, int]:
    """Raises AddressRefused unless it is `host:port`."""
    target = parse_url(f"http://{text}")
    if target.url.explicit_port is None or not PLACE.fullmatch(text.lower()):
        raise AddressRefused("there is no port")
    return target.host, target.port


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """Every address that this machine's resolver has for the name. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def is_this_machine(address: Address) -> bool:
    """The kernel would answer from this very address. Sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.connect((str(address), 9))
            return parse_address(str(probe.getsockname()[0])) == address
    except OSError:
        return False


class AddressGuard:
    """`allow` are the places (host:port) that the owner opened although they are not public."""

    def __init__(
        self,
        allow: Iterable[str] = (),
        *,
        resolve: Resolve = system_resolve,
        is_mine: IsMine = is_this_machine,
    ) -> None:
        self._allow = frozenset(map(parse_host_port, allow))
        self._resolver, self._is_mine = resolve, is_mine

    def is_allowed(self, target: Target) -> bool:
        """The owner named exactly this host and port."""
        return (target.host, target.port) in self._allow

    def check(self, url: str, source: Target | None = None) -> Target:
        """Everything that can be judged without the network. Raises AddressRefused.

        `source` redirects there: a public server may not lead to what only the owner may request.
        """
        refused, advice = "Not sent:", ""
        if source:
            refused = f"Not followed: {source.host} redirects to what may not be requested:"
        try:
            target = parse_url(url)
            reason = self._find_reason(target)
            if source and self.is_allowed(target) and not self.is_allowed(source):
                reason = "the redirect comes from the public internet, the place is not public"
            elif reason and not source:
                advice = _how_to_allow(target)
        except AddressRefused as error:
            raise AddressRefused(f"{refused} {error}.") from error
        if reason:
            raise AddressRefused(f"{refused} {reason}.{advice}")
        return target

    async def resolve(self, target: Target) -> tuple[Address, ...]:
        """The addresses to connect to, in the resolver's order. One bad address refuses all."""
        host, found = target.host, (target.address,) if target.address else ()
        try:
            async with asyncio.timeout(RESOLVE_S):
                texts = () if found else await self._resolver(host, target.port)
        except TimeoutError as error:
            raise RetryableToolError(
                f"Not sent: {host} could not be looked up in {RESOLVE_S:g} s."
            ) from error
        except socket.gaierror as error:
            kind = RetryableToolError if error.errno == socket.EAI_AGAIN else ToolError
            raise kind(
                f"Not sent: there is no host {host}, or its name cannot be looked up now."
            ) from error
        except (OSError, UnicodeError) as error:
            raise ToolError(f"Not sent: the name {host} could not be looked up.") from error
        addresses = found or tuple(filter(None, map(parse_address, texts)))
        if not addresses or len(addresses) < len(texts):
            raise AddressRefused(f"Not sent: {host} has no address that can be read.")
        for address in addresses if not self.is_allowed(target) else ():
            if reason := self._explain_address(address):
                raise AddressRefused(
                    f"Not sent: {host} is {address}, and that is {reason}.{_how_to_allow(target)}"
                )
        return addresses

    def _find_reason(self, target: Target) -> str:
        host, address = target.host, target.address
        if self.is_allowed(target):
            return ""
        if address and (reason := self._explain_address(address)):
            return f"{host} is {reason}"
        if not address and ("." not in host or host.rpartition(".")[2] in INTERNAL_NAMES):
            return f"{host} is a name inside this machine or its network"
        purpose = BLOCKED_PORTS.get(target.port)
        return f"port {target.port} is {purpose}, not of the web" if purpose else ""

    def _explain_address(self, address: Address) -> str:
        mine = "an address of this machine itself"
        return explain_blocked(address) or (mine if self._is_mine(address) else "")


def _how_to_allow(target: Target) -> str:
    place = target.host_port
    return f' Only the owner can open it: [tools.http] allow = ["{place}"] in config.toml.'
