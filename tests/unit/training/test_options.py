"""Flags become values, or one line that says why not."""

from pathlib import Path

import pytest

from outrider.modeling.heads.head_config import HeadKind
from outrider.settings import BadSettings
from outrider.training.option_flags import DEFAULT_OWN_PROMPTS
from outrider.training.options import read_options
from outrider.training.shards import FeatureMode


def test_defaults_ask_the_target_for_everything():
    options = read_options(["--work", "here"])
    assert options.work == Path("here")
    assert options.prompts.own_count == DEFAULT_OWN_PROMPTS
    assert options.features is FeatureMode.AUTO
    assert options.recipe.chain_steps == 6
    assert options.recipe.step_decay == 0.8
    assert options.answers.temperatures == (0.0, 0.0, 0.7, 1.0)
    assert options.format == "safeailab"


def test_given_data_needs_no_prompts_of_its_own():
    assert read_options(["--work", "w", "--conversations", "a", "b"]).prompts.own_count == 0
    assert read_options(["--work", "w", "--prompt-file", "a"]).prompts.own_count == 0
    both = ["--work", "w", "--conversations", "a", "--own-prompts", "5"]
    assert read_options(both).prompts.own_count == 5


def test_an_eagle1_head_learns_features_too():
    options = read_options(["--work", "w", "--kind", "eagle1"])
    assert options.recipe.kind is HeadKind.EAGLE1
    assert options.recipe.feature_weight == 1.0
    assert options.recipe.token_weight == 0.1
    assert options.format == "eagle1"


def test_online_is_a_word_for_a_choice():
    assert read_options(["--work", "w", "--online"]).features is FeatureMode.ONLINE


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        ([], "--work"),
        (["--work", "w", "--batch-tokens", "0"], "--batch-tokens"),
        (["--work", "w", "--temperatures", "0,x"], "--temperatures"),
        (["--work", "w", "--held-out", "1.5"], "--held-out"),
        (["--work", "w", "--run", "../up"], "--run"),
        (["--work", "w", "--epoch", "3"], "--epoch"),
        (["--work", "w", "--parallel", "magic"], "--parallel"),
    ],
)
def test_a_bad_flag_names_itself(argv, word):
    with pytest.raises(BadSettings, match=word):
        read_options(argv)


def test_a_smoke_run_needs_no_folder():
    assert read_options(["--smoke"]).work is None
