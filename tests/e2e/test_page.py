"""The page in a real browser, over a real daemon: what a user does by click and key (row B9, done means 1 of the page)."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.fakes.browser import PHONE, make_link, needs_chromium, opened, say, signed_in
from tests.fakes.daemon_process import Daemon
from tests.fakes.openai import calls, says
from tests.fakes.wordy_model import Script, Turnstile

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]


async def test_a_link_of_open_signs_in_once_and_leaves_the_address_bar(
    daemon: Daemon, browser: Browser
) -> None:
    link = await make_link(daemon)
    async with opened(browser, link) as page:
        await expect(page.get_by_label("Message", exact=True)).to_be_visible()
        assert "code=" not in page.url
        await page.reload()
        await expect(page.get_by_label("Message", exact=True)).to_be_visible()
    async with opened(browser, link) as page:
        await expect(page.get_by_role("alert")).to_contain_text("aidaemon open")
        await expect(page.get_by_label("Message", exact=True)).to_have_count(0)


async def test_who_signs_out_has_to_sign_in_again(daemon: Daemon, browser: Browser) -> None:
    async with signed_in(daemon, browser) as page:
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="aidaemon")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", name="aidaemon")).to_be_visible()


async def test_a_reply_is_seen_while_it_is_written(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    gate = Turnstile(says("It is written in full."))
    word = script.on("streamed", calls(("current_time", {}), text="Let me look."), gate)
    async with signed_in(daemon, browser) as page:
        await say(page, f"Please answer {word}")
        await asyncio.wait_for(gate.reached.wait(), 10)
        await expect(page.get_by_text("Let me look.")).to_be_visible()
        await expect(page.get_by_text("at work")).to_be_visible()
        gate.open.set()
        await expect(page.get_by_text("It is written in full.")).to_be_visible()
        await expect(page.get_by_text("at work")).to_have_count(0)
        await page.reload()
        await expect(page.get_by_text("It is written in full.")).to_be_visible()


async def test_two_calls_of_one_reply_are_allowed_and_rejected_each_on_its_own(
    daemon: Daemon, browser: Browser, script: Script, home: Path
) -> None:
    asked = calls(
        ("shell", {"command": "touch yes.txt"}), ("shell", {"command": "touch no.txt"})
    )
    word = script.on("separately", asked, says("Both are settled."))
    async with signed_in(daemon, browser, viewport=PHONE) as page:
        await say(page, f"Make two files {word}")
        questions = page.get_by_role("region", name="Question")
        await expect(questions).to_have_count(2)
        refused = questions.filter(has_text="no.txt")
        await refused.get_by_label("Why not (optional)").fill("not needed")
        await refused.get_by_role("button", name="Reject").click()
        await expect(questions).to_have_count(1)
        await questions.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.get_by_text("Both are settled.")).to_be_visible()
    assert (home / "workspace" / "yes.txt").exists()
    assert not (home / "workspace" / "no.txt").exists()


async def test_what_a_stranger_may_have_written_is_never_markup(
    daemon: Daemon, browser: Browser, script: Script
) -> None:
    hostile = '<img src=x onerror="alert(1)"> [x](javascript:alert(2)) **<script>alert(3)</script>**'
    word = script.on("hostile", calls(("shell", {"command": f"echo '{hostile}'"}), text=hostile), says(hostile))
    async with signed_in(daemon, browser) as page:
        await say(page, f"{hostile} {word}")
        question = page.get_by_role("region", name="Question")
        await question.get_by_role("button", name="Reject").click()
        await expect(page.locator(".reply", has_text="javascript:alert(2)").last).to_be_visible()
        assert await page.locator("main img, main script, a[href^='javascript']").count() == 0


async def test_conversations_beyond_the_first_hundred_can_be_chosen(
    daemon: Daemon, browser: Browser
) -> None:
    """Asked for twice at once, they are there once."""
    for number in range(102):
        await daemon.ask("hello", f"many{number}")
    async with signed_in(daemon, browser) as page:
        select = page.get_by_label("Conversation", exact=True).and_(page.get_by_role("combobox"))
        oldest = select.locator("option", has_text="web:many0")
        await expect(select.locator("option", has_text="web:many101")).to_be_attached()
        await expect(oldest).to_have_count(0)
        await select.evaluate(
            """(box) => {
                for (const _ of [1, 2]) {
                    box.selectedIndex = box.options.length - 1;
                    box.dispatchEvent(new Event("change", { bubbles: true }));
                }
            }"""
        )
        await expect(oldest).to_have_count(1)
        await page.wait_for_load_state("networkidle")
        await expect(oldest).to_have_count(1)
        await expect(select).to_have_value("web:default")
        await expect(select.locator("option", has_text="More conversations")).to_have_count(0)
        await select.select_option("web:many0")
        await expect(page.get_by_role("log")).to_contain_text("hello")


async def test_a_long_conversation_and_a_long_list_of_runs_show_the_rest_when_asked(
    daemon: Daemon, browser: Browser
) -> None:
    for number in range(61):
        await daemon.ask(f"number {number} of them", "long")
    async with signed_in(daemon, browser) as page:
        await page.goto(f"{daemon.url}/chat/web%3Along")
        turns = page.get_by_role("log").get_by_role("article")
        for shown in (30, 60):
            await expect(turns).to_have_count(shown)
            await page.get_by_role("button", name="Earlier messages").click()
        await expect(turns).to_have_count(61)
        await expect(turns.first).to_contain_text("number 0 of them")
        await expect(page.get_by_role("button", name="Earlier messages")).to_have_count(0)
        await page.goto(f"{daemon.url}/runs?session=web%3Along")
        await expect(page.locator("a.run")).to_have_count(50)
        await page.get_by_role("button", name="More").click()
        await expect(page.locator("a.run")).to_have_count(61)
        await expect(page.get_by_role("button", name="More")).to_have_count(0)
