"""A headless Chromium for tests of the page. It must be there already: nothing is fetched."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser_path() -> str:
    """The browser's program; skips the test where there is none."""
    for name in PROGRAMS:
        path = shutil.which(name)
        if path is not None:
            return path
    pytest.skip(f"THE PAGE IS NOT TESTED: no browser is installed (looked for {PROGRAMS})")


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """One browser, for any number of pages."""
    flags = ["--disable-dev-shm-usage"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")  # as root it has none; it shows nothing but our own page
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path(), args=flags)
        yield browser
        await browser.close()


@asynccontextmanager
async def opened(browser: Browser, url: str, dark: bool = False) -> AsyncIterator[Page]:
    """A page in a session of its own, which must neither complain nor ask for anything elsewhere.

    Args:
        browser: To open it in.
        url: Of the page.
        dark: True: as somebody sees it who wants dark pages.
    """
    complaints: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        # What the service answered is shown on the page; the browser notes its status besides.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            complaints.append(message.text)

    def on_request(request: Request) -> None:
        if not request.url.startswith(url):
            complaints.append(f"asked for {request.url}")

    context = await browser.new_context(color_scheme="dark" if dark else "light")
    context.set_default_timeout(10_000)
    page = await context.new_page()
    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", on_request)
    await page.goto(url)
    yield page
    await context.close()
    assert complaints == []
