"""Runs on the page: the list with its filters, and one run as a tree (B9)."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.fakes.browser import PHONE, needs_chromium, signed_in
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.long_runs import lengthen
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.web import Site, response, site
from tests.fakes.wordy_model import Script

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web() -> AsyncIterator[Site]:
    async with site() as web:
        yield web


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI, web: Site) -> AsyncIterator[Daemon]:
    allowed = f'[tools.http]\nallow = ["{web.place}"]\n'
    async with running_daemon(home, scripted(model.base_url, allowed)) as daemon:
        yield daemon


async def open_run(page: Page, daemon: Daemon, turn: object, step: str = "") -> None:
    await page.goto(f"{daemon.url}/runs/{turn}{step}")
    await expect(page.get_by_role("tree")).to_be_visible()


async def test_B9_a_run_is_a_tree_of_iterations_with_calls_results_and_its_end(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    word = script.on("tree", calls(("calculate", {"expression": "40+2"}), text="I add."), says("42"))
    turn = (await daemon.ask(f"Add them {word}"))["turn"]
    async with signed_in(daemon, browser) as page:
        await open_run(page, daemon, turn)
        items = page.get_by_role("treeitem")
        for text in ("user owner", "iteration 1", "I add.", "calculate", "iteration 2", "ended"):
            await expect(items.filter(has_text=text).first).to_be_visible()
        outcome = items.filter(has_text=re.compile(r"ok\s+\d"))
        await expect(outcome).to_have_count(0)
        await items.filter(has_text="calculate").click()
        await expect(outcome).to_be_visible()


async def test_B9_the_step_where_a_strangers_text_came_in_is_marked_and_named(
    daemon: Daemon, browser: Browser, script: Script, web: Site
) -> None:
    url = web.put("/news", response("<p>Rain is coming, says a stranger.</p>"))
    word = script.on("tainted", calls(("web_fetch", {"url": url})), says("It will rain."))
    turn = (await daemon.ask(f"Read {url} {word}"))["turn"]
    async with signed_in(daemon, browser) as page:
        await open_run(page, daemon, turn)
        await expect(page.get_by_text("Untrusted since")).to_be_visible()
        await page.get_by_role("treeitem").filter(has_text="web_fetch").first.click()
        tainted = page.locator(".node.tainted")
        await expect(tainted).to_have_count(1)
        await expect(tainted).to_contain_text("untrusted")


async def test_B9_arrow_keys_walk_the_tree_the_slash_searches_it_and_the_address_holds_the_step(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    word = script.on("keys", calls(("calculate", {"expression": "6*7"})), says("The answer is 42."))
    turn = (await daemon.ask(f"Multiply {word}"))["turn"]
    async with signed_in(daemon, browser, viewport=PHONE) as page:
        await open_run(page, daemon, turn)
        await page.get_by_role("treeitem").first.focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            await page.keyboard.press(key)
        await expect(page.get_by_role("treeitem").filter(has_text="calculate")).to_have_attribute(
            "aria-expanded", "true"
        )
        await page.keyboard.press("/")
        await page.keyboard.type("The answer is")
        await page.keyboard.press("Enter")
        found = page.get_by_role("treeitem", selected=True)
        await expect(found).to_contain_text("The answer is 42.")
        await page.keyboard.press("ArrowUp")
        step = page.url.rpartition("#")[2]
        assert step.isdigit()
        await page.reload()
        await expect(page.get_by_role("tree")).to_be_visible()
        await expect(page.get_by_role("treeitem", selected=True)).to_be_focused()


async def test_B9_a_run_is_exported_as_JSON_and_as_Markdown(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    word = script.on("export", says("It is exported."))
    turn = (await daemon.ask(f"Say it {word}"))["turn"]
    async with signed_in(daemon, browser) as page:
        await open_run(page, daemon, turn)
        async with page.expect_download() as waiting:
            await page.get_by_role("button", name="JSON").click()
        exported = json.loads(Path(await (await waiting.value).path()).read_text())
        assert exported["run"]["reply"] == "It is exported."
        assert [event["kind"] for event in exported["events"]][-1] == "TurnEnded"
        async with page.expect_download() as waiting:
            await page.get_by_role("button", name="Markdown").click()
        text = Path(await (await waiting.value).path()).read_text()
        assert text.startswith(f"# Run {turn}\n") and "- ended  done" in text


async def test_B9_the_list_of_runs_is_filtered_by_state_conversation_and_agent(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    await daemon.ask("one in another conversation", "elsewhere")
    async with signed_in(daemon, browser) as page:
        await page.get_by_role("link", name="Runs").click()
        await page.get_by_label("Conversation").fill("web:elsewhere")
        await page.keyboard.press("Enter")
        await expect(page.locator("a.run")).to_have_count(1)
        await page.get_by_label("State").select_option("failed")
        await expect(page.get_by_text("No run fits.")).to_be_visible()
        await page.go_back()
        await expect(page.locator("a.run")).to_have_count(1)


async def test_B9_a_run_of_200_iterations_with_2000_calls_opens_and_is_walked(
    daemon: Daemon, browser: Browser, script: Script, home: Path
) -> None:
    word = script.on("long", calls(("calculate", {"expression": "1+1"})), says("It is long."))
    turn = str((await daemon.ask(f"Go on {word}"))["turn"])
    await daemon.terminate()
    lengthen(home, turn)
    async with (
        running_daemon(home, None) as again,
        signed_in(again, browser) as page,
    ):
        await open_run(page, again, turn)
        await expect(page.get_by_role("treeitem").filter(has_text=re.compile(r"iteration \d"))).to_have_count(201)
        await page.get_by_role("treeitem").first.focus()
        await page.keyboard.press("End")
        await expect(page.get_by_role("treeitem", selected=True)).to_be_in_viewport()
