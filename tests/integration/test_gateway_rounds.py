"""Rounds told token by token: over gRPC and as events, whatever a stop string holds back."""

import pytest

from outrider.v1 import decoding_pb2
from tests.integration.gateway_stage import (
    ScriptedDrafting,
    answer,
    events,
    grpc_refusal,
    limits,
    prompt,
    script,
    stage,
)
from tests.unit.gateway.tiny_tokenizer import EOS_ID, ids_of

pytestmark = pytest.mark.asyncio


async def test_each_message_tells_its_round() -> None:
    async with stage(script("hello world🙂", block_size=3)) as on:
        messages = await answer(on, prompt("hello", report_rounds=True))
        assert all(request.report_trees for request in on.drafting.requests)
        last_id = ids_of("hello")[-1]
        for message in messages:
            report, ids = message.round_report, list(message.token_ids)
            accepted = [report.tree.token_ids[node] for node in report.tree.accepted_indices]
            assert (report.tree.token_ids[0], accepted) == (last_id, ids[: message.accepted_count])
            assert len(report.node_texts) == len(report.tree.token_ids)
            last_id = ids[-1]
        first = messages[0].round_report
        assert list(first.node_texts[:3]) == ["hello", "hello", " world"]
        assert "".join(text for m in messages for text in m.round_report.token_texts) == (
            "hello world🙂"
        )


async def test_nothing_is_told_unasked() -> None:
    async with stage(script("abc", block_size=3)) as on:
        assert not any(m.HasField("round_report") for m in await answer(on, prompt()))
        assert not on.drafting.requests[0].report_trees


async def test_text_that_is_held_back_still_belongs_to_its_tokens() -> None:
    async with stage(script("xyENDz", block_size=2)) as on:
        request = prompt(limits=limits(stop=["END"]), report_rounds=True)
        messages = await answer(on, request)
        assert [m.text for m in messages] == ["xy", "", ""]
        assert [list(m.round_report.token_texts) for m in messages] == [
            ["x", "y"],
            ["E", "N"],
            ["D"],
        ]
        # The round went on behind the stop string; the answer did not.
        assert list(messages[-1].token_ids) == ids_of("D")
        assert len(messages[-1].round_report.tree.accepted_indices) == 1


async def test_events_tell_the_same() -> None:
    async with stage(script("abc", block_size=4)) as on:
        body = {"prompt": "hello", "stream": True, "report_rounds": True}
        message, done = await events(await on.http.post("/generate", json=body))
        assert done == "[DONE]"
        assert message["round_report"] == {
            "tree": {
                "token_ids": [*ids_of("hello"), *ids_of("abc"), EOS_ID + 1],
                "parents": [-1, 0, 1, 2, 0],
                "accepted_indices": [1, 2, 3],
            },
            "node_texts": ["hello", "a", "b", "c", "!"],
            "token_texts": ["a", "b", "c", ""],
        }


async def test_a_whole_answer_has_no_rounds() -> None:
    async with stage(script("abc")) as on:
        body = {"prompt": "hello", "report_rounds": True}
        response = await on.http.post("/generate", json=body)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "report_rounds"
        assert not on.drafting.requests


class OfAnotherRound(ScriptedDrafting):
    """Sends a tree that is not the one it committed from."""

    def tree(self, root: int, block: object) -> decoding_pb2.RoundTree:
        return decoding_pb2.RoundTree(token_ids=[root], parents=[-1])


async def test_a_tree_of_another_round_ends_the_stream_in_words() -> None:
    async with stage(OfAnotherRound(ids_of("abc"), block_size=3)) as on:
        error = await grpc_refusal(on, prompt(report_rounds=True))
        assert "another round" in str(error.details())
        assert "".join(m.text for m in await answer(on, prompt())) == "abc"
