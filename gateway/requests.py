"""Turns a client's request into a checked job, or says which field breaks which rule.

Every range of protos/outrider/v1/generation.proto is enforced here, for gRPC and HTTP alike.
Policy: no clock, no randomness, no I/O; the tokenizer and the seed are arguments.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gateway.chat_template import ChatMessage
from gateway.served_model import ServedModel
from outrider.protocol.decoding import (
    MAX_SEED,
    MAX_TOP_LOG_PROBS,
    DecodeLimits,
    Sampling,
    Speculation,
    check_some_token_may_come,
    check_token_ids,
)
from outrider.protocol.errors import InvalidField
from outrider.protocol.messages import check_cache_salt
from outrider.v1 import decoding_pb2, generation_pb2

MAX_STOP_STRINGS = 4
MAX_STOP_BYTES = 256
MAX_REQUEST_ID_LENGTH = 128
MAX_CHOICES = 16
ROLES = ("system", "user", "assistant")


class PromptEncoder(Protocol):
    """What a prompt is tokenised with."""

    @property
    def has_chat_template(self) -> bool:
        """True where `encode_chat` can be called."""

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a plain prompt."""

    def encode_chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        """Ids of a conversation, up to where the assistant's answer begins."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a request may hold, where the protocol sets no bound, and what it gets by default.

    Args:
        default_max_new_tokens: Used where the request names none, cut to the room in the context.
        max_messages: Of a conversation.
        max_prompt_chars: Of a prompt, or of all messages together.
    """

    default_max_new_tokens: int
    max_messages: int
    max_prompt_chars: int


@dataclass(frozen=True, slots=True)
class GenerationJob:
    """A request that keeps every rule.

    Args:
        prompt_token_ids: At least one id, each in the vocabulary.
        sampling: The seed is set where temperature is above 0.
        limits: None where max_new_tokens is 0: nothing to generate.
        stop: Stop strings.
        speculation: Within what the draft worker can do.
        logprobs: True: log-probabilities are wanted.
        top_logprobs: Likeliest tokens wanted beside each one.
        request_id: The client's own name for the request; only echoed.
        cache_salt: Cached rows are shared with requests of the same salt only.
        choices: Answers that are wanted.
        report_rounds: True: the rounds' trees are wanted.
    """

    prompt_token_ids: tuple[int, ...] = field(repr=False)
    sampling: Sampling
    limits: DecodeLimits | None
    stop: tuple[str, ...] = field(repr=False)
    speculation: Speculation
    logprobs: bool
    top_logprobs: int
    request_id: str
    cache_salt: bytes = b""
    choices: int = 1
    report_rounds: bool = False

    def of_tenant(self, tenant: str) -> "GenerationJob":
        """The same job, whose salt is told apart from those of other tenants."""
        if not tenant:
            return self
        salt = hashlib.blake2b(self.cache_salt, key=tenant.encode(), digest_size=16).digest()
        return replace(self, cache_salt=salt)

    def choice(self, number: int) -> "GenerationJob":
        """One of the answers as a job of its own."""
        seed = (self.sampling.seed + number) % (MAX_SEED + 1)
        return replace(self, sampling=replace(self.sampling, seed=seed), choices=1)


def read_request(
    request: generation_pb2.GenerateRequest,
    model: ServedModel,
    encoder: PromptEncoder,
    bounds: RequestLimits,
    drawn_seed: int,
) -> GenerationJob:
    """Checks a request and tokenises its prompt.

    Args:
        request: As it came in.
        model: What is served.
        encoder: Tokenises the prompt.
        bounds: What it may hold.
        drawn_seed: Used where the request names none, 0 to 2**64 - 1.

    Returns:
        The job.

    Raises:
        InvalidField: A field is missing or breaks a rule.
    """
    _check_request_id(request.request_id)
    sampling = _read_sampling(request.sampling, drawn_seed, model.vocab_size)
    speculation = _read_speculation(request.speculation, model)
    stop = _read_stop(request.limits.stop)
    stop_token_ids = tuple(request.limits.stop_token_ids)
    check_token_ids("limits.stop_token_ids", stop_token_ids, model.vocab_size)
    field_name, prompt_token_ids = _read_prompt(request, model, encoder, bounds)
    max_new_tokens = _max_new_tokens(
        request.limits, field_name, len(prompt_token_ids), model, bounds.default_max_new_tokens
    )
    limits = None
    if max_new_tokens:
        limits = DecodeLimits(
            max_new_tokens, stop_token_ids, request.limits.ignore_eos, request.limits.min_new_tokens
        )
        check_some_token_may_come(sampling.rules, limits, model.eos_token_ids)
    elif request.limits.min_new_tokens:
        raise InvalidField("limits.min_new_tokens", "must be 0 where max_new_tokens is 0")
    return GenerationJob(
        prompt_token_ids=tuple(prompt_token_ids),
        sampling=sampling,
        limits=limits,
        stop=stop,
        speculation=speculation,
        logprobs=request.logprobs,
        top_logprobs=_read_top_logprobs(request),
        request_id=request.request_id,
        cache_salt=_read_cache_salt(request.cache_salt),
        choices=_read_choices(request.n),
        report_rounds=request.report_rounds,
    )


def _check_request_id(request_id: str) -> None:
    if len(request_id) > MAX_REQUEST_ID_LENGTH or not all(" " <= c <= "~" for c in request_id):
        raise InvalidField(
            "request_id", f"must be up to {MAX_REQUEST_ID_LENGTH} printable ASCII characters"
        )


def _read_sampling(proto: decoding_pb2.Sampling, drawn_seed: int, vocab_size: int) -> Sampling:
    sampling = Sampling.from_proto(proto)
    for name, token_ids in sampling.rules.named_token_ids().items():
        check_token_ids(name, token_ids, vocab_size)
    if len({*sampling.rules.banned_token_ids}) >= vocab_size:
        raise InvalidField("sampling.banned_token_ids", "all tokens are banned")
    if sampling.temperature > 0 and not proto.HasField("seed"):
        return replace(sampling, seed=drawn_seed)
    return sampling


def _read_speculation(proto: decoding_pb2.Speculation, model: ServedModel) -> Speculation:
    if proto.method and proto.method not in model.methods:
        known = ", ".join(model.methods)
        raise InvalidField("speculation.method", f"must be one of {known}")
    for name, value, limit in (
        ("max_nodes", proto.max_nodes, model.max_nodes),
        ("depth", proto.depth, model.max_depth),
    ):
        if value > limit:
            raise InvalidField(f"speculation.{name}", f"must be from 1 to {limit}, got {value}")
    return Speculation.from_proto(proto)


def _read_top_logprobs(request: generation_pb2.GenerateRequest) -> int:
    count = request.top_logprobs
    if count > MAX_TOP_LOG_PROBS:
        raise InvalidField("top_logprobs", f"must be from 0 to {MAX_TOP_LOG_PROBS}, got {count}")
    if count and not request.logprobs:
        raise InvalidField("top_logprobs", "needs logprobs to be true")
    return count


def _read_choices(count: int) -> int:
    if count > MAX_CHOICES:
        raise InvalidField("n", f"must be from 1 to {MAX_CHOICES}, got {count}")
    return count or 1


def _read_cache_salt(salt: str) -> bytes:
    encoded = salt.encode()
    check_cache_salt(encoded)
    if not salt.isprintable():
        raise InvalidField("cache_salt", "must have no control characters")
    return encoded


def _read_stop(strings: Sequence[str]) -> tuple[str, ...]:
    if len(strings) > MAX_STOP_STRINGS:
        raise InvalidField("limits.stop", f"at most {MAX_STOP_STRINGS}, got {len(strings)}")
    for index, string in enumerate(strings):
        size = len(string.encode())
        if not 1 <= size <= MAX_STOP_BYTES:
            raise InvalidField(
                f"limits.stop[{index}]", f"must have 1 to {MAX_STOP_BYTES} bytes, got {size}"
            )
    return tuple(strings)


def _read_prompt(
    request: generation_pb2.GenerateRequest,
    model: ServedModel,
    encoder: PromptEncoder,
    bounds: RequestLimits,
) -> tuple[str, Sequence[int]]:
    """The field that holds the prompt, and its token ids."""
    match request.WhichOneof("input"):
        case "prompt":
            if not request.prompt:
                raise InvalidField("prompt", "must not be empty")
            _check_chars("prompt", len(request.prompt), bounds)
            name, token_ids = "prompt", encoder.encode_prompt(request.prompt)
        case "chat":
            name, token_ids = "chat", encoder.encode_chat(_read_chat(request.chat, encoder, bounds))
        case "token_ids":
            if not request.token_ids.ids:
                raise InvalidField("token_ids.ids", "must have at least one id")
            check_token_ids("token_ids.ids", request.token_ids.ids, model.vocab_size)
            return "token_ids", request.token_ids.ids
        case _:
            raise InvalidField("prompt", "one of prompt, chat and token_ids is needed")
    if not token_ids:
        raise InvalidField(name, "has no tokens")
    check_token_ids(name, token_ids, model.vocab_size)
    return name, token_ids


def _check_chars(name: str, count: int, bounds: RequestLimits) -> None:
    """Before anything is tokenised, which takes longer than it takes to send."""
    if count > bounds.max_prompt_chars:
        raise InvalidField(name, f"has {count} characters, at most {bounds.max_prompt_chars}")


def _read_chat(
    chat: generation_pb2.Chat, encoder: PromptEncoder, bounds: RequestLimits
) -> list[ChatMessage]:
    if not encoder.has_chat_template:
        raise InvalidField("chat", "the model has no chat template; send prompt or token_ids")
    if not 1 <= len(chat.messages) <= bounds.max_messages:
        raise InvalidField(
            "chat.messages",
            f"must have 1 to {bounds.max_messages} messages, got {len(chat.messages)}",
        )
    for index, message in enumerate(chat.messages):
        if message.role not in ROLES:
            raise InvalidField(f"chat.messages[{index}].role", f"must be one of {', '.join(ROLES)}")
    _check_chars("chat", sum(len(message.content) for message in chat.messages), bounds)
    return [ChatMessage(message.role, message.content) for message in chat.messages]


def _max_new_tokens(
    limits: generation_pb2.Limits,
    prompt_field: str,
    prompt_count: int,
    model: ServedModel,
    default: int,
) -> int:
    room = model.context_limit - prompt_count
    asked = limits.max_new_tokens if limits.HasField("max_new_tokens") else None
    if room < 0 or (room == 0 and asked is None):
        raise InvalidField(
            prompt_field,
            f"has {prompt_count} tokens, which leaves no room in the context of "
            f"{model.context_limit}",
        )
    if asked is None:
        return min(max(default, limits.min_new_tokens), room)
    if asked > room:
        raise InvalidField(
            "limits.max_new_tokens",
            f"must be from 0 to {room} after a prompt of {prompt_count} tokens (the context is "
            f"{model.context_limit}), got {asked}",
        )
    return asked
