"""The journal of one stream: what a worker may say, and how a stream is placed again."""

import pytest

from gateway.journal import CommittedRound, Journal
from gateway.requests import GenerationJob
from outrider.protocol.decoding import DecodeLimits, FinishReason, Sampling, Speculation
from outrider.protocol.errors import InternalFailure
from outrider.v1 import decoding_pb2, drafting_pb2

SESSION_ID = bytes(range(16))
LIMITS = DecodeLimits(6, stop_token_ids=(9,))


def journal(logprobs: bool = False, top: int = 0) -> Journal:
    job = GenerationJob(
        prompt_token_ids=(5, 6),
        sampling=Sampling(temperature=1.0, seed=3),
        limits=LIMITS,
        stop=("x",),
        speculation=Speculation(method="ngram"),
        logprobs=logprobs,
        top_logprobs=top,
        request_id="",
    )
    return Journal(SESSION_ID, job, LIMITS, vocab_size=100)


def response(
    index: int, ids: list[int], accepted: int = 0, log_probs: tuple[float, ...] = ()
) -> drafting_pb2.DraftResponse:
    return drafting_pb2.DraftResponse(
        index=index, token_ids=ids, accepted_count=accepted, log_probs=log_probs
    )


def test_the_first_placement_has_everything_and_no_committed_tokens() -> None:
    placement = journal().placement("ngram")
    assert placement.session_id == SESSION_ID
    assert placement.epoch == 0
    assert list(placement.prompt_token_ids) == [5, 6]
    assert not placement.committed_token_ids
    assert Sampling.from_proto(placement.sampling) == Sampling(temperature=1.0, seed=3)
    assert DecodeLimits.from_proto(placement.limits) == LIMITS
    assert placement.speculation.method == "ngram"


def test_a_worker_may_be_given_another_method() -> None:
    assert journal().placement("none").speculation.method == "none"


def test_reports_of_all_placements_are_one() -> None:
    stream = journal()
    first = response(0, [10])
    first.report.rounds = 1
    stream.append(first)
    stream.begin_epoch()
    second = response(1, [11])
    for rounds in (1, 2):
        second.report.rounds = rounds
        second.index = rounds
        committed = stream.append(second)
        assert committed is not None
        assert committed.report.rounds == 1 + rounds
        assert committed.report.failovers == 1


def test_streams_with_the_same_beginning_wish_for_the_same_worker() -> None:
    wish = journal().wish("t")
    assert (wish.method, wish.target_fingerprint) == ("ngram", "t")
    assert wish == journal(logprobs=True).wish("t")


def test_a_later_placement_continues_after_the_committed_tokens() -> None:
    stream = journal()
    before = stream.placement("ngram")
    stream.append(response(0, [10, 11]))
    stream.append(response(2, [12]))
    stream.begin_epoch()
    after = stream.placement("ngram")
    assert (after.epoch, list(after.committed_token_ids)) == (1, [10, 11, 12])
    after.epoch = 0
    del after.committed_token_ids[:]
    assert after == before


def test_rounds_are_appended_in_order() -> None:
    stream = journal()
    assert stream.append(response(0, [10, 11], accepted=1)) == CommittedRound(
        (10, 11), (), (), 1, None, decoding_pb2.SpeculationReport()
    )
    last = response(2, [12])
    last.finish_reason = decoding_pb2.FINISH_REASON_STOP
    round_ = stream.append(last)
    assert round_ is not None
    assert round_.finish_reason is FinishReason.STOP
    assert stream.committed_token_ids == (10, 11, 12)


def test_a_repeat_is_dropped() -> None:
    stream = journal()
    stream.append(response(0, [10, 11]))
    assert stream.append(response(0, [10, 11])) is None
    assert stream.append(response(1, [11])) is None
    assert stream.committed_token_ids == (10, 11)


def test_only_the_new_part_of_an_overlap_is_delivered() -> None:
    stream = journal(logprobs=True)
    stream.append(response(0, [10], log_probs=(0.5,)))
    round_ = stream.append(response(0, [10, 11, 12], accepted=2, log_probs=(0.5, 1.5, 2.5)))
    assert round_ is not None
    assert (round_.token_ids, round_.log_probs, round_.accepted_count) == ((11, 12), (1.5, 2.5), 1)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (response(2, [12]), "skipped"),
        (response(0, [99]), "changed"),
        (response(1, [100]), "vocabulary"),
        (response(1, [1] * 6), "more tokens"),
        (response(1, [1], accepted=2), "accepted"),
        (response(1, [1], log_probs=(0.5,)), "log-prob"),
    ],
)
def test_a_faulty_worker_ends_its_stream(bad: drafting_pb2.DraftResponse, reason: str) -> None:
    stream = journal()
    stream.append(response(0, [10]))
    with pytest.raises(InternalFailure, match=reason):
        stream.append(bad)
    assert stream.committed_token_ids == (10,)


def test_missing_log_probs_are_a_fault_where_wanted() -> None:
    with pytest.raises(InternalFailure, match="log-prob"):
        journal(logprobs=True).append(response(0, [10]))
    with pytest.raises(InternalFailure, match="log-prob"):
        journal(top=2).append(response(0, [10]))


def test_likeliest_tokens_of_what_is_known_already_are_passed_over() -> None:
    stream = journal(top=1)
    tops = [decoding_pb2.TopLogProbs(token_ids=[i], log_probs=[-0.5]) for i in range(3)]
    first = response(0, [10])
    first.top_log_probs.extend(tops[:1])
    stream.append(first)
    again = response(0, [10, 11, 12])
    again.top_log_probs.extend(tops)
    round_ = stream.append(again)
    assert round_ is not None
    assert list(round_.top_log_probs) == tops[1:]


def test_a_session_id_has_16_bytes() -> None:
    job = GenerationJob((1,), Sampling(), LIMITS, (), Speculation(), False, 0, "")
    with pytest.raises(ValueError, match="16"):
        Journal(b"short", job, LIMITS, 100)
