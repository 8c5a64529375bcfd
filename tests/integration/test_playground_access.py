"""The page for everybody: by keyboard, by ear, in the dark, on small screens, without motion."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser import opened, running_browser
from tests.integration.gateway_stage import script, stage
from tests.integration.playground_page import finish, generate, url

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTROLS = [
    "Prompt",
    "Send as",
    "Draft method",
    "Temperature",
    "Seed",
    "Most tokens",
    "Then run it again with plain decoding, and compare",
    "Generate",
    "Answer",
    "Round",
    "Token tree",
]
NAME_IN_FOCUS = """() => {
  const control = document.activeElement;
  const named = document.getElementById(control.getAttribute("aria-labelledby"));
  return (control.labels?.[0] ?? named ?? control).innerText.trim();
}"""
CONTRASTS = """() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = (rgb) => rgb.slice(0, 3)
    .map((value) => value / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    const own = channels(getComputedStyle(element).backgroundColor);
    return own.length < 4 || own[3] ? own : ground(element.parentElement);
  };
  const ratios = {};
  for (const element of document.querySelectorAll("body *")) {
    const words = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!words || !element.checkVisibility() || element.disabled) continue;
    const colour = channels(getComputedStyle(element).color);
    const [a, b] = [luminance(colour), luminance(ground(element))];
    const name = `${element.tagName} ${element.id} ${element.className} ${element.textContent}`;
    ratios[name] = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }
  return ratios;
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


async def test_every_control_is_reached_by_keyboard_and_has_a_name(browser: Browser) -> None:
    async with stage(script("abc")) as on, opened(browser, url(on)) as page:
        await generate(page)
        await finish(page)
        names = []
        for _ in CONTROLS:
            names.append(await page.evaluate(NAME_IN_FOCUS))
            await page.keyboard.press("Tab")
        assert names == CONTROLS


@pytest.mark.parametrize("dark", [False, True])
async def test_words_stand_out(browser: Browser, dark: bool) -> None:
    """The contrast of text and ground that WCAG 2.2 asks for (1.4.3): 4.5 to 1."""
    async with stage(script("abc", block_size=2)) as on, opened(browser, url(on), dark) as page:
        await generate(page)
        await finish(page)
        ratios = await page.evaluate(CONTRASTS)
        assert len(ratios) > 20
        assert min(ratios.values()) >= 4.5, ratios


async def test_who_wants_no_motion_sees_none(browser: Browser) -> None:
    async with stage(script("abc")) as on, opened(browser, url(on)) as page:
        await page.emulate_media(reduced_motion="reduce")
        await generate(page)
        await finish(page)
        running = "getComputedStyle(document.querySelector('#answer span')).animationName"
        assert await page.evaluate(running) == "none"
        await page.emulate_media(reduced_motion="no-preference")
        assert await page.evaluate(running) != "none"


async def test_a_small_screen_needs_no_scrolling_sideways(browser: Browser) -> None:
    async with stage(script("abc" * 9, block_size=9)) as on, opened(browser, url(on)) as page:
        await page.set_viewport_size({"width": 320, "height": 640})
        await generate(page, compare=True)
        await finish(page)
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= 320
