"""Signed events, filters and where they are told (A16, issue 12). One daemon serves all of these tests."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Json, says

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECRET = "shared-secret-1"
CONFIG = f"""[events]
enabled = true
notify = "terminal:main"
[events.tokens]
bell = "bell-token-2"
[events.when]
github = "payload.action == 'opened'"
[events.sessions]
github = "terminal:code"
[events.signed.github]
scheme = "github"
secret = "{SECRET}"
[events.signed.stripe]
scheme = "stripe"
secret = "{SECRET}"
[events.signed.slack]
scheme = "slack"
secret = "{SECRET}"
[events.signed.own]
scheme = "hmac"
secret = "{SECRET}"
header = "X-Own"
prefix = "v1,"
timestamp_header = "X-Own-Time"
digest = "sha512"
encoding = "base64"
[events.signed.untimed]
scheme = "hmac"
secret = "{SECRET}"
id_header = "X-Id"
"""


def signed(scheme: str, raw: bytes, at: float, secret: str = SECRET) -> dict[str, str]:
    now = str(int(at))
    key = secret.encode()
    match scheme:
        case "github":
            return {"X-Hub-Signature-256": "sha256=" + hmac.new(key, raw, "sha256").hexdigest()}
        case "stripe":
            found = hmac.new(key, f"{now}.".encode() + raw, "sha256").hexdigest()
            return {"Stripe-Signature": f"t={now},v1={'0' * 64},v1={found},v0=x"}
        case "slack":
            found = hmac.new(key, f"v0:{now}:".encode() + raw, "sha256").hexdigest()
            return {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": f"v0={found}"}
        case "untimed":
            return {"X-Signature": hmac.new(key, raw, "sha256").hexdigest()}
        case _:
            digest = hmac.new(key, f"{now}.".encode() + raw, hashlib.sha512).digest()
            return {"X-Own": "v1," + base64.b64encode(digest).decode(), "X-Own-Time": now}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    model.otherwise(says("noted"))
    async with running_daemon(home, scripted(model.base_url, CONFIG)) as daemon:
        yield daemon


async def post(
    daemon: Daemon, name: str, raw: bytes, headers: dict[str, str], kind: str = "application/json"
) -> tuple[int, Json]:
    """As a stranger, without any token of a person."""
    async with (
        ClientSession() as http,
        http.post(
            f"{daemon.url}/v1/events/{name}",
            data=raw,
            headers={"Content-Type": kind, **headers},
        ) as response,
    ):
        return response.status, await response.json()


def body(**more: object) -> bytes:
    return json.dumps({"action": "opened", "id": time.monotonic_ns(), **more}).encode()


TIMED, UNTIMED = ("stripe", "slack", "own"), {"github": "X-GitHub-Delivery", "untimed": "X-Id"}
SCHEMES = (*TIMED, *UNTIMED)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_signed_event_is_taken_without_a_token_and_is_never_trusted(
    daemon: Daemon, scheme: str
) -> None:
    raw = body()
    status, taken = await post(daemon, scheme, raw, signed(scheme, raw, time.time()))
    assert status == 202
    await daemon.until(str(taken["turn"]), "run.completed")
    assert (await daemon.run(str(taken["turn"])))["label"] == "untrusted"


@pytest.mark.parametrize("scheme", TIMED)
async def test_the_same_event_again_is_one_event_whatever_else_is_sent_with_it(
    daemon: Daemon, scheme: str
) -> None:
    raw = body()
    headers = signed(scheme, raw, time.time())
    first = await post(daemon, scheme, raw, headers)
    again = await post(daemon, scheme, raw, {**headers, "Idempotency-Key": "another"})
    assert first == again and first[0] == 202


@pytest.mark.parametrize("scheme", UNTIMED)
async def test_of_events_without_a_signed_time_the_id_says_which_are_the_same(
    daemon: Daemon, scheme: str
) -> None:
    raw = body()
    headers = signed(scheme, raw, time.time())
    for name in (UNTIMED[scheme], "Idempotency-Key"):
        given = [{name: f"{time.monotonic_ns()}"}, {name: f"{time.monotonic_ns()}-2"}, {}, {}]
        taken = [await post(daemon, scheme, raw, {**headers, **one}) for one in given]
        assert [status for status, _ in taken] == [202] * 4
        assert len({str(told["turn"]) for _, told in taken}) == 4, "four true events"
        again = [await post(daemon, scheme, raw, {**headers, **one}) for one in given[:2]]
        assert again == taken[:2], "sent again by the sender"


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_what_is_changed_in_any_way_is_refused(daemon: Daemon, scheme: str) -> None:
    raw, now = body(), time.time()
    good = signed(scheme, raw, now)
    [name] = [one for one in good if "Time" not in one]
    bad = {
        "truncated": (raw[:-1], good),
        "re-encoded": (json.dumps(json.loads(raw), indent=1).encode(), good),
        "longer": (raw + b" ", good),
        "another secret": (raw, signed(scheme, raw, now, "another-secret")),
        "no signature": (raw, {}),
        "an empty one": (raw, {**good, name: ""}),
        "a short one": (raw, {**good, name: good[name].removesuffix(",v0=x")[:-2]}),
        "a person's token in its place": (raw, {"Authorization": "Bearer test-token-0123456789"}),
        "not ASCII": (raw, {**good, name: "sha256=ä"}),
        "another scheme": (raw, signed("own" if scheme != "own" else "github", raw, now)),
    }
    for what, (sent, headers) in bad.items():
        status, told = await post(daemon, scheme, sent, headers)
        assert status == 401 and "nothing was accepted" in told["error"]["message"], what


@pytest.mark.parametrize("scheme", ["stripe", "slack", "own"])
@pytest.mark.parametrize("off", [-301, 302, -(10**9)])
async def test_what_was_signed_long_ago_or_ahead_is_refused(
    daemon: Daemon, scheme: str, off: int
) -> None:
    raw = body()
    status, told = await post(daemon, scheme, raw, signed(scheme, raw, time.time() + off))
    assert status == 401 and "300 s" in told["error"]["message"]


async def test_a_time_that_was_not_signed_makes_nothing_new(daemon: Daemon) -> None:
    raw = body()
    old = signed("slack", raw, time.time() - 1000)
    old["X-Slack-Request-Timestamp"] = str(int(time.time()))
    assert (await post(daemon, "slack", raw, old))[0] == 401


async def test_two_signatures_are_none(daemon: Daemon) -> None:
    raw = body()
    good = signed("github", raw, time.time())["X-Hub-Signature-256"]
    async with (
        ClientSession() as http,
        http.post(
            f"{daemon.url}/v1/events/github",
            data=raw,
            headers=[("X-Hub-Signature-256", "sha256=" + "0" * 64), ("X-Hub-Signature-256", good)],
        ) as response,
    ):
        assert response.status == 401


async def test_an_event_that_the_filter_does_not_mean_calls_no_model(
    daemon: Daemon, model: FakeOpenAI
) -> None:
    raw, before = body(action="closed"), len(model.requests)
    status, told = await post(daemon, "github", raw, signed("github", raw, time.time()))
    assert status == 200 and "left_out" in told
    assert len(model.requests) == before
    assert not [s for s in await daemon.listed("/v1/sessions") if s["id"] == told.get("session")]


async def test_it_is_told_in_the_conversation_of_its_name(daemon: Daemon) -> None:
    raw = body()
    _, taken = await post(daemon, "github", raw, signed("github", raw, time.time()))
    await daemon.until(str(taken["turn"]), "run.completed")
    told = await daemon.listed("/v1/sessions/terminal:code/undelivered")
    assert "[event github] noted" in [one["body"] for one in told]


async def test_a_form_with_the_payload_is_read_as_its_json(daemon: Daemon) -> None:
    raw = b"payload=" + quote(body().decode()).encode()
    form = "application/x-www-form-urlencoded"
    assert (await post(daemon, "github", raw, signed("github", raw, time.time()), form))[0] == 202


@pytest.mark.parametrize("raw", [b'{"state": "on=1"}', b"state=on&room=hall"])
async def test_what_a_client_calls_a_form_is_read_as_it_is(
    daemon: Daemon, model: FakeOpenAI, raw: bytes
) -> None:
    form, bell = "application/x-www-form-urlencoded", {"Authorization": "Bearer bell-token-2"}
    status, taken = await post(daemon, "bell", raw, bell, form)
    assert status == 202
    await daemon.until(str(taken["turn"]), "run.completed")
    assert '"state": "on' in json.dumps(model.requests[-1].body).replace("\\", "")


async def test_slacks_question_whether_somebody_listens_is_answered(daemon: Daemon) -> None:
    raw = json.dumps({"type": "url_verification", "challenge": "abc"}).encode()
    asked = await post(daemon, "slack", raw, signed("slack", raw, time.time()))
    assert asked == (200, {"challenge": "abc"})
    assert (await post(daemon, "slack", raw, {}))[0] == 401


async def test_a_token_still_opens_only_its_own_name(daemon: Daemon) -> None:
    bell = {"Authorization": "Bearer bell-token-2"}
    assert (await post(daemon, "bell", body(), bell))[0] == 202
    assert (await post(daemon, "github", body(), bell))[0] == 401
    assert (await post(daemon, "nobody", body(), bell))[0] == 401
