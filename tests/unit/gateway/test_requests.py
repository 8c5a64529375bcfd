"""Every rule of a request, and the field that is named where it is broken."""

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.chat_template import ChatMessage
from gateway.requests import GenerationJob, RequestLimits, read_request
from gateway.tokenization import PromptTokenizer
from outrider.protocol.decoding import DecodeLimits, Speculation
from outrider.protocol.errors import ErrorCode, InvalidField
from outrider.protocol.logit_rules import LogitRules
from outrider.v1 import decoding_pb2, generation_pb2
from tests.unit.gateway.sample_model import CONTEXT_LIMIT, VOCAB_SIZE, sample_model
from tests.unit.gateway.tiny_tokenizer import ids_of, tiny_prompt_tokenizer, tiny_tokenizer

TOKENIZER = tiny_prompt_tokenizer()
DRAWN_SEED = 77


def bounds(default: int = 100, messages: int = 3, chars: int = 600) -> RequestLimits:
    return RequestLimits(default, messages, chars)


def read(request: generation_pb2.GenerateRequest, default: int = 100) -> GenerationJob:
    return read_request(request, sample_model(), TOKENIZER, bounds(default), DRAWN_SEED)


def prompt(text: str = "hello", **fields: Any) -> generation_pb2.GenerateRequest:
    return generation_pb2.GenerateRequest(prompt=text, **fields)


def sampling(**fields: Any) -> generation_pb2.GenerateRequest:
    return prompt(sampling=decoding_pb2.Sampling(**fields))


def limits(**fields: Any) -> generation_pb2.GenerateRequest:
    return prompt(limits=generation_pb2.Limits(**fields))


def speculation(**fields: Any) -> generation_pb2.GenerateRequest:
    return prompt(speculation=decoding_pb2.Speculation(**fields))


def ids(values: list[int]) -> generation_pb2.GenerateRequest:
    return generation_pb2.GenerateRequest(token_ids=generation_pb2.TokenIds(ids=values))


def chat(*messages: tuple[str, str]) -> generation_pb2.GenerateRequest:
    request = generation_pb2.GenerateRequest(chat=generation_pb2.Chat())
    for role, content in messages:
        request.chat.messages.add(role=role, content=content)
    return request


NAN, INF = float("nan"), float("inf")

REFUSED = [
    (generation_pb2.GenerateRequest(), "prompt"),
    (prompt(""), "prompt"),
    (ids([]), "token_ids.ids"),
    (ids([1, VOCAB_SIZE]), "token_ids.ids[1]"),
    (ids([2**31]), "token_ids.ids[0]"),
    (ids([1] * (CONTEXT_LIMIT + 1)), "token_ids"),
    (ids([1] * CONTEXT_LIMIT), "token_ids"),
    (prompt("x" * CONTEXT_LIMIT), "prompt"),
    (chat(), "chat.messages"),
    (chat(("user", "a"), ("tool", "b")), "chat.messages[1].role"),
    (chat(*[("user", "")] * 4097), "chat.messages"),
    (limits(max_new_tokens=CONTEXT_LIMIT), "limits.max_new_tokens"),
    (limits(max_new_tokens=2**32 - 1), "limits.max_new_tokens"),
    (limits(stop=["a"] * 5), "limits.stop"),
    (limits(stop=["a", ""]), "limits.stop[1]"),
    (limits(stop=["é" * 129]), "limits.stop[0]"),
    (limits(stop_token_ids=[VOCAB_SIZE]), "limits.stop_token_ids[0]"),
    (limits(stop_token_ids=[1] * 65), "limits.stop_token_ids"),
    *((sampling(temperature=v), "sampling.temperature") for v in (-0.1, NAN, INF, 1e308, 100.1)),
    *((sampling(top_p=v), "sampling.top_p") for v in (0.0, -1.0, 1.0001, NAN)),
    *((sampling(min_p=v), "sampling.min_p") for v in (-0.1, 1.1, NAN)),
    *((sampling(presence_penalty=v), "sampling.presence_penalty") for v in (3.0, NAN)),
    *((sampling(frequency_penalty=v), "sampling.frequency_penalty") for v in (-3.0, INF)),
    *((sampling(repetition_penalty=v), "sampling.repetition_penalty") for v in (0.0, -1.0, NAN)),
    (sampling(logit_bias={VOCAB_SIZE: 1.0}), "sampling.logit_bias[0]"),
    (sampling(logit_bias={3: 200.0}), "sampling.logit_bias[3]"),
    (sampling(allowed_token_ids=[1, VOCAB_SIZE]), "sampling.allowed_token_ids[1]"),
    (sampling(banned_token_ids=[2**31]), "sampling.banned_token_ids[0]"),
    (sampling(allowed_token_ids=[5], banned_token_ids=[5]), "sampling.allowed_token_ids"),
    (prompt(logprobs=True, top_logprobs=21), "top_logprobs"),
    (prompt(top_logprobs=1), "top_logprobs"),
    (prompt(cache_salt="é" * 33), "cache_salt"),
    (prompt(n=17), "n"),
    (limits(max_new_tokens=3, min_new_tokens=4), "limits.min_new_tokens"),
    (limits(max_new_tokens=0, min_new_tokens=1), "limits.min_new_tokens"),
    (limits(min_new_tokens=10**6), "limits.min_new_tokens"),
    (speculation(method="magic"), "speculation.method"),
    (speculation(max_nodes=10**6), "speculation.max_nodes"),
    (speculation(max_nodes=33), "speculation.max_nodes"),
    (speculation(max_nodes=0), "speculation.max_nodes"),
    (speculation(depth=0), "speculation.depth"),
    (speculation(depth=9), "speculation.depth"),
    (speculation(parallel_degree=0), "speculation.parallel_degree"),
    (speculation(parallel_degree=65), "speculation.parallel_degree"),
    (speculation(validation_threshold=0.0), "speculation.validation_threshold"),
    (speculation(validation_threshold=NAN), "speculation.validation_threshold"),
    (prompt(request_id="a" * 129), "request_id"),
    (prompt(request_id="a\r\nb"), "request_id"),
    (prompt(request_id="é"), "request_id"),
]


@pytest.mark.parametrize(("request_", "field"), REFUSED)
def test_a_broken_rule_names_its_field(
    request_: generation_pb2.GenerateRequest, field: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        read(request_)
    assert caught.value.field == field
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_the_refusal_of_a_method_lists_the_known_ones() -> None:
    with pytest.raises(InvalidField, match="none, ngram"):
        read(speculation(method="magic"))


def test_the_defaults_are_greedy_within_the_context() -> None:
    job = read(prompt())
    assert job.prompt_token_ids == tuple(ids_of("hello"))
    assert job.sampling.is_greedy
    assert job.limits == DecodeLimits(100)
    assert job.speculation == Speculation()
    assert job.stop == ()


def test_the_default_length_is_cut_to_the_room() -> None:
    job = read(ids([1] * 500))
    assert job.limits is not None
    assert job.limits.max_new_tokens == CONTEXT_LIMIT - 500


@pytest.mark.parametrize("count", [1, 2, 7, CONTEXT_LIMIT - 1])
def test_a_length_that_fits_is_kept(count: int) -> None:
    job = read(limits(max_new_tokens=count))
    assert job.limits is not None
    assert job.limits.max_new_tokens == count


@pytest.mark.parametrize("prompt_count", [1, CONTEXT_LIMIT])
def test_no_new_tokens_is_a_job_without_limits(prompt_count: int) -> None:
    request = ids([1] * prompt_count)
    request.limits.max_new_tokens = 0
    assert read(request).limits is None


def test_a_least_length_beyond_the_default_lengthens_the_answer() -> None:
    job = read(limits(min_new_tokens=150))
    assert job.limits == DecodeLimits(150, min_new_tokens=150)


def test_rules_of_the_logits_are_kept() -> None:
    job = read(
        sampling(repetition_penalty=1.25, logit_bias={7: 1.5, 2: -1.0}, banned_token_ids=[4])
    )
    assert job.sampling.rules == LogitRules(
        repetition_penalty=1.25, logit_bias=((2, -1.0), (7, 1.5)), banned_token_ids=(4,)
    )


def test_an_absent_seed_is_drawn_only_where_there_is_noise() -> None:
    assert read(sampling(temperature=1.0)).sampling.seed == DRAWN_SEED
    assert read(sampling(temperature=1.0, seed=0)).sampling.seed == 0
    assert read(sampling(temperature=1.0, seed=2**64 - 1)).sampling.seed == 2**64 - 1
    assert read(prompt()).sampling.seed == 0


def test_edges_of_ranges_are_kept() -> None:
    job = read(sampling(temperature=1e-9, top_p=1.0, top_k=10**9, min_p=1.0))
    assert job.sampling.is_greedy
    assert job.sampling.top_k == 10**9
    assert read(speculation(max_nodes=32, depth=8, parallel_degree=64)).speculation.max_nodes == 32
    assert read(speculation(method="none", validation_threshold=1.0)).speculation.method == "none"
    assert read(speculation(validation_threshold=0.5)).speculation.validation_threshold == 0.5
    assert read(limits(stop=["a" * 256] * 4)).stop == ("a" * 256,) * 4
    assert read(sampling(repetition_penalty=1.0, presence_penalty=0.0)).sampling.is_greedy


@pytest.mark.parametrize("text", ["a\x00b", "\u202eabc", "🙂"])
def test_any_unicode_text_is_a_prompt(text: str) -> None:
    assert read(prompt(text)).prompt_token_ids == tuple(ids_of(text))


def test_a_conversation_is_rendered_with_the_template() -> None:
    expected = tiny_tokenizer().encode("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert read(chat(("user", "hi"))).prompt_token_ids == tuple(expected.ids)


def test_a_conversation_needs_a_template() -> None:
    without = PromptTokenizer(tiny_tokenizer())
    with pytest.raises(InvalidField, match="no chat template"):
        read_request(chat(("user", "hi")), sample_model(), without, bounds(), 0)


class Untouched:
    """An encoder that must not be asked."""

    has_chat_template = True

    def encode_prompt(self, text: str) -> list[int]:
        raise AssertionError(text)

    def encode_chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        raise AssertionError(messages)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (prompt("x" * 601), "prompt: has 601 characters, at most 600"),
        (chat(("user", "x" * 300), ("user", "y" * 301)), "chat: has 601 characters, at most 600"),
        (chat(*[("user", "x")] * 4), "chat.messages: must have 1 to 3 messages, got 4"),
    ],
    ids=range(3),
)
def test_what_is_too_large_is_not_tokenised(
    request_: generation_pb2.GenerateRequest, words: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        read_request(request_, sample_model(), Untouched(), bounds(), 0)
    assert caught.value.message == words


def test_a_jobs_text_is_not_in_its_repr() -> None:
    assert "secret" not in repr(read(limits(stop=["secret"])))


def test_a_salt_is_kept_as_bytes() -> None:
    assert read(prompt(cache_salt="é" * 32)).cache_salt == "é".encode() * 32
    assert read(prompt()).cache_salt == b""


def test_each_choice_has_a_seed_of_its_own() -> None:
    request = sampling(temperature=1.0, seed=2**64 - 2)
    request.n = 3
    job = read(request)
    assert job.choices == 3
    assert [job.choice(i).sampling.seed for i in range(3)] == [2**64 - 2, 2**64 - 1, 0]
    assert job.choice(0).choices == 1
    assert read(prompt()).choices == 1
