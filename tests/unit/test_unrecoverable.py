"""Errors that end a turn, and errors that do not (D3)."""

import json

import pytest

from daemon.agent.termination.conditions import check_unrecoverable
from daemon.core.events import Outcome, Stop
from daemon.core.trust import Effect
from daemon.tools.base import RetryableToolError, ServiceUnavailable
from daemon.tools.signature import tool
from tests.fakes.tools import Bench
from tests.fakes.turns import Deed, did, failed, refused, skipped, story, under

CRITICAL = ("db", "deploy")
DENIALS = {
    "an exception": failed(
        "db", error="PermissionError", gave="PermissionError: [Errno 13] /var/db"
    ),
    "the system's words": failed("db", error="exit_1", gave="cat: /var/db: Permission denied"),
    "its number": failed("db", error="ToolError", gave="open failed with EACCES"),
    "a remote one's words": failed("db", error="ToolError", gave="403 Forbidden"),
    "a person or the gate": refused("db", reason="not today"),
}
HARMLESS = {
    "it went well": did("db", gave="3 rows; note: permission denied for 0 of them"),
    "another failure": failed("db", gave="no such table"),
    "it was not run": skipped("db"),
    "a tool that is not critical": failed(
        "read", error="PermissionError", gave="Permission denied"
    ),
    "a refusal of one that is not critical": refused("send", reason="not today"),
    "a number that only looks like it": failed("db", gave="403 rows were skipped"),
}


@pytest.mark.parametrize("deed", DENIALS.values(), ids=DENIALS.keys())
def test_d3_permission_denied_on_a_critical_tool_ends_the_turn(deed: Deed) -> None:
    halt = under(check_unrecoverable, critical=CRITICAL)(
        story(did("read"), [did("list"), deed]).turn
    )
    assert halt and (halt.reason, halt.coach) == (Stop.FAILED, "")
    assert halt.detail.startswith("permission_denied: db: ")


@pytest.mark.parametrize("deed", DENIALS.values(), ids=DENIALS.keys())
def test_d3_a_denial_that_nobody_called_critical_does_not(deed: Deed) -> None:
    assert under(check_unrecoverable, critical=())(story(deed).turn) is None


@pytest.mark.parametrize("deed", HARMLESS.values(), ids=HARMLESS.keys())
def test_d3_other_failures_do_not_end_the_turn(deed: Deed) -> None:
    assert under(check_unrecoverable, critical=CRITICAL)(story(deed).turn) is None


def test_d3_the_reason_of_a_refusal_is_told_in_one_short_line() -> None:
    halt = under(check_unrecoverable, critical=CRITICAL)(
        story(refused("db", reason="not\nnow")).turn
    )
    assert halt and halt.detail == "permission_denied: db: not now"
    halt = under(check_unrecoverable, critical=CRITICAL)(
        story(failed("db", error="PermissionError", gave="no " * 500)).turn
    )
    assert halt and len(halt.detail) < 300


def down(tool: str = "fetch", url: str = "", error: str = "Unavailable") -> Deed:
    arguments = json.dumps({"url": url} if url else {})
    return Deed(tool, arguments, Outcome.ERROR, "the server answered 503", error)


@pytest.mark.parametrize(
    "error", ["Unavailable", "TimedOut", "http_503", "HTTP 500", "http502", "504"]
)
def test_d3_a_dependency_that_fails_three_times_running_ends_the_turn(error: str) -> None:
    check = under(check_unrecoverable, critical=())
    assert check(story(*[down(error=error)] * 2).turn) is None
    halt = check(story(*[down(error=error)] * 3).turn)
    assert halt and (halt.reason, halt.detail) == (
        Stop.FAILED,
        f"dependency: fetch failed 3 times running ({error})",
    )


@pytest.mark.parametrize(
    "error",
    ["ToolError", "exit_503", "http_404", "http_5", "http_5000", "Unavailables"],
)
def test_d3_other_errors_are_no_outage(error: str) -> None:
    assert under(check_unrecoverable, critical=())(story(*[down(error=error)] * 4).turn) is None


OUTAGES = {
    "other work between": [down(), did("read"), down(), did("list"), down()],
    "other arguments": [failed("fetch", n, "http_503") for n in range(3)],
    "one host": [down(url=f"https://api.example.com/{n}") for n in range(3)],
    "parallel calls": [[down()] * 2] * 3,
}
PASSING = {
    "a success between": [down(), down(), did("fetch"), down(), down()],
    "a success beside": [[down(), did("fetch")]] * 4,
    "it works again": [*[down()] * 2, did("fetch")],
    "other work after an outage": [*[down()] * 2, did("read")],
    "different hosts": [down(url=f"https://{n}.example.com/") for n in "abcd"],
    "different tools": [down(f"tool_{n}") for n in "abcd"],
    "three parallel calls into one outage": [[down()] * 3],
    "another failure between": [down(), down(), failed("fetch", error="http_404"), down()],
}


@pytest.mark.parametrize("work", OUTAGES.values(), ids=OUTAGES.keys())
def test_d3_three_tries_that_meet_an_outage_end_the_turn(work: list[Deed]) -> None:
    halt = under(check_unrecoverable, critical=())(story(*work).turn)
    assert halt and halt.detail.startswith("dependency: fetch")


@pytest.mark.parametrize("work", PASSING.values(), ids=PASSING.keys())
def test_d3_a_trouble_that_passes_does_not(work: list[Deed]) -> None:
    assert under(check_unrecoverable, critical=())(story(*work).turn) is None


def test_d3_a_dependency_is_named_with_its_host() -> None:
    halt = under(check_unrecoverable, critical=())(story(*OUTAGES["one host"]).turn)
    assert halt and "fetch api.example.com failed" in halt.detail


@pytest.mark.parametrize("arguments", ["", "[1]", '{"url": 5}', '{"url": "http://["}', "{" * 5])
def test_d3_arguments_without_a_host_are_no_trouble(arguments: str) -> None:
    deed = Deed("fetch", arguments, Outcome.ERROR, "503", "http_503")
    assert under(check_unrecoverable, critical=())(story(*[deed] * 3).turn) is not None


def test_d3_the_user_may_ask_for_another_try_after_an_outage() -> None:
    told = story(*[down()] * 3).steered("it should be back now").does(down())
    assert under(check_unrecoverable, critical=())(told.turn) is None


@tool(effect=Effect.READ)
async def weather() -> str:
    """Ask the weather service."""
    raise ServiceUnavailable("the weather service answered 503")


@tool(effect=Effect.READ)
async def vault() -> str:
    """Read what may not be read."""
    raise PermissionError(13, "Permission denied")


async def test_d3_what_tools_raise_is_known_for_what_it_is_once_dispatched() -> None:
    assert issubclass(ServiceUnavailable, RetryableToolError)
    bench = Bench([weather, vault])
    for _ in range(3):
        await bench.one("weather")
    halt = under(check_unrecoverable, critical=())(bench.turn)
    assert halt and halt.detail == "dependency: weather failed 3 times running (ServiceUnavailable)"
    await bench.one("vault")
    halt = under(check_unrecoverable, critical=["vault"])(bench.turn)
    assert halt and halt.detail.startswith("permission_denied: vault")
