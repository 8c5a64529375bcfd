"""The card says what the head is made of."""

from typing import Any

from outrider.training.figures import Figures
from outrider.training.model_card import CardFacts, model_card


def facts(**changes):
    values: dict[str, Any] = {
        "target": "Coach-1B",
        "license": "Apache-2.0",
        "kind": "eagle3",
        "parameters": 9_800_000,
        "dtype": "bfloat16",
        "sources": ["answers by Coach-1B"],
        "conversations": 3000,
        "tokens": 750_000,
        "held_out": 60,
        "draft_vocab_size": 8192,
        "coverage": 0.984,
        "recipe": {"chain_steps": 6, "feature_layers": (2, 15, 27)},
        "figures": Figures((2.0, 2.5), (0.5, 0.4), 1.7, 1.8),
        "baseline": 0.05,
    }
    return CardFacts(**(values | changes))


def test_data_recipe_figures_and_licence_are_there():
    card = model_card(facts())
    assert card.startswith("---\n")
    for words in (
        "base_model: Coach-1B", "license: apache-2.0", "9.8 million", "answers by Coach-1B",
        "3,000 conversations (750,000 tokens)", "60 held out", "98.40%", "| chain_steps | 6 |",
        "| feature_layers | 2, 15, 27 |", "| 2 | 0.400 | 2.500 |", "1.70 tokens", "1.80",
    ):  # fmt: skip
        assert words in card, words


def test_what_is_not_known_is_not_claimed():
    card = model_card(facts(license="", figures=None))
    assert "license:" not in card
    assert "Not stated." in card
    assert "Figures" not in card
