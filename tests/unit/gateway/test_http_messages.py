"""Messages as JSON, one by one and joined."""

from gateway.http_messages import joined, message_json
from outrider.v1 import decoding_pb2, generation_pb2

FIRST = generation_pb2.GenerateResponse(
    text="he", token_ids=[1, 2], log_probs=[-1.0, -2.0], accepted_count=1, request_id="r"
)
LAST = generation_pb2.GenerateResponse(
    text="y",
    token_ids=[3],
    log_probs=[-3.0],
    request_id="r",
    finish_reason=decoding_pb2.FINISH_REASON_STOP,
    usage=generation_pb2.Usage(prompt_tokens=4, completion_tokens=3),
    speculation_report=decoding_pb2.SpeculationReport(rounds=2, method="ngram"),
)


def test_a_message_in_the_middle_has_no_end() -> None:
    assert message_json(FIRST, logprobs=True) == {
        "text": "he",
        "token_ids": [1, 2],
        "log_probs": [-1.0, -2.0],
        "accepted_count": 1,
        "request_id": "r",
    }


def test_the_last_message_has_reason_usage_and_report() -> None:
    fields = message_json(LAST, logprobs=False)
    assert fields["finish_reason"] == "stop"
    assert fields["usage"] == {"prompt_tokens": 4, "completion_tokens": 3}
    assert fields["speculation_report"]["rounds"] == 2
    assert fields["speculation_report"]["method"] == "ngram"
    assert "log_probs" not in fields


def test_joined_messages_are_one_whole_answer() -> None:
    whole = joined([FIRST, LAST])
    assert (whole.text, list(whole.token_ids)) == ("hey", [1, 2, 3])
    assert list(whole.log_probs) == [-1.0, -2.0, -3.0]
    assert whole.accepted_count == 1
    assert whole.usage.completion_tokens == 3
    assert whole.speculation_report == LAST.speculation_report


def test_the_likeliest_tokens_stand_beside_each_token() -> None:
    message = generation_pb2.GenerateResponse(token_ids=[5], log_probs=[-1.0])
    message.top_log_probs.add(token_ids=[5, 6], log_probs=[-1.0, -2.0])
    fields = message_json(message, logprobs=True)
    assert fields["top_log_probs"] == [{"token_ids": [5, 6], "log_probs": [-1.0, -2.0]}]


def test_a_round_is_told_where_it_was_asked_for() -> None:
    message = generation_pb2.GenerateResponse(token_ids=[5, 6])
    tree = decoding_pb2.RoundTree(token_ids=[4, 5], parents=[-1, 0], accepted_indices=[1])
    message.round_report.CopyFrom(
        generation_pb2.RoundReport(tree=tree, node_texts=["a", "b"], token_texts=["b", "c"])
    )
    assert message_json(message, logprobs=False)["round_report"] == {
        "tree": {"token_ids": [4, 5], "parents": [-1, 0], "accepted_indices": [1]},
        "node_texts": ["a", "b"],
        "token_texts": ["b", "c"],
    }
    assert "round_report" not in message_json(FIRST, logprobs=False)
