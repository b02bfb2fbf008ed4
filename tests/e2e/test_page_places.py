"""The other places of the page: today, loops, schedules, memory, permissions, cost and health; who sees what; and that a
screen reader, a keyboard and a phone can do with it."""

import asyncio
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from tests.fakes.browser import PHONE, make_link, needs_chromium, opened, signed_in
from tests.fakes.daemon_process import Daemon, error_of, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.wordy_model import Script, Turnstile

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
MORE = """
[budget]
daily_usd = 2.0
[[http.users]]
name = "vera"
role = "viewer"
token = "viewer-token"
"""
PLACES = ("chat", "today", "runs", "loops", "work", "memory", "trust", "people", "cost", "system")
HOSTILE = '<img src=x onerror="document.title=1;alert(1)">'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    async with running_daemon(home, scripted(model.base_url, MORE)) as daemon:
        yield daemon


async def go(page: Page, daemon: Daemon, place: str) -> None:
    await page.goto(f"{daemon.url}/{place}")
    await expect(page.get_by_role("heading", level=1).first).to_be_attached()
    await expect(page.get_by_text("Loading …")).to_have_count(0)


COUNT_PULSES = """() => { window.pulses = 0; addEventListener("animationstart",
    (event) => event.animationName === "grow" && (window.pulses += 1)); }"""


async def test_C7_C11_a_loop_is_set_started_and_seen_in_its_ring_until_it_ends(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    first, second, third = (Turnstile(says(f"{word} try")) for word in ("first", "second", "third"))
    script.model.script(first, second, third)
    async with signed_in(daemon, browser) as page:
        await go(page, daemon, "loops")
        agent = page.get_by_role("region", name="Agent default")
        await agent.get_by_text("Loop settings: off").click()
        await agent.get_by_role("switch").check()
        await agent.get_by_label("It is done").select_option("max_iterations")
        await agent.get_by_label("Attempts at most").fill("3")
        await agent.get_by_role("button", name="Save").click()
        await expect(agent.get_by_text("Loop settings: on")).to_be_visible()
        await agent.get_by_label("Task for default").fill("Try it")
        await agent.get_by_role("button", name="Start").click()
        await asyncio.wait_for(first.reached.wait(), 20)
        loop = page.get_by_role("region", name="Loop of default")
        await expect(loop).to_contain_text("running")
        await expect(page.locator(".ring")).to_have_count(0)
        await page.evaluate(COUNT_PULSES)
        for gate, number in ((first, 1), (second, 2)):
            gate.open.set()
            await expect(page.get_by_label(f"iteration {number} of 3")).to_be_visible()
            await expect(page.locator(".ring .badge")).to_have_text(f"{number}/3")
        await page.wait_for_function("window.pulses === 2")
        third.open.set()
        await expect(loop).to_contain_text("completed")
        await expect(page.locator(".ring")).to_have_count(0)
    assert "enabled = true" in (daemon.home / "config.toml").read_text()


async def test_C7_a_criterion_with_its_value_is_edited_and_written_to_the_agents_file(
    daemon: Daemon, browser: Browser
) -> None:
    file = daemon.home / "agents" / "coder.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text('# mine\n[identity]\nname = "coder"\n')
    async with signed_in(daemon, browser) as page:
        await go(page, daemon, "loops")
        agent = page.get_by_role("region", name="Agent coder")
        await agent.get_by_text("Loop settings: off").click()
        await agent.get_by_label("It is done").select_option("regex")
        await agent.get_by_role("button", name="Save").click()
        await expect(agent.get_by_role("alert")).to_contain_text("value is needed")
        await agent.get_by_role("textbox", name="Pattern").fill("ALL GREEN")
        await agent.get_by_role("switch").check()
        await agent.get_by_role("button", name="Save").click()
        await expect(agent.get_by_text("Loop settings: on")).to_be_visible()
    written = tomllib.loads(file.read_text())
    assert written["loop"] == {
        "enabled": True, "criterion": "regex", "value": "ALL GREEN", "max_iterations": 10,
    }  # fmt: skip
    assert file.read_text().startswith("# mine\n")


async def test_a_schedule_is_made_paused_and_resumed(daemon: Daemon, browser: Browser) -> None:
    async with signed_in(daemon, browser) as page:
        await go(page, daemon, "work")
        await page.get_by_text("New schedule").click()
        await page.get_by_label("When").fill("every day at 8:00")
        await page.get_by_label("What is to be done").fill("Water the plants")
        await page.get_by_role("button", name="Schedule it").click()
        await expect(page.get_by_role("status")).to_contain_text("Scheduled as")
        card = page.get_by_role("region", name="water-the-plants")
        await card.get_by_role("button", name="Pause").click()
        await expect(card).to_contain_text("paused")
        await card.get_by_role("button", name="Resume").click()
        await expect(card).to_contain_text("active")
    states = {one["name"]: one["state"] for one in await daemon.listed("/v1/schedules")}
    assert states == {"water-the-plants": "active"}


async def test_memory_is_searched_and_says_why_each_was_found(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    await daemon.ask("My bicycle is green and stands in the cellar")
    await daemon.ask("What is the capital of France?")
    async with signed_in(daemon, browser) as page:
        await go(page, daemon, "memory")
        await page.keyboard.press("/")
        await page.keyboard.type("green bicycle")
        await page.keyboard.press("Enter")
        hit = page.get_by_role("listitem").filter(has_text="in the cellar")
        await expect(hit).to_be_visible()
        await expect(hit.get_by_label("Why it was found")).to_contain_text("its words")


async def test_today_shows_what_waits_what_ran_and_what_it_cost(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    word = script.on("waiting", calls(("shell", {"command": "touch made.txt"})), says("It is so."))
    turn = await daemon.begin(f"Make a file {word}", "today")
    await daemon.until(turn, "approval.asked")
    async with signed_in(daemon, browser, viewport=PHONE) as page:
        await go(page, daemon, "today")
        await expect(page.get_by_text("money today: $0.00 of $2.00")).to_be_visible()
        question = page.get_by_role("region", name="Question")
        await expect(question).to_contain_text("touch made.txt")
        await question.get_by_role("button", name="Reject").click()
        await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        await expect(page.locator("a.run").first).to_be_visible()


async def test_a_permission_is_seen_and_taken_back_and_a_rule_is_added_and_removed(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    word = script.on("granted", calls(("shell", {"command": "touch kept.txt"})), says("It is so."))
    turn = await daemon.begin(f"Make one {word}", "granted")
    asked = await daemon.until(turn, "approval.asked")
    call_id = asked.data["call_id"]
    await daemon.post(f"/v1/runs/{turn}/approve", call_id=call_id, scope="always")
    async with signed_in(daemon, browser) as page:
        await go(page, daemon, "trust")
        grant = page.get_by_role("region", name="Permission")
        await expect(grant).to_contain_text("touch kept.txt")
        await grant.get_by_role("button", name="Take back").click()
        await expect(grant).to_have_count(0)
        await page.get_by_label("A rule in your words").fill("never run rm")
        await page.get_by_role("button", name="Add").click()
        rule = page.get_by_role("region", name="Rule")
        await expect(rule).to_contain_text("never run rm")
        await rule.get_by_role("button", name="That is right").click()
        await expect(rule.get_by_text("not confirmed")).to_have_count(0)
        await rule.get_by_role("button", name="Remove").click()
        await expect(rule).to_have_count(0)


async def test_cost_and_health_tell_of_days_models_conversations_and_parts(
    daemon: Daemon, browser: Browser
) -> None:
    await daemon.ask("hello")
    async with signed_in(daemon, browser) as page:
        await go(page, daemon, "cost")
        for text in ("By day", "By model", "By conversation", "web:default"):
            await expect(page.get_by_text(text, exact=True).first).to_be_visible()
        await go(page, daemon, "system")
        await expect(page.get_by_text("No chat platform is connected.")).to_be_visible()
        await expect(page.get_by_role("listitem").filter(has_text="fake")).to_be_visible()


async def test_C9_a_viewer_signs_in_with_their_token_and_sees_no_buttons_of_others(
    daemon: Daemon, browser: Browser
) -> None:
    said = "something of the owner's"
    await daemon.post("/v1/terminal/main/messages?wait=1", text=said)
    async with opened(browser, daemon.url) as page:
        await page.get_by_text("Or sign in with a token").click()
        await page.get_by_label("Token").fill("viewer-token")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("vera Sign out")).to_be_visible()
        for name in ("Memory", "Permissions", "People", "Schedules", "Health"):
            await expect(page.get_by_role("link", name=name, exact=True)).to_have_count(0)
        await expect(page.get_by_label("Message", exact=True)).to_have_count(0)
        await go(page, daemon, "runs")
        await expect(page.get_by_text("something of the owner's")).to_have_count(0)
        await go(page, daemon, "cost")
        await expect(page.get_by_text("By conversation")).to_be_visible()
        await expect(page.get_by_text("terminal:main")).to_have_count(0)
        await go(page, daemon, "loops")
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(page.get_by_role("region", name="Agent default")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", PLACES)
async def test_axe_finds_nothing_on_a_phone_in_light_and_dark(
    daemon: Daemon, browser: Browser, place: str, scheme: str
) -> None:
    turn = (await daemon.ask("look at me"))["turn"]
    async with signed_in(daemon, browser, viewport=PHONE, color_scheme=scheme) as page:
        await go(page, daemon, f"runs/{turn}" if place == "runs" else place)
        found = await Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await page.evaluate(wide) <= 0


async def test_an_img_with_onerror_in_every_field_does_nothing(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    asked = calls(("shell", {"command": f"echo '{HOSTILE}'"}), text=HOSTILE)
    word = script.on("everywhere", asked, says(f"**{HOSTILE}** [{HOSTILE}](http://x.test/{HOSTILE})"))
    turn = await daemon.begin(f"{HOSTILE} {word}", "hostile")
    await daemon.until(turn, "approval.asked")
    await daemon.post("/v1/schedules", 201, rule="every 9h", prompt=HOSTILE, name="hostile")
    await daemon.post("/v1/messages", text=f"/rules add never run {HOSTILE}")
    line = {"id": "1", "session": HOSTILE, "sender": HOSTILE, "at": "2026-01-01", "text": HOSTILE}
    await daemon.post("/v1/memories/import", lines=[line])
    async with signed_in(daemon, browser) as page:
        for place in (*PLACES, "chat/web%3Ahostile", f"runs/{turn}", "memory?q=img"):
            await go(page, daemon, place)
            assert await page.locator("img").count() == 0
        await daemon.post(f"/v1/runs/{turn}/cancel")


async def test_the_cookie_alone_opens_nothing_and_no_request_of_the_page_can_be_repeated(
    daemon: Daemon, browser: Browser
) -> None:
    """A cookie goes to every port of the machine, and another program may listen here while the daemon is away."""
    async with signed_in(daemon, browser) as page:
        cookies = await page.context.cookies()
        [cookie] = [one for one in cookies if one["name"].startswith("aidaemon_")]
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        sent = {"Authorization": "", "Cookie": f"{cookie['name']}={cookie['value']}"}
        async with daemon.http.get("/v1/me", headers=sent) as response:
            assert (await error_of(response))[:2] == (401, "signed_out")
        async with page.expect_request("**/v1/costs*") as waiting:
            await page.get_by_role("link", name="Cost").click()
        caught = await waiting.value
        await expect(page.get_by_text("By conversation")).to_be_visible()
        signature = {"X-Aidaemon-Signature": caught.headers["x-aidaemon-signature"]}
        for path in (caught.url, f"{daemon.url}/v1/me"):
            async with daemon.http.get(path, headers=sent | signature) as response:
                assert (await error_of(response))[:2] == (401, "signed_out")
        assert await page.evaluate("Object.keys(localStorage).length") == 0


async def test_a_link_that_signs_in_as_somebody_else_asks_first(
    daemon: Daemon, browser: Browser
) -> None:
    asked = {"Authorization": "Bearer viewer-token"}
    async with daemon.http.post("/v1/sign-in", headers=asked) as response:
        link = (await response.json())["link"]
    async with signed_in(daemon, browser) as page:
        await page.goto("about:blank")
        await page.goto(link)
        await expect(page.get_by_text("This link signs you in as vera (viewer).")).to_be_visible()
        await page.get_by_role("button", name="No").click()
        await expect(page.get_by_text("owner Sign out")).to_be_visible()


async def test_a_guest_who_makes_many_links_breaks_none_of_the_owners(daemon: Daemon) -> None:
    link = await make_link(daemon)
    for _ in range(20):
        await daemon.http.post("/v1/sign-in", headers={"Authorization": "Bearer viewer-token"})
    code = {"code": link.partition("#code=")[2]}
    async with daemon.http.post("/v1/sign-in/redeem", json=code) as response:
        assert (await response.json())["name"] == "owner"


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": "aidaemon_{port}=owner.\udcff\udcfe.x.y", "X-Aidaemon-Signature": "\udcff"},
        {"Host": "localhost:{port}/x"},
        {"Host": "localhost:{port}?x"},
        {"Host": "localhost:{port}#x"},
    ],
)
async def test_odd_cookies_and_hosts_are_refused_and_break_nothing(
    daemon: Daemon, headers: dict[str, str]
) -> None:
    port = daemon.url.rpartition(":")[2]
    lines = "".join(f"{name}: {value.format(port=port)}\r\n" for name, value in headers.items())
    host = "" if "Host" in headers else f"Host: 127.0.0.1:{port}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    raw = f"GET /v1/me HTTP/1.1\r\n{host}{lines}Connection: close\r\n\r\n"
    writer.write(raw.encode("utf-8", "surrogateescape"))
    status = (await reader.readline()).split()[1]
    writer.close()
    assert status in (b"400", b"401", b"403")


async def test_a_question_shows_numbers_signs_and_lines_as_they_will_run(
    daemon: Daemon, browser: Browser
) -> None:
    raw = '{"command": "echo 1\\nargv: [\\"ls\\"]", "account": 12345678901234567890, "x": "a\u202eb"}'
    render = "async (raw) => (await import('/page/parts.js')).pretty(raw)"
    async with signed_in(daemon, browser) as page:
        shown = await page.evaluate(render, raw)
        nested = await page.evaluate(render, '{"a": {"b": [1.50, "x\\ny"]}, "c": true}')
    assert shown == 'command: echo 1\n  │ argv: ["ls"]\naccount: 12345678901234567890\nx: a\\u{202e}b'
    assert nested == 'a: {"b": [1.50, "x\\ny"]}\nc: true'


async def test_a_question_of_a_sub_agent_is_answered_in_the_chat_it_works_for(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    inner = script.on("inner", calls(("shell", {"command": "touch sub.txt"})), says("made"))
    spawn = calls(("spawn_agent", {"task": f"Make a file {inner}"}))
    word = script.on("outer", spawn, says("It is as you see."))
    async with signed_in(daemon, browser) as page:
        await page.get_by_label("Message", exact=True).fill(f"Have it made {word}")
        await page.get_by_role("button", name="Send").click()
        question = page.get_by_role("region", name="Question")
        await expect(question).to_contain_text("touch sub.txt")
        await question.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.get_by_text("It is as you see.").last).to_be_visible()


async def test_with_many_runs_open_the_page_still_sends_and_loads(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    gate = Turnstile(says("done"))
    word = script.on("slow", gate)
    await daemon.begin(f"Be slow {word}", "many")
    await asyncio.wait_for(gate.reached.wait(), 10)
    for number in range(8):
        await daemon.http.post("/v1/messages", json={"session": "many", "text": f"more {number}"})
    async with signed_in(daemon, browser) as page:
        await page.goto(f"{daemon.url}/chat/web%3Amany")
        await expect(page.get_by_text("at work")).to_have_count(1)
        await page.get_by_label("Message", exact=True).fill("and this")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_label("Message", exact=True)).to_have_value("")
        await expect(page.get_by_role("button", name="Send")).to_be_enabled()
    gate.open.set()


async def test_a_draft_survives_another_place_and_a_reload(
    daemon: Daemon, browser: Browser
) -> None:
    async with signed_in(daemon, browser) as page:
        await page.get_by_label("Message", exact=True).fill("half a thought")
        await page.get_by_role("link", name="Runs").click()
        await page.get_by_role("link", name="Chat").click()
        await expect(page.get_by_label("Message", exact=True)).to_have_value("half a thought")
        await page.reload()
        await expect(page.get_by_label("Message", exact=True)).to_have_value("half a thought")


async def test_the_page_is_served_under_a_strict_policy_and_nothing_else_is(daemon: Daemon) -> None:
    async with daemon.http.get("/", headers={"Authorization": ""}) as response:
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe" not in policy and "http" not in policy
    for path in ("/page/../auth.py", "/page/%2e%2e/auth.py", "/page/vendor/..%2f..%2fauth.py"):
        async with daemon.http.get(path) as response:
            assert response.status == 404
    assert await make_link(daemon)
