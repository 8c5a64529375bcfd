"""The page in a browser, on a real gateway: what somebody sees, types and hears."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from outrider.api_keys import Access, make_key
from outrider.key_file import key_line, read_api_keys
from outrider.protocol.errors import InternalFailure, WorkerUnavailable
from outrider.v1 import drafting_pb2
from tests.browser import opened, running_browser
from tests.integration.gateway_stage import ScriptedDrafting, script, stage
from tests.integration.playground_page import figures, finish, generate, shown, url
from tests.unit.gateway.tiny_tokenizer import ids_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = make_key()
ACCESS = Access(read_api_keys(key_line("alice", KEY)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


async def test_tokens_have_the_colour_of_their_origin(browser: Browser) -> None:
    text = "hello world🙂"
    async with stage(script(text, block_size=3)) as on, opened(browser, url(on)) as page:
        await generate(page)
        await finish(page)
        # The third token is the beginning of a character, which the fifth one completes.
        assert await shown(page) == [
            ("accepted", "hello"),
            ("accepted", " world"),
            ("accepted", "🙂"),
        ]
        assert await figures(page, "Tokens") == ["6"]
        assert await figures(page, "Rounds") == ["2"]
        assert await figures(page, "Tokens per round") == ["3.00"]
        assert await figures(page, "Accepted") == ["4 of 6"]
        assert await figures(page, "Ended by") == ["stop"]
        request = on.drafting.requests[0]
        assert (request.report_trees, request.sampling.temperature) == (True, 0.0)
        colours = await page.evaluate(
            "['accepted', 'bonus'].map(name => getComputedStyle("
            "document.querySelector(`.legend .${name}`)).backgroundColor)"
        )
        assert len(set(colours)) == 2


async def test_tokens_and_trees_appear_while_the_answer_grows(browser: Browser) -> None:
    worker = script("abcdef", block_size=2, hold_after=2)
    async with stage(worker) as on, opened(browser, url(on)) as page:
        await generate(page)
        answer = page.get_by_role("group", name="Answer", exact=True)
        await expect(answer).to_have_text("abcd")
        await expect(answer).to_have_attribute("aria-busy", "true")
        await expect(page.get_by_text("2 of 2: 2 drafted, 1 accepted")).to_be_visible()
        assert await shown(page) == [
            ("accepted", "a"),
            ("bonus", "b"),
            ("accepted", "c"),
            ("bonus", "d"),
        ]
        await expect(page.get_by_role("button", name="Generate")).to_be_disabled()
        worker.release.set()
        await finish(page)
        await expect(answer).to_have_attribute("aria-busy", "false")
        await expect(answer).to_have_text("abcdef")


async def test_the_tree_is_a_list_in_which_the_path_is_marked(browser: Browser) -> None:
    async with stage(script("ab c", block_size=3)) as on, opened(browser, url(on)) as page:
        await page.get_by_label("Send as").select_option("plain text")
        await generate(page)
        await finish(page)
        slider = page.get_by_role("slider", name="Round")
        await slider.focus()
        await page.keyboard.press("Home")
        await expect(page.get_by_text("1 of 2: 3 drafted, 2 accepted")).to_be_visible()
        tree = page.get_by_role("group", name="Token tree")
        await expect(tree).to_match_aria_snapshot(
            """
            - list:
              - listitem:
                - text: hello (root)
                - list:
                  - listitem:
                    - text: a (accepted)
                    - list:
                      - listitem:
                        - text: b (accepted)
                        - list:
                          - listitem: · (bonus)
                  - listitem: "! (candidate)"
            """
        )
        await page.keyboard.press("End")
        await expect(page.get_by_text("2 of 2: 2 drafted, 1 accepted")).to_be_visible()


@dataclass
class OtherWhenPlain(ScriptedDrafting):
    """Answers plain decoding with something else: what must never be, and must be seen."""

    plain: Sequence[int] = ()

    async def _play(self, request: drafting_pb2.DraftRequest, context: object) -> None:
        kept = self.answer
        if request.speculation.disabled:
            self.answer = self.plain
        await super()._play(request, context)
        self.answer = kept


async def test_plain_decoding_runs_after_it_and_ids_are_compared(browser: Browser) -> None:
    async with stage(script("abcd", block_size=5)) as on, opened(browser, url(on)) as page:
        await page.get_by_label("Temperature").fill("0.7")
        await generate(page, compare=True)
        await finish(page)
        same = "The same 5 token ids as with plain decoding"
        await expect(page.get_by_role("status")).to_contain_text(same)
        assert len(await figures(page, "Tokens")) == 2
        assert [text for _, text in await shown(page, "With plain decoding")] == list("abcd")
        first, second = on.drafting.requests
        assert not first.speculation.disabled
        assert second.speculation.disabled
        assert first.sampling == second.sampling
        assert first.sampling.seed == int((await figures(page, "Seed"))[0])


async def test_a_difference_is_said(browser: Browser) -> None:
    worker = OtherWhenPlain(ids_of("abcd"), block_size=2, plain=ids_of("abxd"))
    async with stage(worker) as on, opened(browser, url(on)) as page:
        await generate(page, compare=True)
        await finish(page)
        await expect(page.get_by_role("status")).to_contain_text("another token at place 3")


@pytest.mark.parametrize("key", ["Enter", "Escape"])
async def test_stopping_cancels_the_request_and_focus_stays_at_the_buttons(
    browser: Browser, key: str
) -> None:
    async with stage(script("abcdef", hold_after=2)) as on, opened(browser, url(on)) as page:
        await expect(page.get_by_text("context of 512 tokens")).to_be_visible()
        await page.get_by_role("button", name="Generate").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("group", name="Answer", exact=True)).to_have_text("ab")
        await expect(page.get_by_role("button", name="Stop")).to_be_focused()
        await page.keyboard.press(key)
        await expect(page.get_by_role("status")).to_have_text("Stopped.")
        await on.drafting.wait_for_open(0)
        assert on.drafting.cancelled_count == 1
        await expect(page.get_by_role("button", name="Generate")).to_be_focused()
        await expect(page.get_by_role("button", name="Stop")).to_be_disabled()


async def test_a_refusal_names_its_field(browser: Browser) -> None:
    async with stage(script("abc")) as on, opened(browser, url(on)) as page:
        await page.get_by_label("Most tokens").fill("600")
        await generate(page)
        await expect(page.get_by_role("alert")).to_contain_text("limits.max_new_tokens: must be")
        field = page.get_by_label("Most tokens")
        await expect(field).to_be_focused()
        await expect(field).to_have_attribute("aria-invalid", "true")
        await field.fill("50")
        await generate(page)
        await finish(page)
        await expect(page.get_by_role("alert")).to_be_empty()
        await expect(field).not_to_have_attribute("aria-invalid", "true")


async def test_a_failure_after_the_beginning_is_said(browser: Browser) -> None:
    worker = script("abc", hold_after=2, error=InternalFailure("the worker broke"))
    async with stage(worker) as on, opened(browser, url(on)) as page:
        await generate(page)
        await expect(page.get_by_role("alert")).to_have_text("the worker broke")
        assert [text for _, text in await shown(page)] == ["a", "b"]


async def test_the_page_waits_for_a_service_that_is_not_ready(browser: Browser) -> None:
    worker = script("abc", not_ready=WorkerUnavailable("loading"))
    async with stage(worker) as on, opened(browser, url(on)) as page:
        await expect(page.get_by_text("Not ready: loading")).to_be_visible()
        worker.not_ready = None
        await generate(page)
        await finish(page)


async def test_a_key_is_asked_for_and_kept_for_the_tab_only(browser: Browser) -> None:
    async with (
        stage(script("abc"), access=ACCESS) as on,
        opened(browser, url(on)) as page,
    ):
        key = page.get_by_label("API key")
        await expect(key).to_be_focused()
        await key.fill("or-wrong")
        await page.keyboard.press("Tab")
        await expect(page.get_by_text("this API key is not known")).to_be_visible()
        await key.fill(KEY)
        await page.keyboard.press("Tab")
        await generate(page)
        await finish(page)
        kept = "[localStorage.length, document.cookie, Object.values(sessionStorage)]"
        assert await page.evaluate(kept) == [0, "", [KEY]]
        assert KEY not in page.url
        await page.reload()
        await generate(page)
        await finish(page)


async def test_no_key_no_field(browser: Browser) -> None:
    async with stage(script("abc")) as on, opened(browser, url(on)) as page:
        await generate(page)
        await finish(page)
        await expect(page.get_by_label("API key")).to_be_hidden()


async def test_what_a_model_makes_up_stays_text(browser: Browser) -> None:
    bad = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    async with stage(script(bad, block_size=4)) as on, opened(browser, url(on)) as page:
        await generate(page, text=bad)
        await finish(page)
        assert "".join(text for _, text in await shown(page)) == bad
        assert await page.locator("img, body script").count() == 0


async def test_methods_come_from_the_service_and_are_sent(browser: Browser) -> None:
    async with stage(script("abc")) as on, opened(browser, url(on)) as page:
        method = page.get_by_label("Draft method")
        await expect(method.locator("option")).to_have_text(["default: ngram", "none", "ngram"])
        await method.select_option("none")
        await page.get_by_label("Send as").select_option("plain text")
        await page.get_by_label("Seed").fill("7")
        await page.get_by_label("Most tokens").fill("2")
        await generate(page)
        await finish(page)
        (request,) = on.drafting.requests
        assert (request.speculation.method, request.sampling.seed) == ("none", 7)
        assert list(request.prompt_token_ids) == ids_of("hello")
        assert request.limits.max_new_tokens == 2
