"""A URL, read strictly: one reading only, so that what was judged is what is asked."""

import re
import unicodedata
from dataclasses import dataclass

from yarl import URL

from daemon.tools.net.addresses import Address, parse_address
from daemon.tools.net.errors import Refused

LONGEST = 8000
DEFAULT_PORTS = {"http": 80, "https": 443}
PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?([^/?#]*)([^#]*)(?:#.*)?", re.DOTALL)
SIX = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]{1,5}))?")
NAMED = re.compile(r"([^:\[\]]+)(?::([0-9]{1,5}))?")
NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. `host` is an ASCII name or an address without brackets; `address` is set if it is an address."""

    url: URL
    host: str
    port: int
    address: Address | None

    @property
    def secure(self) -> bool:
        """Whether it goes over TLS."""
        return self.url.scheme == "https"

    @property
    def place(self) -> str:
        """host:port, as [tools.http] allow has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """What has to be the same for two URLs to be of one server."""
        return self.url.scheme, self.host, self.port


def read_url(text: str) -> Target:
    """Where this goes. Raises Refused for what is no whole http(s) URL, or what two programs might read in two ways."""
    if len(text) > LONGEST:
        raise Refused(f"the URL is longer than {LONGEST} characters")
    if any(char == "\\" or unicodedata.category(char)[0] in "CZ" for char in text):
        raise Refused("the URL holds a space, a backslash or an invisible character; write a space as %20")
    parts = PARTS.fullmatch(text)
    if parts is None or parts[1].lower() not in DEFAULT_PORTS or not parts[2]:
        raise Refused("only whole addresses that begin with http:// or https:// can be asked")
    scheme = parts[1].lower()
    host, port = read_place(parts[3], DEFAULT_PORTS[scheme])
    return _target(scheme, host, port, parts[4])


def read_place(text: str, default_port: int = 0) -> tuple[str, int]:
    """Host and port of `host:port`. Raises Refused for a host that is none, or that hides what it is."""
    if "@" in text:
        raise Refused("the URL holds a user name before its host; credentials go into a header")
    found = SIX.fullmatch(text) or NAMED.fullmatch(text)
    if found is None:
        raise Refused("the URL has no host that can be read")
    port = int(found[2]) if found[2] else default_port
    if not 0 < port < 65536:
        raise Refused("the URL has no port between 1 and 65535")
    return (_six(found[1]) if text.startswith("[") else _named(found[1])), port


def _six(text: str) -> str:
    address = parse_address(text)
    if address is None or address.version != 6:
        raise Refused("the URL's host stands in brackets and is no IPv6 address")
    return str(address)


def _named(text: str) -> str:
    """A name in ASCII, or a plain IPv4 address. What browsers would turn into an address must look like one."""
    name = _ascii(text).removesuffix(".")
    if not NAME.fullmatch(name):
        raise Refused("the URL's host is no name")
    if NUMBER.fullmatch(name.rpartition(".")[2]) and (text != name or parse_address(name) is None):
        raise Refused("the URL's host is a number in disguise; an address is written like 93.184.215.14")
    return name


def _ascii(text: str) -> str:
    if text.isascii():
        return text.lower()
    try:
        return URL.build(scheme="http", host=unicodedata.normalize("NFKC", text)).raw_host or ""
    except (ValueError, UnicodeError) as error:
        raise Refused("the URL's host is no name") from error


def _target(scheme: str, host: str, port: int, rest: str) -> Target:
    """The URL put together again from what was read, and read by the library that will send it: they must agree."""
    place = f"[{host}]" if ":" in host else host
    try:
        url = URL(f"{scheme}://{place}:{port}{rest}")
    except ValueError as error:
        raise Refused("the URL's path cannot be read") from error
    if (url.scheme, url.raw_host, url.port, url.raw_user) != (scheme, host, port, None):
        raise Refused("the URL can be read in two ways")
    return Target(url, host, port, parse_address(host))
