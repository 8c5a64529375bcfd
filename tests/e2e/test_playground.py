"""The page on the three real processes: speculation and plain decoding give the same ids."""

import pytest
from playwright.async_api import expect

from outrider.evaluation.service import Service
from tests.browser import opened, running_browser
from tests.e2e.tiny_model import TinyModel
from tests.integration.playground_page import figures, shown


@pytest.mark.asyncio
async def test_the_page_shows_real_rounds_and_compares_with_plain_decoding(
    service: Service, tiny_model: TinyModel
) -> None:
    text = tiny_model.text(tiny_model.cycle().prompt_ids)
    async with running_browser() as browser, opened(browser, f"{service.http_url}/") as page:
        await page.get_by_label("Send as").select_option("plain text")
        await page.get_by_label("Prompt").fill(text)
        await page.get_by_role("button", name="Generate").click()
        status = page.get_by_role("status")
        await expect(status).to_contain_text("Done", timeout=60_000)
        await expect(status).to_contain_text("token ids as with plain decoding")
        speculative, plain = await shown(page), await shown(page, "With plain decoding")
        assert [piece for _, piece in speculative] == [piece for _, piece in plain]
        assert "".join(piece for _, piece in plain) == tiny_model.text(
            tiny_model.greedy(tiny_model.tokenizer(text)["input_ids"], 128)
        )
        assert {origin for origin, _ in plain} == {"bonus"}
        assert "accepted" in {origin for origin, _ in speculative}
        assert (await figures(page, "Tokens per round"))[1] == "1.00"
