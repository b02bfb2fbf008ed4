"""The daemon's page in a real browser: Debian's Chromium, driven as a person would."""

import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.fakes.daemon_process import Daemon

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed here")
SOON = 15_000
PHONE = {"width": 390, "height": 800}


@asynccontextmanager
async def running_browser() -> AsyncGenerator[Browser]:
    async with async_playwright() as driver:
        chromium = driver.chromium
        browser = await chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@asynccontextmanager
async def opened(browser: Browser, url: str, **options: object) -> AsyncIterator[Page]:
    """A page of a fresh browser profile; an error of its scripts fails the test."""
    context = await browser.new_context(**options)  # type: ignore[arg-type]
    page = await context.new_page()
    page.set_default_timeout(SOON)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    await page.goto(url)
    yield page
    await context.close()
    assert faults == []


async def make_link(daemon: Daemon) -> str:
    return str((await daemon.post("/v1/sign-in", 201))["link"])


@asynccontextmanager
async def signed_in(daemon: Daemon, browser: Browser, **options: object) -> AsyncIterator[Page]:
    async with opened(browser, await make_link(daemon), **options) as page:
        await expect(page.get_by_label("Message", exact=True)).to_be_visible()
        yield page


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")
