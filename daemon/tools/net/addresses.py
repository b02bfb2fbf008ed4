"""Which addresses are the public internet. Our own table: what the standard library calls global differs by its version."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

PRIVATE, TESTS, OLD_TUNNEL = "a private network", "a network for tests and examples", "a tunnel to another network"
FOUR: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "this machine itself"),
        ("10.0.0.0/8", PRIVATE),
        ("100.64.0.0/10", "the network of a provider (carrier-grade NAT)"),
        ("127.0.0.0/8", "this machine itself (loopback)"),
        ("168.63.129.16/32", "a cloud's own service for its machines"),
        ("169.254.0.0/16", "the local link, where clouds keep their machines' keys"),
        ("172.16.0.0/12", PRIVATE),
        ("192.0.0.0/24", "reserved, and a cloud's own service for its machines"),
        ("192.0.2.0/24", TESTS),
        ("192.88.99.0/24", OLD_TUNNEL),
        ("192.168.0.0/16", PRIVATE),
        ("198.18.0.0/15", TESTS),
        ("198.51.100.0/24", TESTS),
        ("203.0.113.0/24", TESTS),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved or broadcast"),
    )
)
GLOBAL_SIX = IPv6Network("2000::/3")
SIX: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("::/128", "this machine itself"),
        ("::1/128", "this machine itself (loopback)"),
        ("2001::/23", "reserved, or a tunnel to another network (Teredo)"),
        ("2001:db8::/32", TESTS),
        ("2002::/16", "a tunnel to another network (6to4)"),
        ("3fff::/20", TESTS),
        ("fc00::/7", PRIVATE),
        ("fe80::/10", "the local link"),
        ("fec0::/10", PRIVATE),
        ("ff00::/8", "multicast"),
    )
)
WRAPPERS = tuple(IPv6Network(f"{prefix}/96") for prefix in ("::ffff:0:0", "::ffff:0:0:0", "64:ff9b::"))
ISATAP = (0x00005EFE, 0x02005EFE)


def parse_address(text: str) -> Address | None:
    """The address that this text is, in its plain form; None for everything else."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def why_refused(address: Address) -> str:
    """What this address is, if it is not the public internet; empty if it is. IPv4 inside IPv6 is judged by what is inside."""
    if isinstance(address, IPv4Address):
        return next((reason for network, reason in FOUR if address in network), "")
    inside = _inside(address)
    if inside is not None:
        reason = why_refused(inside)
        return f"{inside} in another form, {reason}" if reason else ""
    known = next((reason for network, reason in SIX if address in network), "")
    return known or ("" if address in GLOBAL_SIX and not _isatap(address) else "outside the public internet")


def _inside(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a network would turn this into: mapped, translated, or NAT64."""
    if any(address in wrapper for wrapper in WRAPPERS):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _isatap(address: IPv6Address) -> bool:
    return int(address) >> 32 & 0xFFFFFFFF in ISATAP
