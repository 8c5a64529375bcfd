"""The page's modules by themselves, in a browser: values in, values out."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page

from tests.browser import opened, running_browser
from tests.integration.gateway_stage import script, stage

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page() -> AsyncIterator[Page]:
    async with (
        stage(script("abc")) as on,
        running_browser() as browser,
        opened(browser, f"http://127.0.0.1:{on.http_port}/") as page,
    ):
        yield page


async def evaluate(page: Page, module: str, body: str, argument: Any = None) -> Any:
    """Runs a function's body, with the module as `its` and the argument as `given`."""
    program = f'async given => {{ const its = await import("/playground/{module}"); {body} }}'
    return await page.evaluate(program, argument)


def message(text: str, token_texts: list[str], accepted: int, first_id: int) -> dict[str, Any]:
    """A message of a stream; ids count up."""
    ids = list(range(first_id, first_id + len(token_texts)))
    tree = {
        "token_ids": [first_id - 1, *ids[:accepted], 99],
        "parents": [*range(-1, accepted), 0],
        "accepted_indices": list(range(1, accepted + 1)),
    }
    return {
        "text": text,
        "token_ids": ids,
        "accepted_count": accepted,
        "round_report": {
            "tree": tree,
            "node_texts": ["root", *token_texts[:accepted], "other"],
            "token_texts": token_texts,
        },
    }


RUN = """
const run = new its.Run(1000);
given.forEach((message, place) => run.take(message, 1000 + 100 * (place + 1)));
return {
  segments: run.segments.map(({ text, origin }) => `${origin} ${text}`),
  text: run.text,
  figures: [run.tokenIds.length, run.rounds.length, run.drafted, run.accepted],
  perRound: run.tokensPerRound,
  first: run.firstTokenMs,
  speed: run.tokensPerSecond,
};
"""


async def test_text_that_was_held_back_keeps_the_colour_of_its_tokens(page: Page) -> None:
    messages = [
        message("x", ["x", "E"], 1, 10),  # E may begin a stop string: it waits
        message("", ["N"], 0, 12),
        message("ENO.", ["O", "."], 1, 13),  # it was none
    ]
    run = await evaluate(page, "run.js", RUN, messages)
    assert run["segments"] == ["accepted x", "bonus E", "bonus N", "accepted O", "bonus ."]
    assert run["text"] == "xENO."
    assert run["figures"] == [5, 3, 5, 2]
    assert run["perRound"] == pytest.approx(5 / 3)
    # 100 ms to the first message; the 3 tokens behind it took 200 ms.
    assert (run["first"], run["speed"]) == (100, 15)


async def test_a_stop_string_takes_its_text_away_from_the_middle_of_a_token(page: Page) -> None:
    messages = [message("wa", ["was"], 0, 10), message("", ["top"], 1, 11)]
    run = await evaluate(page, "run.js", RUN, messages)
    assert run["segments"] == ["bonus wa"]


async def test_characters_of_several_tokens_and_tokens_without_text(page: Page) -> None:
    messages = [message("", ["", ""], 1, 10), message("🙂", ["🙂", ""], 1, 12)]
    run = await evaluate(page, "run.js", RUN, messages)
    assert run["segments"] == ["accepted 🙂"]


async def test_nothing_has_no_speed(page: Page) -> None:
    run = await evaluate(page, "run.js", RUN, [])
    assert (run["first"], run["speed"], run["perRound"]) == (None, None, 0)
    run = await evaluate(page, "run.js", RUN, [message("a", ["a"], 0, 10)])
    assert run["speed"] is None


@pytest.mark.parametrize(
    ("ids", "others", "place"),
    [([], [], -1), ([1, 2], [1, 2], -1), ([1, 2], [1, 3], 1), ([1], [1, 2], 1), ([2], [1], 0)],
)
async def test_the_first_difference(
    page: Page, ids: list[int], others: list[int], place: int
) -> None:
    body = "return its.firstDifference(...given)"
    assert await evaluate(page, "run.js", body, [ids, others]) == place


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_events_are_read_however_they_are_cut(page: Page, size: int) -> None:
    text = 'data: {"text": "ä🙂\\n"}\n\ndata: {"text": ""}\n\ndata: [DONE]\n\n'
    body = """
      const bytes = new TextEncoder().encode(given[0]);
      const body = new ReadableStream({
        start(controller) {
          for (let at = 0; at < bytes.length; at += given[1]) {
            controller.enqueue(bytes.slice(at, at + given[1]));
          }
          controller.close();
        },
      });
      const found = [];
      for await (const message of its.readMessages(body)) found.push(message.text);
      return found;
    """
    assert await evaluate(page, "events.js", body, [text, size]) == ["ä🙂\n", ""]


async def test_an_answer_without_its_end_is_a_failure(page: Page) -> None:
    body = """
      const body = new Blob(['data: {"text": "a"}\\n\\n']).stream();
      try { for await (const _ of its.readMessages(body)); } catch (error) { return error.message; }
    """
    assert "before the answer was complete" in await evaluate(page, "events.js", body)


async def test_the_bonus_token_stands_behind_the_last_accepted_one(page: Page) -> None:
    body = (
        "const name = (n) => [n.text, n.kind, n.children.map(name)]; return name(its.nested(given))"
    )
    two = await evaluate(page, "tree.js", body, message("abc", ["a", "b", "c"], 2, 10))
    accepted = ["a", "accepted", [["b", "accepted", [["c", "bonus", []]]]]]
    assert two == ["root", "root", [accepted, ["other", "candidate", []]]]
    none = await evaluate(page, "tree.js", body, message("a", ["a"], 0, 10))
    assert none == ["root", "root", [["a", "bonus", []], ["other", "candidate", []]]]
    ended = await evaluate(page, "tree.js", body, message("a", ["a"], 1, 10))
    assert ended[2][0] == ["a", "accepted", []]


async def test_tokens_read_by_themselves(page: Page) -> None:
    body = "return given.map(([text, id]) => its.visible(text, id))"
    pairs = [[" a b", 1], ["\n\t", 2], ["", 3]]
    assert await evaluate(page, "tree.js", body, pairs) == ["·a·b", "⏎⇥", "#3"]
