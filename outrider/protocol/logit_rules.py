"""What a request does to the target's logits before temperature: bias, penalties, bans.

At every node of a tree they depend on the tokens before that node, its ancestors included, so the
tokens do not depend on the tree. Values only; how they act is `outrider/modeling/ruled_logits.py`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from outrider.protocol.errors import InvalidField
from outrider.v1 import decoding_pb2

MAX_REPETITION_PENALTY = 10.0
MAX_PENALTY = 2.0
MAX_BIAS = 100.0
MAX_LISTED = 16384  # ids in each of the lists


@dataclass(frozen=True, slots=True)
class LogitRules:
    """Changes to the logits, in this order: bias, repetition, presence and frequency, bans.

    Args:
        repetition_penalty: Above 0; logits of tokens of the prompt or the answer are divided by it
            where positive and multiplied where negative. 1 is off.
        presence_penalty: -2 to 2; taken once from each token of the answer. 0 is off.
        frequency_penalty: -2 to 2; taken from each token of the answer as often as it stands there.
        logit_bias: Token ids, rising, each with what is added to it, -100 to 100.
        allowed_token_ids: The only tokens that may come; empty: all.
        banned_token_ids: Tokens that never come.

    Raises:
        InvalidField: A value is out of range, a list too long, or nothing is left to come.
    """

    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    allowed_token_ids: tuple[int, ...] = ()
    banned_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        repetition = self.repetition_penalty
        if not 0.0 < repetition <= MAX_REPETITION_PENALTY:  # false for NaN
            raise InvalidField(
                "sampling.repetition_penalty",
                f"must be above 0, to {MAX_REPETITION_PENALTY:g}, got {repetition:g}",
            )
        _check_size("sampling.presence_penalty", self.presence_penalty, MAX_PENALTY)
        _check_size("sampling.frequency_penalty", self.frequency_penalty, MAX_PENALTY)
        for token_id, bias in self.logit_bias:
            _check_size(f"sampling.logit_bias[{token_id}]", bias, MAX_BIAS)
        for name in ("logit_bias", "allowed_token_ids", "banned_token_ids"):
            if len(getattr(self, name)) > MAX_LISTED:
                raise InvalidField(
                    f"sampling.{name}", f"at most {MAX_LISTED}, got {len(getattr(self, name))}"
                )
        if self.allowed_token_ids and {*self.allowed_token_ids} <= {*self.banned_token_ids}:
            raise InvalidField("sampling.allowed_token_ids", "all of them are banned")

    @property
    def counts_tokens(self) -> bool:
        """True where it matters which tokens came before."""
        return self.repetition_penalty != 1.0 or self.penalises_answer

    @property
    def penalises_answer(self) -> bool:
        """True where tokens of the answer are penalised apart from those of the prompt."""
        return self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    @property
    def is_neutral(self) -> bool:
        """True where the logits stay as they are."""
        return not (
            self.counts_tokens or self.logit_bias or self.allowed_token_ids or self.banned_token_ids
        )

    def named_token_ids(self) -> dict[str, tuple[int, ...]]:
        """All ids that a request names, by field, to be checked against a vocabulary."""
        return {
            "sampling.logit_bias": tuple(token_id for token_id, _ in self.logit_bias),
            "sampling.allowed_token_ids": self.allowed_token_ids,
            "sampling.banned_token_ids": self.banned_token_ids,
        }

    @classmethod
    def from_proto(cls, proto: decoding_pb2.Sampling) -> Self:
        """Reads and checks; absent fields are off.

        Raises:
            InvalidField: As for the class.
        """
        repetition = proto.repetition_penalty if proto.HasField("repetition_penalty") else 1.0
        return cls(
            repetition_penalty=repetition,
            presence_penalty=proto.presence_penalty,
            frequency_penalty=proto.frequency_penalty,
            logit_bias=tuple(sorted(proto.logit_bias.items())),
            allowed_token_ids=tuple(proto.allowed_token_ids),
            banned_token_ids=tuple(proto.banned_token_ids),
        )

    def write_to(self, proto: decoding_pb2.Sampling) -> None:
        """Sets the message's fields; those that are off stay absent."""
        if self.repetition_penalty != 1.0:
            proto.repetition_penalty = self.repetition_penalty
        if self.presence_penalty:
            proto.presence_penalty = self.presence_penalty
        if self.frequency_penalty:
            proto.frequency_penalty = self.frequency_penalty
        proto.logit_bias.update(dict(self.logit_bias))
        proto.allowed_token_ids.extend(self.allowed_token_ids)
        proto.banned_token_ids.extend(self.banned_token_ids)


class TokenHistory:
    """How often each token stands in a session's answer, and which stand in its prompt.

    Args:
        token_ids: Prompt and answer so far.
        prompt_length: How many of them are the prompt.
    """

    def __init__(self, token_ids: Sequence[int], prompt_length: int) -> None:
        self.prompt_ids = frozenset(token_ids[:prompt_length])
        self._counts = Counter(token_ids[prompt_length:])

    @property
    def counts(self) -> Mapping[int, int]:
        """Occurrences in the answer; 0 for all others."""
        return self._counts

    def extend(self, token_ids: Sequence[int]) -> None:
        """Takes tokens that were committed."""
        self._counts.update(token_ids)

    def counts_behind(self, path: Sequence[int]) -> Mapping[int, int]:
        """Occurrences in the answer with some more tokens behind it.

        Args:
            path: Tokens of a tree from below its root down to a node.
        """
        return self._counts + Counter(path) if path else self._counts


def _check_size(field: str, value: float, most: float) -> None:
    if not (math.isfinite(value) and -most <= value <= most):
        raise InvalidField(field, f"must be from {-most:g} to {most:g}, got {value:g}")
