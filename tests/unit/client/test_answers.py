"""Messages as values, and joined into answers."""

import pytest

from outrider.client.answers import Chunk, Model, Round, Usage, collect
from outrider.protocol.decoding import FinishReason, TopLogProbs
from outrider.protocol.errors import InternalFailure
from outrider.protocol.round_tree import RoundTree
from outrider.protocol.token_tree import TokenTree
from outrider.v1 import decoding_pb2, generation_pb2

TREE = decoding_pb2.RoundTree(token_ids=[4, 5], parents=[-1, 0], accepted_indices=[1])
FIRST = generation_pb2.GenerateResponse(
    text="he",
    token_ids=[5, 6],
    log_probs=[-0.5, -1.5],
    top_log_probs=[decoding_pb2.TopLogProbs(token_ids=[5], log_probs=[-0.5])] * 2,
    accepted_count=1,
    request_id="r",
    round_report=generation_pb2.RoundReport(
        tree=TREE, node_texts=["a", "h"], token_texts=["h", "e"]
    ),
)
LAST = generation_pb2.GenerateResponse(
    text="y",
    token_ids=[7],
    log_probs=[-2.5],
    request_id="r",
    finish_reason=decoding_pb2.FINISH_REASON_STOP,
    usage=generation_pb2.Usage(prompt_tokens=4, completion_tokens=3),
    speculation_report=decoding_pb2.SpeculationReport(
        rounds=2, method="ngram", offered_by_depth=[2, 1]
    ),
)


def test_a_message_in_the_middle() -> None:
    chunk = Chunk.from_proto(FIRST)
    assert chunk == Chunk(
        text="he",
        token_ids=(5, 6),
        accepted_count=1,
        log_probs=(-0.5, -1.5),
        top_log_probs=(TopLogProbs((5,), (-0.5,)),) * 2,
        request_id="r",
        round=Round(RoundTree(TokenTree((4, 5), (-1, 0)), (1,)), ("a", "h"), ("h", "e")),
    )


def test_the_last_message() -> None:
    chunk = Chunk.from_proto(LAST)
    assert (chunk.finish_reason, chunk.usage) == (FinishReason.STOP, Usage(4, 3))
    assert chunk.report is not None
    assert (chunk.report.rounds, chunk.report.offered_by_depth) == (2, (2, 1))
    assert chunk.round is None


def test_chunks_join_to_an_answer() -> None:
    (answer,) = collect([Chunk.from_proto(FIRST), Chunk.from_proto(LAST)])
    assert (answer.text, answer.token_ids, answer.accepted_count) == ("hey", (5, 6, 7), 1)
    assert answer.log_probs == (-0.5, -1.5, -2.5)
    assert (answer.request_id, answer.usage.completion_tokens) == ("r", 3)
    assert [round_.token_texts for round_ in answer.rounds] == [("h", "e")]


def test_several_answers_come_in_their_order() -> None:
    chunks = []
    for choice, text in ((1, "b"), (0, "a"), (2, "c")):
        message = generation_pb2.GenerateResponse()
        message.CopyFrom(LAST)
        message.choice, message.text = choice, text
        chunks.append(Chunk.from_proto(message))
    assert [(answer.choice, answer.text) for answer in collect(chunks)] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
    ]


@pytest.mark.parametrize("chunks", [[], [Chunk.from_proto(FIRST)]])
def test_an_answer_without_an_end_is_none(chunks: list[Chunk]) -> None:
    with pytest.raises(InternalFailure, match="before the answer was complete"):
        collect(chunks)


@pytest.mark.parametrize(
    "message",
    [
        generation_pb2.GenerateResponse(finish_reason=77),  # type: ignore[arg-type]
        generation_pb2.GenerateResponse(round_report=generation_pb2.RoundReport()),
        generation_pb2.GenerateResponse(top_log_probs=[decoding_pb2.TopLogProbs(token_ids=[1])]),
    ],
)
def test_what_cannot_be_read_is_the_services_fault(
    message: generation_pb2.GenerateResponse,
) -> None:
    with pytest.raises(InternalFailure, match="cannot be read"):
        Chunk.from_proto(message)


def test_the_model() -> None:
    proto = generation_pb2.GetModelResponse(
        model="m", context_limit=8, eos_token_ids=[2], methods=["none"], has_chat_template=True
    )
    model = Model.from_proto(proto)
    assert (model.model, model.context_limit, model.eos_token_ids) == ("m", 8, (2,))
    assert (model.methods, model.has_chat_template) == (("none",), True)
