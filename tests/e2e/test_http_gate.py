"""Who the HTTP door lets in, and what it says to those it does not understand. One daemon serves all of these tests."""

import asyncio
import json
from io import BytesIO

import pytest

from tests.fakes.daemon_process import TOKEN, Daemon, error_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
MESSAGE = {"text": "hello", "client_id": "c1"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/messages"),
        ("GET", "/v1/approvals"),
        ("GET", "/v1/sessions"),
        ("GET", "/v1/sessions/web:default/turns"),
        ("POST", "/v1/sessions/web:default/stop"),
        ("GET", "/v1/runs"),
        ("GET", "/v1/runs/t"),
        ("GET", "/v1/runs/t/events"),
        ("GET", "/v1/runs/t/transcript"),
        ("POST", "/v1/runs/t/approve"),
        ("POST", "/v1/runs/t/reject"),
        ("POST", "/v1/runs/t/cancel"),
        ("POST", "/v1/terminal/default/messages"),
        ("GET", "/v1/sessions/terminal:default/undelivered"),
        ("GET", "/v1/sessions/terminal:default/unfinished"),
        ("POST", "/v1/runs/t/delivered"),
        ("GET", "/no/such/page"),
    ],
)
async def test_every_page_but_health_wants_the_token(
    daemon: Daemon, method: str, path: str
) -> None:
    async with daemon.http.request(
        method, path, headers={"Authorization": ""}, json=MESSAGE
    ) as response:
        assert (await error_of(response))[:2] == (401, "unauthorized")


async def test_health_wants_no_token(daemon: Daemon) -> None:
    async with daemon.http.get("/health", headers={"Authorization": ""}) as response:
        assert (response.status, (await response.json())["ok"]) == (200, True)


WRONG = [
    "Bearer wrong",
    f"Basic {TOKEN}",
    TOKEN,
    f"Bearer {TOKEN}x",
    f"Bearer {TOKEN[:-1]}",
    "Bearer é",
]


@pytest.mark.parametrize("shown", WRONG)
async def test_a_wrong_token_is_refused(daemon: Daemon, shown: str) -> None:
    async with daemon.http.get("/v1/runs", headers={"Authorization": shown}) as response:
        assert (await error_of(response))[0] in (401, 429)


async def test_a_guesser_is_slowed_and_the_owner_is_not(daemon: Daemon) -> None:
    for _ in range(11):
        async with daemon.http.get(
            "/v1/runs", headers={"Authorization": "Bearer guess"}
        ) as response:
            status = response.status
    assert status == 429
    assert await daemon.get("/v1/runs") is not None


ORIGINS = [
    "https://evil.example",
    "null",
    "http://127.0.0.1:1",
    "https://127.0.0.1",
    "http://localhost.evil.example",
]


@pytest.mark.parametrize("origin", ORIGINS)
async def test_a_page_of_another_site_is_refused_even_with_the_token(
    daemon: Daemon, origin: str
) -> None:
    """CVE-2026-25253's cause: a surface that does not look at Origin."""
    for path in ("/v1/messages", "/v1/sessions/web:default/stop"):
        async with daemon.http.post(path, json=MESSAGE, headers={"Origin": origin}) as response:
            assert (await error_of(response))[:2] == (403, "forbidden")


async def test_a_page_of_the_daemon_itself_is_let_in(daemon: Daemon) -> None:
    for origin in (daemon.url, daemon.url.replace("127.0.0.1", "localhost")):
        async with daemon.http.get("/v1/runs", headers={"Origin": origin}) as response:
            assert response.status == 200


HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example:8080",
    "localhost@evil.example",
    "10.0.0.1",
    "[::1",
    "",
]


@pytest.mark.parametrize("host", HOSTS)
async def test_a_name_that_was_made_to_resolve_to_this_machine_is_refused(
    daemon: Daemon, host: str
) -> None:
    """DNS rebinding: the browser still sends the attacker's name."""
    for path in ("/v1/runs", "/health"):
        async with daemon.http.get(path, headers={"Host": host}) as response:
            assert (await error_of(response))[:2] == (403, "forbidden")


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:8080", "LOCALHOST"])
async def test_every_name_of_this_machine_is_let_in(daemon: Daemon, host: str) -> None:
    async with daemon.http.get("/v1/runs", headers={"Host": host}) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"\xff\xfe", "body"),
        (b"[" * 100_000, "body"),
        (b"[]", "body"),
        (b'"text"', "body"),
        (b"{}", "text"),
        (b'{"text": 7}', "text"),
        (b'{"text": " \\n"}', "text"),
        (b'{"text": "a", "client_id": ""}', "client_id"),
        (b'{"text": "a", "client_id": {}}', "client_id"),
        (b'{"text": "a", "sesion": "x"}', "sesion"),
        (b'{"text": "a", "session": ""}', "session"),
        (b'{"text": "a", "session": "telegram:42"}', "session"),
        (b'{"text": "a", "session": "web:a:b"}', "session"),
        (b'{"text": "a", "session": "a/b"}', "session"),
        (b'{"text": "a", "session": "a\\u0000b"}', "session"),
    ],
)
async def test_a_bad_body_is_answered_with_the_field_and_kills_nothing(
    daemon: Daemon, body: bytes, field: str
) -> None:
    async with daemon.http.post("/v1/messages", data=BytesIO(body)) as response:
        status, kind, message = await error_of(response)
        assert (status, kind, message.split(":")[0]) == (400, "invalid", field)
    assert await daemon.get("/health") is not None


async def test_parts_of_others_over_one_mebibyte_together_are_refused_at_once(
    daemon: Daemon,
) -> None:
    parts = [f"{number}" + "x" * 11_000 for number in range(100)]
    body = json.dumps({"text": "look", "data": parts}).encode()
    async with (
        asyncio.timeout(5),
        daemon.http.post("/v1/messages", data=BytesIO(body)) as response,
    ):
        status, kind, message = await error_of(response)
        assert (status, kind) == (413, "too_large") and "nothing of it was kept" in message


async def test_a_body_over_one_mebibyte_is_refused(daemon: Daemon) -> None:
    async with daemon.http.post(
        "/v1/messages", data=BytesIO(b'{"text": "' + b"x" * 2**20 + b'"}')
    ) as response:
        assert (await error_of(response))[:2] == (413, "too_large")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/transcript"),
        ("POST", "/cancel"),
        ("POST", "/approve"),
        ("POST", "/reject"),
    ],
)
async def test_an_unknown_turn_is_not_found(daemon: Daemon, method: str, path: str) -> None:
    body = {"call_id": "3.0"} if path in ("/approve", "/reject") else None
    async with daemon.http.request(method, f"/v1/runs/nosuchturn{path}", json=body) as response:
        assert (await error_of(response))[:2] == (404, "not_found")


async def test_an_unknown_session_is_not_found(daemon: Daemon) -> None:
    async with daemon.http.get("/v1/sessions/web:nobody/turns") as response:
        assert (await error_of(response))[:2] == (404, "not_found")
    async with daemon.http.post("/v1/sessions/web:nobody/stop") as response:
        assert (await error_of(response))[:2] == (404, "not_found")


async def test_an_unknown_page_and_a_wrong_method_are_told_apart(daemon: Daemon) -> None:
    async with daemon.http.get("/v1/nothing") as response:
        assert (await error_of(response))[:2] == (404, "not_found")
    async with daemon.http.put("/v1/messages") as response:
        assert (await error_of(response))[:2] == (405, "method_not_allowed")
        assert response.headers["Allow"] == "POST"


@pytest.mark.parametrize(
    "address",
    [
        "/v1/runs?limit=0",
        "/v1/runs?limit=many",
        "/v1/runs?limit=-1",
        "/v1/approvals?state=open",
        "/v1/runs/t/events?after=x",
    ],
)
async def test_a_bad_query_is_answered_with_its_name(daemon: Daemon, address: str) -> None:
    async with daemon.http.get(address) as response:
        status, kind, message = await error_of(response)
    assert (status, kind) == (400, "invalid")
    assert message.split(":")[0] == address.split("?")[1].split("=")[0]


async def test_a_body_that_is_not_what_it_says_is_the_clients_fault(daemon: Daemon) -> None:
    async with daemon.http.post(
        "/v1/messages", data=b"abc", headers={"Content-Encoding": "gzip"}
    ) as response:
        assert (await error_of(response))[:2] == (400, "invalid")
