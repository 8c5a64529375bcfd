"""JSON bodies: strict form, and the same request as over gRPC."""

import json
from typing import Any

import pytest

from gateway.http_body import GenerateBody
from gateway.json_body import body_in_openapi, read_json
from gateway.tgi_body import TgiBody
from outrider.protocol.errors import InvalidField
from outrider.v1 import decoding_pb2, generation_pb2


def to_proto(**fields: Any) -> generation_pb2.GenerateRequest:
    return read_json(GenerateBody, json.dumps(fields).encode()).to_proto()


def test_a_full_body_is_the_same_request_as_over_grpc() -> None:
    request = to_proto(
        chat=[{"role": "user", "content": "hi"}],
        sampling={"temperature": 1, "top_p": 0.5, "top_k": 3, "min_p": 0.25, "seed": 2**64 - 1},
        limits={"max_new_tokens": 0, "stop": ["a"], "stop_token_ids": [4], "ignore_eos": True},
        speculation={"method": "ngram", "max_nodes": 5, "depth": 2, "parallel_degree": 2},
        logprobs=True,
        request_id="r",
    )
    assert request == generation_pb2.GenerateRequest(
        chat=generation_pb2.Chat(messages=[generation_pb2.ChatMessage(role="user", content="hi")]),
        sampling=decoding_pb2.Sampling(
            temperature=1.0, top_p=0.5, top_k=3, min_p=0.25, seed=2**64 - 1
        ),
        limits=generation_pb2.Limits(
            max_new_tokens=0, stop=["a"], stop_token_ids=[4], ignore_eos=True
        ),
        speculation=decoding_pb2.Speculation(
            method="ngram", max_nodes=5, depth=2, parallel_degree=2
        ),
        logprobs=True,
        request_id="r",
    )


def test_what_is_absent_stays_absent() -> None:
    request = to_proto(prompt="x")
    assert not request.sampling.HasField("temperature")
    assert not request.limits.HasField("max_new_tokens")
    assert not request.speculation.HasField("depth")


@pytest.mark.parametrize(("name", "value"), [("prompt", ""), ("token_ids", []), ("chat", [])])
def test_an_empty_input_is_still_that_input(name: str, value: Any) -> None:
    assert to_proto(**{name: value}).WhichOneof("input") == name


def test_short_forms_are_the_nested_fields() -> None:
    assert to_proto(prompt="x", max_new_tokens=5, temperature=0.5, seed=9) == to_proto(
        prompt="x", limits={"max_new_tokens": 5}, sampling={"temperature": 0.5, "seed": 9}
    )


def test_a_short_form_beside_its_field_is_refused() -> None:
    with pytest.raises(InvalidField, match=r"sampling\.seed") as caught:
        to_proto(prompt="x", seed=1, sampling={"seed": 1})
    assert caught.value.field == "seed"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"prompt": "x", "token_ids": [1]}, "body"),
        ({"prompt": "x", "surprise": 1}, "surprise"),
        ({"prompt": "x", "sampling": {"chat_template": "x"}}, "sampling.chat_template"),
        ({"prompt": 1}, "prompt"),
        ({"token_ids": [1, -1]}, "token_ids[1]"),
        ({"token_ids": [2**32]}, "token_ids[0]"),
        ({"token_ids": [True]}, "token_ids[0]"),
        ({"token_ids": [1.5]}, "token_ids[0]"),
        ({"chat": [{"role": "user", "content": None}]}, "chat[0].content"),
        ({"chat": [{"role": "robot", "content": ""}]}, "chat[0].role"),
        ({"prompt": "x", "stream": "yes"}, "stream"),
        ({"prompt": "x", "max_new_tokens": -1}, "max_new_tokens"),
        ({"prompt": "x", "max_new_tokens": 2**63 - 1}, "max_new_tokens"),
        ({"prompt": "x", "seed": 2**64}, "seed"),
        ({"prompt": "x", "seed": "abc"}, "seed"),
        ({"prompt": "x", "seed": 1.0}, "seed"),
        ({"prompt": "x", "sampling": {"top_k": -5}}, "sampling.top_k"),
        ({"prompt": "x", "sampling": {"logit_bias": {"a": 1}}}, "sampling.logit_bias"),
        ({"prompt": "x", "sampling": {"logit_bias": {"-1": 1}}}, "sampling.logit_bias"),
        ({"prompt": "x", "sampling": {"grammar": {}}}, "sampling.grammar"),
        (
            {"prompt": "x", "sampling": {"grammar": {"regex": "a", "lark": "b"}}},
            "sampling.grammar",
        ),
        ({"prompt": "x", "sampling": {"grammar": {"regex": 3}}}, "sampling.grammar.regex"),
        ({"prompt": "x", "speculation": {"depth": -1}}, "speculation.depth"),
        ([], "body"),
        ("text", "body"),
    ],
)
def test_a_bad_form_names_its_field(body: Any, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read_json(GenerateBody, json.dumps(body).encode()).to_proto()
    assert caught.value.field == field


def test_a_schema_may_be_an_object_or_its_text() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    for given in (schema, json.dumps(schema)):
        request = to_proto(prompt="x", sampling={"grammar": {"json_schema": given}})
        assert json.loads(request.sampling.grammar.json_schema) == schema
    assert not to_proto(prompt="x").sampling.HasField("grammar")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"prompt": "x"} y',
        b'{"prompt": "x", "prompt": "y"}',
        b'{"sampling": {"seed": 1, "seed": 1}, "prompt": "x"}',
        b'{"prompt": "x", "temperature": NaN}',
        b'{"prompt": "x", "temperature": -Infinity}',
        b'{"prompt": "x", "temperature": 1e400}',
        b'{"prompt": "x", "seed": ' + b"1" * 100_000 + b"}",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"prompt": "\xff"}',
        '{"prompt": "x"}'.encode("utf-16"),
        b'\xef\xbb\xbf{"prompt": "x"}',
        rb'{"prompt": "\ud800"}',
        rb'{"chat": [{"role": "user", "content": "\udc00"}]}',
    ],
)
def test_what_is_not_json_in_unicode_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidField):
        read_json(GenerateBody, data).to_proto()


def test_the_schema_stands_on_its_own() -> None:
    told = body_in_openapi(GenerateBody, TgiBody)
    assert "$ref" not in json.dumps(told)
    schema, other = told["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    assert "parameters" in other["properties"]
    assert schema["properties"]["sampling"]["properties"]["seed"]["anyOf"][0]["minimum"] == 0
