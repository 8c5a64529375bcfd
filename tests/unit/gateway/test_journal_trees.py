"""The journal lets through the tree of the round that was committed, and no other."""

from typing import Any

import pytest

from gateway.journal import Journal
from gateway.requests import GenerationJob
from outrider.protocol.decoding import DecodeLimits, Sampling, Speculation
from outrider.protocol.errors import InternalFailure
from outrider.protocol.round_tree import RoundTree
from outrider.protocol.token_tree import TokenTree
from outrider.v1 import decoding_pb2, drafting_pb2

LIMITS = DecodeLimits(20)


def journal(report_rounds: bool = True) -> Journal:
    job = GenerationJob(
        (5, 6), Sampling(), LIMITS, (), Speculation(), False, 0, "", report_rounds=report_rounds
    )
    return Journal(bytes(16), job, LIMITS, vocab_size=100)


def response(index: int, ids: list[int], **tree: Any) -> drafting_pb2.DraftResponse:
    return drafting_pb2.DraftResponse(
        index=index,
        token_ids=ids,
        accepted_count=len(ids) - 1,
        tree=decoding_pb2.RoundTree(**tree) if tree else None,
    )


FIRST = response(
    0, [10, 11, 12], token_ids=[6, 10, 20, 11], parents=[-1, 0, 0, 1], accepted_indices=[1, 3]
)


def test_a_tree_is_asked_for_and_handed_on() -> None:
    assert journal().placement("ngram").report_trees
    stream = journal()
    first = stream.append(FIRST)
    assert first is not None
    assert first.tree == RoundTree(TokenTree((6, 10, 20, 11), (-1, 0, 0, 1)), (1, 3))
    second = stream.append(response(3, [13], token_ids=[12], parents=[-1]))
    assert second is not None
    assert second.tree == RoundTree(TokenTree.root_only(12), ())


def test_nobody_gets_a_tree_unasked() -> None:
    stream = journal(report_rounds=False)
    assert not stream.placement("ngram").report_trees
    round_ = stream.append(FIRST)
    assert round_ is not None
    assert round_.tree is None


def test_an_end_without_tokens_has_no_tree() -> None:
    last = drafting_pb2.DraftResponse(finish_reason=decoding_pb2.FINISH_REASON_LENGTH)
    round_ = journal().append(last)
    assert round_ is not None
    assert round_.tree is None


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ({}, "no tree"),
        ({"token_ids": [6, 10], "parents": [-1, 1], "accepted_indices": [1]}, "no tree"),
        ({"token_ids": [6, 10], "parents": [-1, 0], "accepted_indices": [2]}, "no tree"),
        ({"token_ids": [6, 10], "parents": [-1, 0]}, "another round"),
        ({"token_ids": [6, 11], "parents": [-1, 0], "accepted_indices": [1]}, "another round"),
        ({"token_ids": [7, 10], "parents": [-1, 0], "accepted_indices": [1]}, "another round"),
        ({"token_ids": [6, 100], "parents": [-1, 0], "accepted_indices": [1]}, "limits"),
        (
            {
                "token_ids": [6, *range(1, 1100)],
                "parents": [*range(-1, 1099)],
                "accepted_indices": [1],
            },
            "limits",
        ),
    ],
)
def test_the_tree_of_a_faulty_worker_ends_its_stream(tree: dict[str, Any], reason: str) -> None:
    stream = journal()
    with pytest.raises(InternalFailure, match=reason):
        stream.append(response(0, [10, 11], **tree))
    assert stream.committed_token_ids == ()
