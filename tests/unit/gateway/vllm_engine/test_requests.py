"""What a router asks is the request that our own API carries."""

import re
from typing import Any

import pytest
from smg_grpc_proto.generated.vllm_engine_pb2 import (
    ChoiceConstraint,
    GenerateRequest,
    KvTransferParams,
    MediaRefs,
    MultimodalInputs,
    SamplingParams,
    TokenizedInput,
)

from gateway.vllm_engine.requests import to_request
from outrider.protocol.errors import InvalidField, NotSupported
from outrider.v1 import generation_pb2


def asked(**params: Any) -> GenerateRequest:
    return GenerateRequest(
        request_id="r1",
        tokenized=TokenizedInput(input_ids=[5, 6], original_text="hi"),
        sampling_params=SamplingParams(**params),
    )


def test_ids_go_as_they_are() -> None:
    ours = to_request(asked())
    assert list(ours.token_ids.ids) == [5, 6]
    assert ours.request_id == "r1"


def test_text_is_a_prompt() -> None:
    assert to_request(GenerateRequest(text="hi")).prompt == "hi"


def test_without_an_input_there_is_nothing_to_do() -> None:
    with pytest.raises(InvalidField, match="input: one of"):
        to_request(GenerateRequest())


def test_zero_is_not_set_where_the_other_api_has_no_word_for_that() -> None:
    sampling = to_request(asked()).sampling
    assert sampling.temperature == 1.0
    told = {field.name for field, _ in sampling.ListFields()}
    assert told.isdisjoint({"top_p", "top_k", "repetition_penalty", "seed", "grammar"})
    assert not to_request(asked()).limits.HasField("max_new_tokens")


def test_what_is_set_arrives() -> None:
    ours = to_request(
        asked(
            temperature=0.0, top_p=0.5, top_k=7, min_p=0.25, frequency_penalty=0.5,
            presence_penalty=-0.5, repetition_penalty=1.5, max_tokens=9, min_tokens=2,
            stop=["x"], stop_token_ids=[3], ignore_eos=True, n=2, logprobs=4, seed=11,
            logit_bias={4: -1.5},
        )
    )  # fmt: skip
    sampling = ours.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (
        0,
        0.5,
        7,
        0.25,
    )
    assert (sampling.frequency_penalty, sampling.presence_penalty) == (0.5, -0.5)
    assert (sampling.repetition_penalty, sampling.seed) == (1.5, 11)
    assert dict(sampling.logit_bias) == {4: -1.5}
    assert ours.limits == generation_pb2.Limits(
        max_new_tokens=9, min_new_tokens=2, stop=["x"], stop_token_ids=[3], ignore_eos=True
    )
    assert (ours.n, ours.logprobs, ours.top_logprobs) == (2, True, 4)


@pytest.mark.parametrize(
    ("params", "kind", "text"),
    [
        ({"json_schema": "{}"}, "json_schema", "{}"),
        ({"regex": "a+"}, "regex", "a+"),
        ({"grammar": "start: /a/"}, "lark", "start: /a/"),
        ({"json_object": True}, "json_schema", '{"type": "object"}'),
    ],
)
def test_constraints_are_grammars(params: dict[str, Any], kind: str, text: str) -> None:
    grammar = to_request(asked(**params)).sampling.grammar
    assert grammar.WhichOneof("kind") == kind
    assert getattr(grammar, kind) == text


def test_a_choice_is_one_of_its_texts_whatever_they_are() -> None:
    choices = ["yes", "no.", "(a|b)"]
    regex = to_request(asked(choice=ChoiceConstraint(choices=choices))).sampling.grammar.regex
    assert all(re.fullmatch(regex, choice) for choice in choices)
    assert not re.fullmatch(regex, "nox")
    with pytest.raises(InvalidField, match="choice: at least one"):
        to_request(asked(choice=ChoiceConstraint()))


def test_no_object_is_asked_for_where_that_is_false() -> None:
    assert not to_request(asked(json_object=False)).sampling.HasField("grammar")


@pytest.mark.parametrize(
    "params",
    [
        {"include_stop_str_in_output": True},
        {"truncate_prompt_tokens": 4},
        {"prompt_logprobs": 1},
        {"structural_tag": "x"},
    ],
)
def test_what_would_change_the_answer_is_refused_by_name(params: dict[str, Any]) -> None:
    with pytest.raises(NotSupported, match=f"sampling_params.{next(iter(params))}"):
        to_request(asked(**params))


@pytest.mark.parametrize(
    "fields",
    [
        {"mm_inputs": MultimodalInputs()},
        {"extra_mm_inputs": [MultimodalInputs()]},
        {"media_refs": MediaRefs()},
        {"kv_transfer_params": KvTransferParams()},
        {"kv_transfer_params_json": "{}"},
    ],
)
def test_media_and_rows_of_others_are_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(NotSupported, match=next(iter(fields))):
        to_request(GenerateRequest(text="hi", **fields))


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"seed": -1}, "seed"),
        ({"logprobs": -1}, "logprobs"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias"),
    ],
)
def test_negative_numbers_are_named(params: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidField, match=f"sampling_params.{name}: must not be negative"):
        to_request(asked(**params))
