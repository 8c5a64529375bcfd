"""Rules of the logits: ranges, the proto, and what counts as before."""

import math

import pytest

from outrider.protocol.decoding import DecodeLimits, Sampling, check_some_token_may_come
from outrider.protocol.errors import InvalidField
from outrider.protocol.logit_rules import MAX_LISTED, LogitRules, TokenHistory
from outrider.v1 import decoding_pb2

ALL = LogitRules(1.5, -0.5, 0.25, ((3, -1.5), (7, 2.0)), (3, 7, 9), (9,))


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("repetition_penalty", 0.0, "repetition_penalty"),
        ("repetition_penalty", -1.0, "repetition_penalty"),
        ("repetition_penalty", 10.5, "repetition_penalty"),
        ("repetition_penalty", math.nan, "repetition_penalty"),
        ("repetition_penalty", math.inf, "repetition_penalty"),
        ("presence_penalty", 2.1, "presence_penalty"),
        ("presence_penalty", math.nan, "presence_penalty"),
        ("frequency_penalty", -2.1, "frequency_penalty"),
        ("frequency_penalty", math.inf, "frequency_penalty"),
        ("logit_bias", ((5, 101.0),), "logit_bias[5]"),
        ("logit_bias", ((1, 0.0), (6, math.nan)), "logit_bias[6]"),
        ("banned_token_ids", tuple(range(MAX_LISTED + 1)), "banned_token_ids"),
    ],
)
def test_a_value_out_of_range_names_its_field(field, value, named):
    with pytest.raises(InvalidField) as caught:
        LogitRules(**{field: value})
    assert caught.value.field == f"sampling.{named}"


def test_something_must_be_left():
    with pytest.raises(InvalidField, match="all of them are banned"):
        LogitRules(allowed_token_ids=(1, 2), banned_token_ids=(0, 1, 2))
    ends = LogitRules(allowed_token_ids=(1, 2, 5), banned_token_ids=(5,))
    limits = DecodeLimits(9, stop_token_ids=(2,), min_new_tokens=3)
    check_some_token_may_come(ends, limits, ())
    with pytest.raises(InvalidField, match="min_new_tokens"):
        check_some_token_may_come(ends, limits, (1,))
    check_some_token_may_come(ends, DecodeLimits(9, (2,), ignore_eos=True, min_new_tokens=3), (1,))
    check_some_token_may_come(ends, DecodeLimits(9, (2,)), (1,))


def test_rules_survive_the_proto():
    for rules in (ALL, LogitRules()):
        sampling = Sampling(0.7, seed=3, rules=rules)
        assert Sampling.from_proto(sampling.to_proto()) == sampling
    neutral = decoding_pb2.Sampling(repetition_penalty=1, presence_penalty=0, frequency_penalty=0)
    assert Sampling.from_proto(neutral) == Sampling()


def test_what_is_off_is_neutral():
    assert LogitRules().is_neutral
    for one in (
        LogitRules(repetition_penalty=1.1),
        LogitRules(presence_penalty=0.1),
        LogitRules(frequency_penalty=-0.1),
        LogitRules(logit_bias=((0, 1.0),)),
        LogitRules(allowed_token_ids=(0,)),
        LogitRules(banned_token_ids=(0,)),
    ):
        assert not one.is_neutral
    assert ALL.counts_tokens
    assert not LogitRules(banned_token_ids=(0,)).counts_tokens


def test_history_counts_the_answer_and_remembers_the_prompt():
    history = TokenHistory([4, 4, 5, 6, 6, 4], prompt_length=3)
    assert history.prompt_ids == {4, 5}
    assert dict(history.counts) == {6: 2, 4: 1}
    assert dict(history.counts_behind([6, 9])) == {6: 3, 4: 1, 9: 1}
    history.extend([5])
    assert dict(history.counts_behind([])) == {6: 2, 4: 1, 5: 1}
