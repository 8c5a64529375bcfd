"""The canary: what a head is asked before it is trusted, and the least that it must get right.

A head that was made for another target, or is fed the wrong layers, runs without an error and has
nothing accepted; only counting shows it. `outrider inspect` counts with the target at hand, a draft
worker through its verify worker. Knows no tensors.
"""

from dataclasses import dataclass
from typing import Any, Final

PROMPTS: Final = (
    "Why is the sky blue?",
    "Write a short story about a lighthouse keeper.",
    "Write a Python function that reverses a string, and explain it.",
    "What are three good habits for learning a language?",
)

# A guess at random hits once in the head's vocabulary; always guessing the commonest token of a
# text hits about one in twenty. A small head of the embedded model, briefly trained, hits 38% and
# 32%; with a norm switch wrong 2% to 4%, with quite other layers 2% to 15%, with a wrong vocabulary
# map none. Twice the habit of guessing one token is what it takes. Layers that are one off (35%)
# pass: only the comparison with other readings of the file shows them.
FLOOR: Final = 0.1


class UselessHead(Exception):
    """A head whose guesses are no better than chance; the message names the likely causes."""


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What a head hit.

    Args:
        first_step: Share of positions where its best guess is the target's greedy token.
        second_step: The same one token further on, fed by the head's own output.
        position_count: Positions that were counted for the first step.
    """

    first_step: float
    second_step: float
    position_count: int


def check(result: CanaryResult) -> None:
    """Refuses a head whose guesses are worth nothing.

    Raises:
        UselessHead: A step lies under the floor.
    """
    found = f"of {result.position_count} tokens the head guessed {result.first_step:.0%}"
    if result.first_step < FLOOR:
        raise UselessHead(
            f"{found}, and {FLOOR:.0%} is the least. Likely causes: it was made for another "
            "target; its layer ids are off by one (inputs and outputs are counted in two ways); "
            "norm_before_fc, fc_norm or norm_before_residual is set wrongly"
        )
    if result.second_step < FLOOR:
        raise UselessHead(
            f"{found}, but one step further only {result.second_step:.0%}, and {FLOOR:.0%} is the "
            "least. Likely cause: norm_output is set wrongly, so that it is fed its own output in "
            "a form that it was not trained with"
        )


def prompt_ids(tokenizer: Any, prompt: str) -> list[int]:
    """A prompt as a chat's first message, or as it is where there is no chat template.

    Args:
        tokenizer: Of `transformers`.
        prompt: One of PROMPTS.
    """
    if tokenizer.chat_template is None:
        return list(tokenizer(prompt)["input_ids"])
    encoded = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=True
    )
    return list(encoded["input_ids"])
