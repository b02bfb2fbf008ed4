"""What counts as the public internet, and how a URL is read: for every address and every text, not for examples alone."""

import json
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from daemon.tools.base import RetryableToolError, ToolError
from daemon.tools.web.config import NetConfig, WebConfig
from daemon.tools.web.guard import (
    BLOCKED,
    AddressGuard,
    AddressRefused,
    explain_blocked,
    is_this_machine,
    parse_address,
    parse_url,
)
from tests.fakes.web import Resolver

PUBLIC, SECOND = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
INNER = st.sampled_from([network for network in BLOCKED if network.version == 4]).flatmap(
    lambda network: st.integers(int(network[0]), int(network[-1])).map(IPv4Address)
)


def wrapped(inside: IPv4Address) -> list[IPv6Address]:
    """Every form of IPv6 that some network turns into this address."""
    low = int(inside)
    prefixes = ("::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::", "::")
    at_the_end = [IPv6Address(int(IPv6Address(prefix)) | low) for prefix in prefixes]
    six_to_four = IPv6Address(0x2002 << 112 | low << 80)
    teredo = IPv6Address(0x20010000 << 96 | 0x5DB8D70E << 64 | (low ^ 0xFFFFFFFF))
    isatap = IPv6Address(int(IPv6Address("2600::5efe:0:0")) | low)
    return [*at_the_end, six_to_four, teredo, isatap]


@given(INNER)
def test_an_inner_address_is_refused_in_every_form_that_ipv6_has_for_it(inside: IPv4Address):
    assert explain_blocked(inside)
    assert all(explain_blocked(address) for address in wrapped(inside))


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_the_standard_library_calls_private_is_refused_too(address: IPv4Address | IPv6Address):
    assert address.is_global or explain_blocked(address)


@pytest.mark.parametrize(
    "text",
    [
        "192.0.0.192",
        "224.0.0.1",
        "168.63.129.16",
        "100.100.100.200",
        "::",
        "ff02::1",
        "fd20:ce::254",
        "fe80::1%eth0",
        "5f00::1",
    ],
)
def test_what_other_tables_let_through_is_refused(text: str):
    address = parse_address(text)
    assert address is not None and explain_blocked(address)


@pytest.mark.parametrize(
    "text",
    [
        "8.8.8.8",
        PUBLIC,
        "172.15.255.255",
        "172.32.0.0",
        "100.128.0.0",
        SECOND,
        "64:ff9b::808:808",
        "::ffff:8.8.8.8",
    ],
)
def test_public_addresses_are_public(text: str):
    address = parse_address(text)
    assert address is not None and explain_blocked(address) == ""


@given(st.ip_addresses(v=4, network=IPv4Network("0.0.0.0/0")), st.sampled_from(["", ".", ":80"]))
def test_a_number_is_no_address_however_it_is_spelled(address: IPv4Address, end: str):
    a, b, c, d = address.packed
    low = (c << 8) | d
    spelled = (
        f"{int(address)}",
        hex(int(address)),
        f"0{int(address):o}",
        f"{a}.{b}.{low}",
        f"{a}.{(b << 16) | low}",
    )
    for text in (
        *spelled,
        f"0x{a:x}.{b}.{c}.{d}",
        f"{a}.{b}.{c}.0{d:o}",
        f"{a:03}.{b:03}.{c:03}.0{d:03}",
    ):
        with pytest.raises(AddressRefused):
            parse_url(f"http://{text}{end}/")


@given(
    st.one_of(
        st.text(),
        st.text(alphabet="htps:/@.[]%0127xaelcodm\\#?１①。\r\n\t \u200b"),
        st.from_regex(r"https?://.{0,30}"),
    )
)
def test_whatever_the_text_it_is_one_place_or_refused(text: str):
    try:
        target = parse_url(text)
    except AddressRefused:
        return
    again = parse_url(str(target.url))
    assert (again.url.origin(), again.address, str(again.url)) == (
        target.url.origin(),
        target.address,
        str(target.url),
    )
    assert (
        target.host.isascii()
        and "%" not in target.host
        and (target.address is None) == (parse_address(target.host) is None)
    )


@pytest.mark.parametrize(
    "url", ["http://８.8.8.8/", "http://8。8。8。8/", "http://8.8.8.8./", "http://134744072/"]
)
def test_a_public_address_in_disguise_is_refused_as_well(url: str):
    with pytest.raises(AddressRefused, match="a number in disguise"):
        parse_url(url)


def test_a_path_that_looks_like_a_host_is_a_path():
    target = parse_url("https://Example.com.:8443//127.0.0.1/x?u=http://a@b#frag")
    assert (target.host, target.port, target.url.raw_path_qs) == (
        "example.com",
        8443,
        "//127.0.0.1/x?u=http://a@b",
    )


def guard_over(
    *answers: Sequence[str], allow: tuple[str, ...] = ()
) -> tuple[AddressGuard, Resolver]:
    names = Resolver({"shop.example": list(answers)})
    return AddressGuard(
        allow, resolve=names, is_mine=lambda address: str(address) == "198.41.0.4"
    ), names


async def test_a_name_is_looked_up_once_and_the_answer_is_what_is_connected_to():
    guard, names = guard_over([PUBLIC, SECOND], ["127.0.0.1"])
    found = await guard.resolve(guard.check("https://shop.example/"))
    assert [str(address) for address in found] == [PUBLIC, SECOND] and names.asked == [
        "shop.example"
    ]
    with pytest.raises(
        AddressRefused, match=r"shop\.example is 127\.0\.0\.1, and that is this machine itself"
    ):
        await guard.resolve(guard.check("https://shop.example/"))
    assert names.asked == ["shop.example"] * 2


@pytest.mark.parametrize(
    "bad",
    [
        "127.0.0.1",
        "::1",
        "169.254.169.254",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
        "198.41.0.4",
        "no address",
    ],
)
async def test_one_bad_address_spoils_all(bad: str):
    guard, _ = guard_over([PUBLIC, bad])
    with pytest.raises(AddressRefused, match="Not sent"):
        await guard.resolve(guard.check("https://shop.example/"))


@pytest.mark.parametrize(
    ("error", "kind"), [(socket.EAI_NONAME, ToolError), (socket.EAI_AGAIN, RetryableToolError)]
)
async def test_a_name_that_cannot_be_looked_up_is_told_and_asked_again_only_if_that_may_help(
    error: int, kind: type[ToolError]
):
    async def fail(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(error, "no")

    guard = AddressGuard(resolve=fail)
    with pytest.raises(ToolError, match=r"Not sent: there is no host shop\.example") as told:
        await guard.resolve(guard.check("https://shop.example/"))
    assert type(told.value) is kind


def test_only_exactly_what_the_owner_named_is_opened():
    guard = AddressGuard(["127.0.0.1:8080", "NAS.local:5000", "[::1]:9000"])
    for url in (
        "http://127.0.0.1:8080/x",
        "https://nas.local:5000/",
        "http://[::1]:9000/",
        "http://[0:0::1]:9000/",
    ):
        assert guard.is_allowed(guard.check(url))
    for url in (
        "http://127.0.0.1:8081/", "http://127.0.0.1/", "http://localhost:8080/", "http://127.1:8080/", "http://127.0.0.2:8080/",
        "http://[::ffff:127.0.0.1]:8080/", "http://nas.local/", "http://[::1]:8080/", "http://x.nas.local:5000/",
    ):  # fmt: skip
        with pytest.raises(AddressRefused):
            guard.check(url)


async def test_another_name_for_an_opened_address_is_not_opened():
    guard, _ = guard_over(["127.0.0.1"], allow=("127.0.0.1:8080",))
    with pytest.raises(AddressRefused):
        await guard.resolve(guard.check("http://shop.example:8080/"))


def test_a_public_server_cannot_send_us_to_what_the_owner_opened():
    guard = AddressGuard(["127.0.0.1:8080", "127.0.0.1:8081"])
    inside = guard.check("http://127.0.0.1:8080/")
    assert guard.check("http://127.0.0.1:8081/", inside).port == 8081
    with pytest.raises(
        AddressRefused, match=r"Not followed: 8\.8\.8\.8 redirects to what may not be requested"
    ):
        guard.check("http://127.0.0.1:8081/", guard.check("https://8.8.8.8/"))


def test_ports_of_other_services_are_refused_and_any_other_is_not():
    guard = AddressGuard()
    for port in (22, 25, 465, 587, 6379, 6667):
        with pytest.raises(AddressRefused, match=f"port {port} is for|port {port} is of"):
            guard.check(f"http://8.8.8.8:{port}/")
    assert guard.check("http://8.8.8.8:8081/").port == 8081


def test_this_machine_knows_its_own_addresses():
    own, other = parse_address("127.0.0.1"), parse_address("8.8.8.8")
    assert own and other and is_this_machine(own) and not is_this_machine(other)


@pytest.mark.parametrize(
    "place",
    ["localhost", "http://localhost:80", "a b:80", "127.1:80", "x:0", "x:99999", "*:80", ""],
)
def test_an_allow_that_is_no_place_is_a_fault_of_the_config(place: str):
    with pytest.raises(ValidationError, match='is no "host:port"'):
        NetConfig(allow=[place])


def test_a_base_url_that_is_none_is_a_fault_of_the_config():
    with pytest.raises(ValidationError, match=r"is no http\(s\) address"):
        WebConfig(base_url="localhost:8888")
    assert (
        json.loads(WebConfig(base_url="http://localhost:8888/s").model_dump_json())["base_url"]
        == "http://localhost:8888/s"
    )
