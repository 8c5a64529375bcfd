import math

import pytest

from outrider.protocol.decoding import DecodeLimits, Sampling, Speculation, check_token_ids
from outrider.protocol.errors import ErrorCode, InvalidField
from outrider.v1 import decoding_pb2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", 1e308),
        ("top_p", 0.0),
        ("top_p", -1.0),
        ("top_p", 1.0001),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("min_p", math.nan),
        ("top_k", -5),
        ("seed", -1),
        ("seed", 2**64),
    ],
)
def test_a_value_out_of_range_names_its_field(field, value):
    with pytest.raises(InvalidField) as caught:
        Sampling(**{field: value})
    assert caught.value.field == f"sampling.{field}"
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize(("temperature", "is_greedy"), [(0.0, True), (1e-9, True), (0.01, False)])
def test_tiny_temperatures_are_greedy(temperature, is_greedy):
    assert Sampling(temperature=temperature).is_greedy is is_greedy


def test_sampling_survives_the_proto():
    sampling = Sampling(0.7, 0.9, 40, 0.05, 2**64 - 1)
    assert Sampling.from_proto(sampling.to_proto()) == sampling
    assert Sampling.from_proto(decoding_pb2.Sampling()) == Sampling()
    assert Sampling.from_proto(decoding_pb2.Sampling(top_k=10**9)).top_k == 10**9


@pytest.mark.parametrize("count", [0, -1, 2**31])
def test_max_new_tokens_range(count):
    with pytest.raises(InvalidField, match=r"limits\.max_new_tokens"):
        DecodeLimits(count)


def test_stop_token_ids_are_bounded():
    with pytest.raises(InvalidField, match=r"limits\.stop_token_ids"):
        DecodeLimits(1, tuple(range(65)))


@pytest.mark.parametrize("least", [-1, 8])
def test_the_least_length_is_no_more_than_the_greatest(least):
    with pytest.raises(InvalidField, match=r"limits\.min_new_tokens"):
        DecodeLimits(7, min_new_tokens=least)
    assert DecodeLimits(7, min_new_tokens=7).min_new_tokens == 7


def test_limits_survive_the_proto():
    limits = DecodeLimits(9, (3, 4), ignore_eos=True, min_new_tokens=2)
    assert DecodeLimits.from_proto(limits.to_proto()) == limits
    assert limits.ending_ids([0]) == {3, 4}
    assert DecodeLimits(9, (3,)).ending_ids([0]) == {0, 3}


@pytest.mark.parametrize("field", ["parallel_degree", "max_nodes", "depth"])
@pytest.mark.parametrize("value", [0, 10**6])
def test_speculation_range(field, value):
    with pytest.raises(InvalidField, match=rf"speculation\.{field}"):
        Speculation(**{field: value})


def test_speculation_survives_the_proto():
    speculation = Speculation("ngram", None, 3, None, disabled=True)
    assert Speculation.from_proto(speculation.to_proto()) == speculation
    lossy = Speculation(validation_threshold=0.9)
    assert Speculation.from_proto(lossy.to_proto()) == lossy
    assert Speculation.from_proto(decoding_pb2.Speculation()).validation_threshold == 1.0


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.1, math.nan])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(InvalidField, match="validation_threshold"):
        Speculation(validation_threshold=threshold)


@pytest.mark.parametrize("bad", [-1, 10, 2**31, 2**63 - 1])
def test_token_ids_name_the_index(bad):
    with pytest.raises(InvalidField, match=r"ids\[1\]: must be from 0 to 9"):
        check_token_ids("ids", [0, bad, 3], 10)
    check_token_ids("ids", [0, 9], 10)
    check_token_ids("ids", [], 10)
