"""Who may be asked (SSRF): a URL is read, its name resolved once, every address checked; only those are connected to."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing

from daemon.tools.base import RetryableToolError, ToolError
from daemon.tools.net.addresses import Address, parse_address, why_refused
from daemon.tools.net.errors import Refused
from daemon.tools.net.urls import Target, read_place, read_url

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
IsMine = Callable[[Address], bool]

RESOLVE_S = 10.0
INNER_NAMES = ("localhost", "localdomain", "local", "internal", "intranet", "private", "lan", "home", "corp", "arpa", "onion")
NOT_WEB = {
    **dict.fromkeys((22, 23, 2222, 3389, 5900), "for logging in"),
    **dict.fromkeys((25, 110, 119, 143, 465, 587, 993, 995, 2525), "for mail"),
    **dict.fromkeys((20, 21, 69, 111, 135, 137, 138, 139, 445, 2049), "for files"),
    **dict.fromkeys((53, 123, 161, 162, 179, 389, 636), "of the network itself"),
    **dict.fromkeys((1433, 1521, 3306, 5432, 6379, 11211, 27017), "of a database"),
    **dict.fromkeys((194, 6660, 6661, 6662, 6663, 6664, 6665, 6666, 6667, 6668, 6669, 6697), "for chat"),
}


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """Every address that this machine's resolver has for the name. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def is_this_machine(address: Address) -> bool:
    """Whether this machine itself has the address: the kernel would answer from the very same. Sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.connect((str(address), 9))
            return parse_address(str(probe.getsockname()[0])) == address
    except OSError:
        return False


class Guard:
    """`allow` are the places (host:port) that the owner opened although they are not public; exactly those, by these names."""

    def __init__(
        self, allow: Iterable[str] = (), *, resolve: Resolve = system_resolve, is_mine: IsMine = is_this_machine
    ) -> None:
        self._allow = frozenset(read_place(place) for place in allow)
        self._resolve, self._is_mine = resolve, is_mine

    def opened(self, target: Target) -> bool:
        """The owner named exactly this host and port."""
        return (target.host, target.port) in self._allow

    def check(self, url: str) -> Target:
        """What can be said without asking anybody. Raises Refused."""
        try:
            target = read_url(url)
        except Refused as error:
            raise Refused(f"Not sent: {error}.") from error
        if reason := self._why_not(target):
            raise Refused(f"Not sent: {reason}.{_how(target)}")
        return target

    def check_next(self, here: Target, url: str) -> Target:
        """Where a redirect leads. A public server may not send us to a place that only the owner may."""
        try:
            target = read_url(url)
            reason = self._why_not(target)
        except Refused as error:
            raise Refused(f"Not followed: {here.host} redirects to what may not be asked: {error}.") from error
        if not reason and self.opened(target) and not self.opened(here):
            reason = "the redirect comes from the public internet, the place is not public"
        if reason:
            raise Refused(f"Not followed: {here.host} redirects to what may not be asked: {reason}.")
        return target

    async def admit(self, target: Target) -> tuple[Address, ...]:
        """The addresses that may be connected to, in the resolver's order. Asks it once; one bad address spoils them all."""
        found = (target.address,) if target.address is not None else await self._addresses(target)
        if not self.opened(target):
            for address in found:
                if reason := self._what_is(address):
                    raise Refused(f"Not sent: {target.host} is {address}, and that is {reason}.{_how(target)}")
        return found

    async def _addresses(self, target: Target) -> tuple[Address, ...]:
        try:
            async with asyncio.timeout(RESOLVE_S):
                told = await self._resolve(target.host, target.port)
        except TimeoutError as error:
            raise RetryableToolError(f"Not sent: {target.host} could not be looked up in {RESOLVE_S:g} s.") from error
        except socket.gaierror as error:
            kind = RetryableToolError if error.errno == socket.EAI_AGAIN else ToolError
            raise kind(f"Not sent: there is no host {target.host}, or its name cannot be looked up now.") from error
        except (OSError, UnicodeError) as error:
            raise ToolError(f"Not sent: the name {target.host} could not be looked up.") from error
        addresses = tuple(parse_address(text) for text in told)
        known = tuple(address for address in addresses if address is not None)
        if not known or len(known) != len(addresses):
            raise Refused(f"Not sent: {target.host} has no address that can be read.")
        return known

    def _why_not(self, target: Target) -> str:
        if self.opened(target):
            return ""
        if target.address is not None and (reason := self._what_is(target.address)):
            return f"{target.host} is {reason}"
        if target.address is None and ("." not in target.host or target.host.rpartition(".")[2] in INNER_NAMES):
            return f"{target.host} is a name inside this machine or its network"
        return f"port {target.port} is {NOT_WEB[target.port]}, not of the web" if target.port in NOT_WEB else ""

    def _what_is(self, address: Address) -> str:
        return why_refused(address) or ("an address of this machine itself" if self._is_mine(address) else "")


def _how(target: Target) -> str:
    return f' Only the owner can open it: [tools.http] allow = ["{target.place}"] in config.toml.'
