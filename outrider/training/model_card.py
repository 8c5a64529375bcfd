"""The README.md of a trained head: data, recipe, figures, licence. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.training.figures import Figures


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a card says.

    Args:
        target: Name of the target.
        license: Of the head, an SPDX name or words; empty: not stated.
        kind: Family of the head.
        parameters: Of the head's own tensors.
        dtype: They are stored in.
        sources: Where the conversations came from, in words.
        conversations: Trained on.
        tokens: In those.
        held_out: Conversations held out.
        draft_vocab_size: Tokens that the head can guess.
        coverage: Share of the counted tokens that are among them.
        recipe: Settings by name.
        figures: On the held-out conversations; None where there were none.
        baseline: Share of held-out guesses that always saying the commonest token would get right.
    """

    target: str
    license: str
    kind: str
    parameters: int
    dtype: str
    sources: Sequence[str]
    conversations: int
    tokens: int
    held_out: int
    draft_vocab_size: int
    coverage: float
    recipe: Mapping[str, Any]
    figures: Figures | None
    baseline: float


def model_card(facts: CardFacts) -> str:
    """The card as Markdown."""
    return "\n".join(
        [
            *_header(facts),
            f"# A draft head for {facts.target}",
            "",
            f"An EAGLE-{facts.kind[-1]} head ({facts.parameters / 1e6:.1f} million parameters, "
            f"{facts.dtype}) that guesses what {facts.target} says next, trained with "
            "`outrider train`. It cannot change the target's text, only how fast it comes.",
            "",
            *_data(facts),
            *_figures(facts),
            *_recipe(facts),
            "## Use",
            "",
            "`outrider inspect` says what the head is and whether it fits a target. To serve with "
            "it, start `outrider up` with `OUTRIDER_DRAFT_HEAD` set to this folder and "
            "`OUTRIDER_DRAFT_TARGET` to the target's.",
            "",
            "## Licence",
            "",
            f"{facts.license or 'Not stated'}."
            + " The head is made of its target's weights and texts; the target's own terms apply "
            "as well.",
            "",
        ]
    )


def _header(facts: CardFacts) -> list[str]:
    lines = ["---", "library_name: outrider", f"base_model: {facts.target}"]
    if facts.license:
        lines.append(f"license: {facts.license.lower()}")
    return [*lines, "tags:", "- speculative-decoding", "- draft-head", "---", ""]


def _data(facts: CardFacts) -> list[str]:
    return [
        "## Data",
        "",
        *(f"* {source}" for source in facts.sources),
        f"* {facts.conversations:,} conversations ({facts.tokens:,} tokens) were trained on, "
        f"{facts.held_out:,} held out; no prompt is in both.",
        f"* The {facts.draft_vocab_size:,} most frequent tokens are the draft vocabulary; they "
        f"cover {facts.coverage:.2%} of the tokens that count.",
        "",
    ]


def _figures(facts: CardFacts) -> list[str]:
    figures = facts.figures
    if figures is None:
        return []
    rows = [
        f"| {place} | {accuracy:.3f} | {loss:.3f} |"
        for place, (accuracy, loss) in enumerate(
            zip(figures.accuracies, figures.losses, strict=True), start=1
        )
    ]
    return [
        "## Figures on the held-out conversations",
        "",
        "Each guess of a chain, given the text's own tokens up to it:",
        "",
        "| guess | is the text's token | cross-entropy |",
        "|---|---|---|",
        *rows,
        "",
        f"Always saying the commonest token would be right in {facts.baseline:.3f} of the cases. "
        f"The accuracies promise {figures.expected_length:.2f} tokens per round to a chain of "
        f"{len(figures.accuracies)} guesses (bonus token included); on these very texts it had "
        f"{figures.chain_length:.2f}. A tree guesses more. `curves.svg` shows the training run.",
        "",
    ]


def _recipe(facts: CardFacts) -> list[str]:
    rows = [f"| {name} | {_word(value)} |" for name, value in facts.recipe.items()]
    return ["## Recipe", "", "| setting | value |", "|---|---|", *rows, ""]


def _word(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
