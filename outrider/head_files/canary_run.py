"""Runs a target over the canary's prompts: what it writes, and its features on the way.

The text is the target's own greedy answer, because that is what drafts are measured against when
the head serves: on a text of other people's the target's next token is often not the text's, and
heads never met such text in training.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from transformers import AutoTokenizer

from outrider.canary import PROMPTS, prompt_ids
from outrider.modeling.dtypes import choose_dtype
from outrider.modeling.heads.canary import CanaryText
from outrider.modeling.ragged_batch import SegmentRows, build_ragged_batch
from outrider.modeling.target import TargetModel
from outrider.modeling.token_choice import greedy_tokens

ANSWER_TOKENS: Final = 64  # four answers: shares are right to about three points

_SHORTEST_ANSWER: Final = 8  # an end of sequence before that is read past


class CanaryTarget:
    """A loaded target and its tokenizer.

    Args:
        folder: Of the target.
    """

    def __init__(self, folder: Path) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._target = TargetModel.load(folder, choose_dtype("auto", device == "cpu"), device)

    def texts(self, feature_layers: Sequence[int]) -> list[CanaryText]:
        """Answers all prompts, side by side.

        Args:
            feature_layers: Boundaries whose features are wanted, low to high.
        """
        prompts = [prompt_ids(self._tokenizer, prompt) for prompt in PROMPTS]
        slot_count = max(map(len, prompts)) + ANSWER_TOKENS
        self._target.allocate(slot_count * len(prompts))
        answers = [
            _Answer(prompt, first_slot=slot_count * index) for index, prompt in enumerate(prompts)
        ]
        while growing := [answer for answer in answers if not self._is_over(answer)]:
            shares = [answer.next_rows() for answer in growing]
            output = self._target.forward_with_features(build_ragged_batch(shares), feature_layers)
            greedy, features = greedy_tokens(output.logits).cpu(), output.features.cpu()
            start = 0
            for answer, share in zip(growing, shares, strict=True):
                stop = start + len(share.token_ids)
                answer.take(greedy[start:stop], features[start:stop])
                start = stop
        return [answer.text() for answer in answers]

    def _is_over(self, answer: "_Answer") -> bool:
        is_end = answer.token_ids[-1] in self._target.facts.eos_token_ids
        return answer.length >= (_SHORTEST_ANSWER if is_end else ANSWER_TOKENS)


class _Answer:
    """One prompt, what the target wrote behind it, and what it felt doing so."""

    def __init__(self, prompt_ids: list[int], first_slot: int) -> None:
        self.token_ids = list(prompt_ids)
        self._prompt_length, self._first_slot = len(prompt_ids), first_slot
        self._greedy: list[Tensor] = []
        self._features: list[Tensor] = []
        self._known = 0  # tokens that the target has seen

    @property
    def length(self) -> int:
        return len(self.token_ids) - self._prompt_length

    def next_rows(self) -> SegmentRows:
        count = len(self.token_ids) - self._known
        return SegmentRows(
            token_ids=self.token_ids[self._known :],
            parents=range(-1, count - 1),
            cached_rows=self._known,
            slots=range(self._first_slot, self._first_slot + len(self.token_ids)),
            logits_from=0,
        )

    def take(self, greedy: Tensor, features: Tensor) -> None:
        self._greedy.append(greedy)
        self._features.append(features)
        self._known = len(self.token_ids)
        self.token_ids.append(int(greedy[-1]))

    def text(self) -> CanaryText:
        return CanaryText(
            token_ids=torch.tensor(self.token_ids[: self._known]),
            features=torch.cat(self._features),
            greedy_ids=torch.cat(self._greedy),
            first_answer=self._prompt_length,
        )
