"""Answers in the shape of TGI, token by token."""

from typing import Any

import pytest

from gateway.http_errors import HttpError, http_error
from gateway.tgi_messages import TgiAnswer, TgiVocabulary, tgi_error_body, tgi_error_status
from outrider.protocol.errors import (
    DeadlineExceeded,
    Forbidden,
    InvalidField,
    NotSupported,
    OutriderError,
    QueueFull,
)
from outrider.v1 import decoding_pb2, generation_pb2
from tests.unit.gateway.tiny_tokenizer import EOS_ID, IM_END, ids_of, tiny_prompt_tokenizer

TOKENIZER = tiny_prompt_tokenizer()
VOCABULARY = TgiVocabulary(TOKENIZER.pieces, TOKENIZER.special_tokens, frozenset({EOS_ID}))
STOP, LENGTH = decoding_pb2.FINISH_REASON_STOP, decoding_pb2.FINISH_REASON_LENGTH


def message(*ids: int, reason: Any = 0) -> generation_pb2.GenerateResponse:
    return generation_pb2.GenerateResponse(
        token_ids=ids, log_probs=[-1.0] * len(ids), finish_reason=reason
    )


def answer(**fields: Any) -> TgiAnswer:
    defaults: dict[str, Any] = {"opening": "", "has_details": True, "seed": None}
    return TgiAnswer(VOCABULARY, **defaults | fields)


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    first, *rest = ids_of("\N{SLIGHTLY SMILING FACE}")
    told = answer()
    events = [*told.events(message(first)), *told.events(message(*rest, reason=LENGTH))]
    texts = [event["token"]["text"] for event in events]
    assert texts == [""] * len(rest) + ["\N{SLIGHTLY SMILING FACE}"]
    assert [event["index"] for event in events] == list(range(1, len(texts) + 1))
    assert events[-1]["generated_text"] == "\N{SLIGHTLY SMILING FACE}"
    assert events[-1]["details"]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("ids", "reason", "told"),
    [
        ([*ids_of("a"), EOS_ID], STOP, "eos_token"),
        (ids_of("ab"), STOP, "stop_sequence"),
        (ids_of("ab"), LENGTH, "length"),
    ],
)
def test_why_it_ended(ids: list[int], reason: Any, told: str) -> None:
    details = answer(seed=5).whole(message(*ids, reason=reason))["details"]
    assert (details["finish_reason"], details["generated_tokens"]) == (told, 2)
    assert details["seed"] == 5


def test_special_tokens_have_a_name_and_add_no_text() -> None:
    whole = answer(opening="q: ").whole(message(*ids_of("a"), EOS_ID, reason=STOP))
    assert whole["generated_text"] == "q: a"
    token = whole["details"]["tokens"][-1]
    assert token == {"id": EOS_ID, "text": IM_END, "logprob": -1.0, "special": True}


def test_without_details_there_are_none() -> None:
    assert answer(has_details=False).whole(message(5, reason=LENGTH)).keys() == {"generated_text"}
    (event,) = answer(has_details=False).events(message(5, reason=LENGTH))
    assert event["details"] is None


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidField("n", "is bad"), 422, "validation"),
        (NotSupported("n", "is not done"), 422, "validation"),
        (QueueFull("full"), 429, "overloaded"),
        (DeadlineExceeded("late"), 504, "generation"),
        (Forbidden("not this"), 403, "permission_denied"),
    ],
)
def test_errors(error: OutriderError, status: int, kind: str) -> None:
    told: HttpError = http_error(error)
    assert tgi_error_status(told) == status
    assert tgi_error_body(told) == {"error": error.message, "error_type": kind}
