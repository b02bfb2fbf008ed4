"""A pinned rule is for every address that a request is led to, not only for the one that was asked for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.web import Site, moved, response, site

HOST = "127.0.0.1"


@asynccontextmanager
async def between(home: Path, model: FakeOpenAI) -> AsyncIterator[tuple[Living, Site, Site]]:
    """A daemon, a site that may be read, and one whose address the tests put under a rule."""
    async with site() as start, site() as banned:
        banned.put("/page", response("secret of the banned site"))
        http = {
            "http": {
                "allow": [
                    start.place,
                    banned.place,
                    f"localhost:{start.port}",
                    f"localhost:{banned.port}",
                ]
            }
        }
        async with living(home, model, {"tools": http}) as it:
            yield it, start, banned


def put(start: Site, path: str, to: str) -> str:
    """A redirect on the innocent site; its URL by another name than the one under the rule."""
    start.put(path, moved(to))
    return f"http://localhost:{start.port}{path}"


async def fetches(it: Living, url: str) -> str:
    """A turn that wants this page."""
    it.model.script(calls(("web_fetch", {"url": url})), says("done"))
    return await it.say(f"read {url}")


def told(it: Living) -> str:
    return it.model.requests[-1].last("tool")["content"]


async def test_a_redirect_to_a_forbidden_host_is_not_followed_and_the_rule_is_named(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with between(tmp_path, model) as (it, start, banned):
        go = put(start, "/go", banned.url + "/page")
        await it.settled(await fetches(it, go))
        assert "secret of the banned site" in told(it)
        await it.command(f"/rules add never fetch {HOST}")
        banned.seen.clear()
        await it.settled(await fetches(it, go))
        assert "rule 1" in told(it) and "forbids this; nothing was sent there" in told(it)
        assert banned.seen == []


async def test_the_second_hop_is_judged_like_the_first(tmp_path: Path, model: FakeOpenAI) -> None:
    async with between(tmp_path, model) as (it, start, banned):
        go = put(start, "/go", "/on")
        start.put("/on", moved(banned.url + "/page"))
        await it.command(f"/rules add never fetch {HOST}")
        await it.settled(await fetches(it, go))
        assert "nothing was sent there" in told(it) and banned.seen == []


async def test_a_redirect_to_what_a_rule_asks_about_is_not_followed_unasked(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with between(tmp_path, model) as (it, start, banned):
        go = put(start, "/go", banned.url + "/page")
        await it.command(f"/rules add ask before fetch {HOST}")
        await it.settled(await fetches(it, go))
        assert "wants a person to be asked first; nothing was sent there" in told(it)
        assert banned.seen == []
        turn = await fetches(it, banned.url + "/page")
        await it.until(turn, "run.suspended")
        await it.command("/approve")
        await it.settled(turn)
        assert "secret of the banned site" in told(it)


async def test_a_yes_that_a_rule_asked_for_holds_for_where_the_same_site_leads(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with between(tmp_path, model) as (it, _, banned):
        banned.put("/old", moved("/page"))
        await it.command(f"/rules add ask before fetch {HOST}")
        turn = await fetches(it, banned.url + "/old")
        await it.until(turn, "run.suspended")
        await it.command("/approve")
        await it.settled(turn)
        assert "secret of the banned site" in told(it)


@pytest.mark.parametrize(
    ("banned", "asked_for"),
    [
        ("evil.example", "evil\u3002example"),
        ("xn--bcher-kva.example", "b\u00fccher.example"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
    ],
)
async def test_another_spelling_of_a_forbidden_host_is_the_forbidden_host(
    tmp_path: Path, model: FakeOpenAI, banned: str, asked_for: str
) -> None:
    async with living(tmp_path, model) as it:
        await it.command(f"/rules add never fetch http://{banned}/")
        await it.settled(await fetches(it, f"http://{asked_for}/page"))
        assert "rule 1" in told(it) and "forbids this" in told(it)
