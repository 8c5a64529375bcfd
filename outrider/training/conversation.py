"""A conversation as token ids: what training reads. Pure: knows no file and no tokenizer."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

MIN_TOKENS = 3  # row 0 joins the feature of token 0 with token 1 and guesses token 2


class BadConversations(Exception):
    """Conversations that cannot be used; the message names the place."""


class LossOn(StrEnum):
    """Which tokens a head learns to guess."""

    ANSWER = "answer"
    ALL = "all"


@dataclass(frozen=True, slots=True, eq=False)
class Conversation:
    """One prompt and its answer.

    Args:
        token_ids: Prompt and answer, int32 `[num_tokens]`.
        prompt_length: Tokens of the prompt, 0 to num_tokens.
    """

    token_ids: NDArray[np.int32]
    prompt_length: int

    def __post_init__(self) -> None:
        if not 0 <= self.prompt_length <= len(self.token_ids):
            raise BadConversations(
                f"a prompt of {self.prompt_length} tokens in a conversation of {len(self)}"
            )

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def digest(self) -> str:
        """Hash of the token ids and the prompt's length."""
        return _digest(self.token_ids, self.prompt_length)

    @property
    def prompt_digest(self) -> str:
        """Hash of the prompt alone: the same for all answers to it."""
        return _digest(self.token_ids[: self.prompt_length], self.prompt_length)

    def first_counted(self, loss_on: LossOn) -> int:
        """Index of the first token that the loss counts; num_tokens where there is none."""
        wanted = self.prompt_length if loss_on is LossOn.ANSWER else 0
        return min(max(wanted, MIN_TOKENS - 1), len(self))


def read_row(row: object, vocab_size: int, where: str) -> Conversation:
    """Checks one `{ids, p}` row.

    Args:
        row: As parsed from JSON.
        vocab_size: Ids are below it.
        where: File and line, for messages.

    Raises:
        BadConversations: It is not of that shape.
    """
    if not isinstance(row, dict) or not isinstance(row.get("ids"), list):
        raise BadConversations(f'{where}: not an object {{"ids": [...], "p": number}}')
    ids, prompt_length = row["ids"], row.get("p", 0)
    if not all(type(one) is int and 0 <= one < vocab_size for one in ids):
        raise BadConversations(f"{where}: ids must be whole numbers from 0 to {vocab_size - 1}")
    if type(prompt_length) is not int or not 0 <= prompt_length <= len(ids):
        raise BadConversations(f"{where}: p must be from 0 to {len(ids)}, got {prompt_length!r}")
    return Conversation(np.array(ids, dtype=np.int32), prompt_length)


def prepare(
    conversations: Iterable[Conversation], max_tokens: int, loss_on: LossOn
) -> list[Conversation]:
    """Cuts long conversations, drops repeated ones and those without a token to learn from.

    Args:
        conversations: In any order.
        max_tokens: Most tokens kept of one, from its beginning.
        loss_on: Which tokens count.

    Returns:
        In the order of their digests, so the same set gives the same list.
    """
    kept: dict[str, Conversation] = {}
    for one in conversations:
        short = Conversation(one.token_ids[:max_tokens], min(one.prompt_length, max_tokens))
        if short.first_counted(loss_on) < len(short):
            kept.setdefault(short.digest, short)
    return [kept[digest] for digest in sorted(kept)]


def _digest(token_ids: NDArray[np.int32], prompt_length: int) -> str:
    digest = hashlib.blake2b(token_ids.astype("<i4").tobytes(), digest_size=16)
    digest.update(prompt_length.to_bytes(4, "little"))
    return digest.hexdigest()
