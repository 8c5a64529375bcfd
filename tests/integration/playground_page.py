"""What tests do with the page in a browser: fill the form, wait, read what is shown."""

from playwright.async_api import Page, expect

from tests.integration.gateway_stage import Stage


def url(on: Stage) -> str:
    return f"http://127.0.0.1:{on.http_port}/"


async def generate(page: Page, text: str = "hello", compare: bool = False) -> None:
    """Fills the form and sends it, by keyboard."""
    await expect(page.get_by_text("context of 512 tokens")).to_be_visible()
    await page.get_by_label("with plain decoding, and compare").set_checked(compare)
    await page.get_by_label("Prompt").fill(text)
    await page.keyboard.press("Control+Enter")


async def finish(page: Page) -> None:
    await expect(page.get_by_role("status")).to_contain_text("Done")


async def shown(page: Page, region: str = "Answer") -> list[tuple[str, str]]:
    """Origin and text of each token of an answer."""
    spans = page.get_by_role("group", name=region, exact=True).locator("span")
    found = await spans.evaluate_all("all => all.map(one => [one.className, one.textContent])")
    return [(origin, text) for origin, text in found]


async def figures(page: Page, name: str) -> list[str]:
    """A row of the table."""
    head = page.get_by_role("rowheader", name=name, exact=True)
    return await page.get_by_role("row").filter(has=head).get_by_role("cell").all_inner_texts()
