from pathlib import Path

import pytest
import torch

from outrider.modeling.heads.checkpoints import BadCheckpoint, TargetFiles
from tests.unit.modeling.heads.checkpoints import sample_heads as samples
from tests.unit.modeling.heads.checkpoints.sample_heads import SIZE, VOCAB


def test_sizes_and_rope_are_read(tmp_path: Path) -> None:
    target = samples.target(tmp_path, rope_theta=1e6)
    assert (target.layer_count, target.hidden_size, target.vocab_size) == (10, 8, 16)
    assert target.context_limit == 4096
    assert target.rope_parameters == {"rope_type": "default", "rope_theta": 1e6}


def test_tied_embeddings_of_a_single_file_are_the_output_head(tmp_path: Path) -> None:  # B52
    target = samples.target(tmp_path, is_tied=True)
    assert torch.equal(target.lm_head(), target.embed_tokens())


def test_an_output_head_of_its_own_is_taken(tmp_path: Path) -> None:
    target = samples.target(tmp_path, is_tied=False)
    assert not torch.equal(target.lm_head(), target.embed_tokens())


def test_a_file_without_an_output_head_that_says_nothing_is_tied(tmp_path: Path) -> None:
    target = samples.target(tmp_path, tie_word_embeddings=None)
    assert torch.equal(target.lm_head(), target.embed_tokens())


def test_a_target_that_is_not_tied_must_have_one(tmp_path: Path) -> None:
    target = samples.target(tmp_path, tie_word_embeddings=False)
    with pytest.raises(BadCheckpoint, match=r"there is no lm_head\.weight"):
        target.lm_head()


def test_a_model_that_also_sees_keeps_its_language_model_within(tmp_path: Path) -> None:
    tensors = samples.weights(
        1,
        model__vision_tower__embed_tokens__weight=(3, 3),
        model__language_model__embed_tokens__weight=(VOCAB, SIZE),
    )
    text_config = {"num_hidden_layers": 4, "hidden_size": SIZE, "vocab_size": VOCAB}
    target = TargetFiles(samples.write(tmp_path, {"text_config": text_config}, tensors))
    assert target.layer_count == 4
    assert target.embed_tokens().shape == (VOCAB, SIZE)


def test_embeddings_of_another_size_are_refused(tmp_path: Path) -> None:
    target = samples.target(tmp_path, vocab_size=17)
    with pytest.raises(BadCheckpoint, match=r"embed_tokens\.weight is \[16, 8\], expected \[17, 8"):
        target.embed_tokens()


def test_its_name_is_never_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-model"
    assert samples.target(folder, _name_or_path="/home/me/secret").name == "tiny-model"
    assert samples.target(folder, _name_or_path="org/tiny").name == "org/tiny"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"gone: config\.json cannot be read: No such file"):
        TargetFiles(tmp_path / "gone")
