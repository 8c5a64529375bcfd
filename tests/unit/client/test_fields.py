"""Keywords to a request: each field of the API has one, and a bad value names it."""

import json
from typing import Any

import pytest

from outrider.client.fields import RequestFields, build_request, check_single
from outrider.protocol.errors import InvalidField
from outrider.v1 import decoding_pb2, generation_pb2

RENAMED = {"disabled": "speculation_disabled"}
GROUPS = {"sampling", "limits", "speculation", "grammar", "input"}


def test_every_field_of_the_api_has_a_keyword() -> None:
    names: set[str] = set()
    for message in (
        generation_pb2.GenerateRequest,
        generation_pb2.Limits,
        decoding_pb2.Sampling,
        decoding_pb2.Speculation,
        decoding_pb2.Grammar,
    ):
        names |= {field.name for field in message.DESCRIPTOR.fields}
    assert {RENAMED.get(name, name) for name in names - GROUPS} == set(
        RequestFields.__annotations__
    )


def test_each_keyword_reaches_its_field() -> None:
    request = build_request(
        {
            "prompt": "hi",
            "temperature": 0.5,
            "seed": 0,
            "logit_bias": {7: -1.5},
            "banned_token_ids": [1, 2],
            "max_new_tokens": 0,
            "stop": ["a", "b"],
            "ignore_eos": True,
            "method": "ngram",
            "depth": 3,
            "speculation_disabled": True,
            "logprobs": True,
            "n": 2,
            "cache_salt": "s",
        }
    )
    assert request == generation_pb2.GenerateRequest(
        prompt="hi",
        sampling=decoding_pb2.Sampling(
            temperature=0.5, seed=0, logit_bias={7: -1.5}, banned_token_ids=[1, 2]
        ),
        limits=generation_pb2.Limits(max_new_tokens=0, stop=["a", "b"], ignore_eos=True),
        speculation=decoding_pb2.Speculation(method="ngram", depth=3, disabled=True),
        logprobs=True,
        n=2,
        cache_salt="s",
    )
    assert request.sampling.HasField("seed")
    assert request.limits.HasField("max_new_tokens")


def test_none_is_absent() -> None:
    assert build_request({"prompt": "hi", "seed": None, "stop": None}) == (
        generation_pb2.GenerateRequest(prompt="hi")
    )


def test_the_three_kinds_of_input() -> None:
    assert build_request({"token_ids": [3, 4]}).token_ids.ids == [3, 4]
    assert build_request({"token_ids": []}).WhichOneof("input") == "token_ids"
    one = build_request({"chat": "hi"}).chat.messages
    assert [(message.role, message.content) for message in one] == [("user", "hi")]
    conversation = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]
    two = build_request({"chat": conversation}).chat.messages  # type: ignore[typeddict-item]
    assert [message.role for message in two] == ["system", "user"]


@pytest.mark.parametrize("schema", [{"type": "object"}, '{"type": "object"}'])
def test_a_schema_is_an_object_or_its_text(schema: Any) -> None:
    sent = build_request({"json_schema": schema}).sampling.grammar.json_schema
    assert json.loads(sent) == {"type": "object"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", -1),
        ("max_new_tokens", 1.5),
        ("seed", 2**64),
        ("temperature", "hot"),
        ("prompt", 5),
        ("prompt", "\ud800"),
        ("stop", "one text"),
        ("token_ids", ["a"]),
        ("chat", [{"rolle": "user"}]),
        ("chat", ["hi"]),
        ("logit_bias", [1]),
    ],
)
def test_a_bad_value_names_its_field(name: str, value: Any) -> None:
    with pytest.raises(InvalidField) as caught:
        build_request({name: value})  # type: ignore[misc]
    assert caught.value.field == name


def test_a_field_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="max_tokens"):
        build_request({"max_tokens": 5})  # type: ignore[typeddict-unknown-key]


def test_one_answer_is_not_several() -> None:
    check_single({"n": 1})
    check_single({})
    with pytest.raises(InvalidField, match="n: "):
        check_single({"n": 2})
