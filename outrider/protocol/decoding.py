"""What decoding one stream means: sampling, limits and the reason a stream ended.

Values check themselves, so that every boundary that builds one has validated it. Each
`from_proto` takes the message of `protos/outrider/v1/decoding.proto`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Self

from outrider.protocol.errors import InvalidField
from outrider.protocol.grammar import Grammar
from outrider.protocol.logit_rules import LogitRules
from outrider.v1 import decoding_pb2

MAX_TEMPERATURE = 100.0
MIN_TEMPERATURE = 1e-5  # below this the division overflows fp32; the rule is then greedy
MAX_SEED = 2**64 - 1
MAX_NEW_TOKENS = 2**31 - 1
MAX_STOP_TOKEN_IDS = 64
MAX_TOP_LOG_PROBS = 20
MAX_NODES = 1024
LOSSLESS = 1.0


class TopLogProbs(NamedTuple):
    """What could have come at one place, the likeliest first; before bias, penalties and the rest.

    Args:
        token_ids: Up to MAX_TOP_LOG_PROBS.
        log_probs: One for each.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]

    @classmethod
    def from_proto(cls, proto: decoding_pb2.TopLogProbs) -> Self:
        """Reads.

        Raises:
            InvalidField: The two have different lengths.
        """
        if len(proto.token_ids) != len(proto.log_probs):
            raise InvalidField("top_log_probs", "as many log_probs as token_ids are needed")
        return cls(tuple(proto.token_ids), tuple(proto.log_probs))

    def to_proto(self) -> decoding_pb2.TopLogProbs:
        """The message."""
        return decoding_pb2.TopLogProbs(token_ids=self.token_ids, log_probs=self.log_probs)


class FinishReason(Enum):
    """Why a stream ended; the values are those of the proto enum."""

    STOP = decoding_pb2.FINISH_REASON_STOP
    LENGTH = decoding_pb2.FINISH_REASON_LENGTH

    @classmethod
    def from_proto(cls, value: "decoding_pb2.FinishReason.ValueType") -> "FinishReason | None":
        """None for UNSPECIFIED, which means "not ended"."""
        return None if value == decoding_pb2.FINISH_REASON_UNSPECIFIED else cls(value)

    @staticmethod
    def to_proto(reason: "FinishReason | None") -> "decoding_pb2.FinishReason.ValueType":
        """UNSPECIFIED for None."""
        return decoding_pb2.FINISH_REASON_UNSPECIFIED if reason is None else reason.value


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn: rules, temperature, then top_k, top_p and min_p, keyed noise.

    Args:
        temperature: 0 (greedy) to 100. Values under 1e-5 are greedy.
        top_p: Above 0, to 1 (off).
        top_k: Number of tokens kept; 0 is off.
        min_p: 0 (off) to 1.
        seed: Key of the noise, 0 to 2**64 - 1.
        rules: What is done to the logits before.
        grammar: Form of the answer; None: any.

    Raises:
        InvalidField: A value is out of range or not finite; the field names it.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0
    rules: LogitRules = field(default_factory=LogitRules)
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        _check_range("sampling.temperature", self.temperature, 0.0, MAX_TEMPERATURE)
        _check_range("sampling.top_p", self.top_p, 0.0, 1.0)
        if self.top_p == 0.0:
            raise InvalidField("sampling.top_p", "must be above 0 (1 turns it off), got 0")
        _check_range("sampling.min_p", self.min_p, 0.0, 1.0)
        _check_range("sampling.top_k", self.top_k, 0, 2**32 - 1)
        _check_range("sampling.seed", self.seed, 0, MAX_SEED)

    @property
    def is_greedy(self) -> bool:
        """True where the most likely token is taken without noise."""
        return self.temperature < MIN_TEMPERATURE

    @classmethod
    def from_proto(cls, proto: decoding_pb2.Sampling) -> Self:
        """Reads and checks; absent fields take the defaults.

        Raises:
            InvalidField: As for the class and its rules.
        """
        return cls(
            temperature=proto.temperature,
            top_p=proto.top_p if proto.HasField("top_p") else 1.0,
            top_k=proto.top_k,
            min_p=proto.min_p,
            seed=proto.seed,
            rules=LogitRules.from_proto(proto),
            grammar=Grammar.from_proto(proto),
        )

    def to_proto(self) -> decoding_pb2.Sampling:
        """The message; every field but those of rules that are off is set."""
        proto = decoding_pb2.Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            seed=self.seed,
        )
        self.rules.write_to(proto)
        if self.grammar is not None:
            proto.grammar.CopyFrom(self.grammar.to_proto())
        return proto


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """When one session ends, in token ids.

    Args:
        max_new_tokens: Most tokens after the prompt, 1 to 2**31 - 1.
        stop_token_ids: The first generated one of these is the last token; up to 64.
        ignore_eos: True: the target's end-of-sequence ids do not end the session.
        min_new_tokens: Ids that would end the session do not come among the first so many tokens,
            0 to max_new_tokens.

    Raises:
        InvalidField: A value is out of range.
    """

    max_new_tokens: int
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_new_tokens: int = 0

    def __post_init__(self) -> None:
        _check_range("limits.max_new_tokens", self.max_new_tokens, 1, MAX_NEW_TOKENS)
        if len(self.stop_token_ids) > MAX_STOP_TOKEN_IDS:
            raise InvalidField(
                "limits.stop_token_ids",
                f"at most {MAX_STOP_TOKEN_IDS} ids, got {len(self.stop_token_ids)}",
            )
        _check_range("limits.min_new_tokens", self.min_new_tokens, 0, self.max_new_tokens)

    def ending_ids(self, eos_token_ids: Sequence[int]) -> frozenset[int]:
        """Ids that end the session.

        Args:
            eos_token_ids: The target's end-of-sequence ids.
        """
        return frozenset((*self.stop_token_ids, *(() if self.ignore_eos else eos_token_ids)))

    @classmethod
    def from_proto(cls, proto: decoding_pb2.DecodeLimits) -> Self:
        """Reads and checks.

        Raises:
            InvalidField: As for the class.
        """
        return cls(
            proto.max_new_tokens,
            tuple(proto.stop_token_ids),
            proto.ignore_eos,
            proto.min_new_tokens,
        )

    def to_proto(self) -> decoding_pb2.DecodeLimits:
        """The message."""
        return decoding_pb2.DecodeLimits(
            max_new_tokens=self.max_new_tokens,
            stop_token_ids=self.stop_token_ids,
            ignore_eos=self.ignore_eos,
            min_new_tokens=self.min_new_tokens,
        )


@dataclass(frozen=True, slots=True)
class Speculation:
    """What a request asks of the draft worker; None leaves the choice to the worker.

    Args:
        method: Draft method, or "" for the worker's default.
        parallel_degree: Children considered per node, 1 to 64.
        max_nodes: Most nodes of a tree, the root included, 1 to 1024.
        depth: Most drafted tokens on one path, at least 1.
        disabled: True: plain decoding.
        validation_threshold: Above 0, to 1 (lossless); see `check_threshold`.

    Raises:
        InvalidField: A value is out of range.
    """

    method: str = ""
    parallel_degree: int | None = None
    max_nodes: int | None = None
    depth: int | None = None
    disabled: bool = False
    validation_threshold: float = LOSSLESS

    def __post_init__(self) -> None:
        check_threshold(self.validation_threshold)
        _check_optional("speculation.parallel_degree", self.parallel_degree, 64)
        _check_optional("speculation.max_nodes", self.max_nodes, MAX_NODES)
        _check_optional("speculation.depth", self.depth, 64)

    @classmethod
    def from_proto(cls, proto: decoding_pb2.Speculation) -> Self:
        """Reads and checks.

        Raises:
            InvalidField: As for the class.
        """
        has_threshold = proto.HasField("validation_threshold")
        return cls(
            method=proto.method,
            parallel_degree=proto.parallel_degree if proto.HasField("parallel_degree") else None,
            max_nodes=proto.max_nodes if proto.HasField("max_nodes") else None,
            depth=proto.depth if proto.HasField("depth") else None,
            disabled=proto.disabled,
            validation_threshold=proto.validation_threshold if has_threshold else LOSSLESS,
        )

    def to_proto(self) -> decoding_pb2.Speculation:
        """The message; None stays absent."""
        return decoding_pb2.Speculation(
            method=self.method,
            parallel_degree=self.parallel_degree,
            max_nodes=self.max_nodes,
            depth=self.depth,
            disabled=self.disabled,
            validation_threshold=self.validation_threshold,
        )


def check_token_ids(field: str, token_ids: Sequence[int], vocab_size: int) -> None:
    """Refuses ids outside the vocabulary.

    Args:
        field: Path of the field, for the error.
        token_ids: Ids to check.
        vocab_size: Ids must be in [0, vocab_size).

    Raises:
        InvalidField: Names the first offending index and id.
    """
    if not token_ids or (min(token_ids) >= 0 and max(token_ids) < vocab_size):
        return
    index, token_id = next((i, t) for i, t in enumerate(token_ids) if not 0 <= t < vocab_size)
    raise InvalidField(f"{field}[{index}]", f"must be from 0 to {vocab_size - 1}, got {token_id}")


def _check_range(field: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidField(field, f"must be from {low:g} to {high:g}, got {value:g}")


def _check_optional(field: str, value: int | None, high: int) -> None:
    if value is not None:
        _check_range(field, value, 1, high)


def check_threshold(threshold: float) -> None:
    """Refuses a validation threshold out of range.

    Below 1, a drafted token is also accepted where its probability, before temperature and filters,
    is at least so many times that of the most likely token.

    Raises:
        InvalidField: It is not above 0, or above 1.
    """
    if not 0.0 < threshold <= LOSSLESS:  # false for NaN
        raise InvalidField(
            "speculation.validation_threshold", f"must be above 0, to 1, got {threshold:g}"
        )


def check_some_token_may_come(
    rules: LogitRules, limits: DecodeLimits, eos_token_ids: Sequence[int]
) -> None:
    """Refuses a request that at some place could not have any token.

    Args:
        rules: Of its logits.
        limits: Of its answer.
        eos_token_ids: The target's end-of-sequence ids.

    Raises:
        InvalidField: All allowed tokens would end the answer before its least length.
    """
    if not rules.allowed_token_ids or not limits.min_new_tokens:
        return
    left = {*rules.allowed_token_ids} - {*rules.banned_token_ids}
    if left <= limits.ending_ids(eos_token_ids):
        raise InvalidField(
            "limits.min_new_tokens", "all allowed tokens end the answer, so none may come before"
        )
