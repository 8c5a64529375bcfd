"""JSON bodies end at the first thing that is wrong, and name it in few words."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.http_body import GenerateBody
from gateway.json_body import MAX_ENTRIES, read_json, read_logit_bias
from gateway.openai_body import ChatBody, CompletionBody
from outrider.protocol.errors import InvalidField

CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("cls", "body"),
    [
        (GenerateBody, {"chat": [{}] * 1000}),
        (GenerateBody, {"token_ids": [-1] * 1000}),
        (GenerateBody, {"prompt": "x", **{f"x{i}": 1 for i in range(1000)}}),
        (GenerateBody, {"prompt": "x", "limits": {"stop": [1] * 1000}}),
        (ChatBody, {**CHAT, "messages": [1] * 1000}),
        (ChatBody, {**CHAT, "messages": [{"role": "user", "content": [{}] * 1000}]}),
        (CompletionBody, {"model": "m", "prompt": [[None]] * 1000}),
    ],
    ids=range(7),
)
def test_a_thousand_errors_are_not_collected(cls: type[Any], body: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        cls.model_validate(body)
    assert caught.value.error_count() < 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"chat":[' + "{}," * MAX_ENTRIES + "{}]}", "body: .*more than 100000 objects and keys"),
        ("[" * 100_000, "body: .*nested too deeply"),
        ('{"prompt": "x", "' + "y" * 1000 + '": 1}', r"^y{64}: is not a known field$"),
        ('{"prompt": "x", "chat_template": "y"}', "chat_template: templates are not taken from"),
        ('{"prompt": "x", "temperature": 1e400}', "temperature: "),
        ('{"prompt": "x", "temperature": 1' + "0" * 400 + "}", "temperature: "),
        ('{"prompt": "x", "seed": ' + "9" * 5000 + "}", "body: is not valid JSON"),
    ],
    ids=range(7),
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words) as caught:
        read_json(GenerateBody, text.encode())
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    "key", ["", "a", "-1", "1.0", "+1", "٣", "4294967296", "9" * 5000, "0" * 5000]
)
def test_keys_of_a_bias_are_token_ids(key: str) -> None:
    with pytest.raises(InvalidField, match="logit_bias: keys must be token ids"):
        read_logit_bias("logit_bias", {key: 1.0})


@pytest.mark.parametrize("value", [None, "1", True, [1], float("inf"), float("nan"), 10**400])
def test_values_of_a_bias_are_numbers(value: Any) -> None:
    with pytest.raises(InvalidField, match=r"logit_bias\[5\]: must be a number"):
        read_logit_bias("logit_bias", {"5": value})


def test_a_bias_is_read() -> None:
    assert read_logit_bias("b", json.loads('{"0": 1, "4294967295": -0.5}')) == {
        0: 1.0,
        2**32 - 1: -0.5,
    }
    assert read_logit_bias("b", None) == {}
