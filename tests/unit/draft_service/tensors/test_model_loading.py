"""A worker's methods with a draft model from files, over a tiny random target."""

import shutil

import pytest
import torch

from draft_service.drafters.network_watch import DropReason
from draft_service.methods import make_methods
from draft_service.settings import DraftSettings
from outrider.protocol.decoding import Sampling
from outrider.protocol.fingerprints import tokenizer_fingerprint
from outrider.protocol.messages import ID_BYTES
from outrider.settings import BadSettings, load_settings
from outrider.telemetry.metrics import DraftMetrics
from tests.unit.draft_service.test_vocabulary import tokenizer_json
from tests.unit.modeling.tiny_models import VOCAB, plain_model

WORDS = [f"w{place}" for place in range(VOCAB - 1)]  # one id of the logits stands for nothing
SESSION = b"a" * ID_BYTES


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A target, and a draft model of another family with the same tokenizer."""
    target, draft = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("draft")
    for family, folder in (("llama", target), ("qwen2", draft)):
        plain_model(family).save_pretrained(folder)
        (folder / "tokenizer.json").write_text(tokenizer_json(WORDS))
    return target, draft


def settings(folders, *flags: str) -> DraftSettings:
    target, draft = folders
    given = ["--draft-model", str(draft), "--target", str(target), "--device", "cpu", *flags]
    return load_settings(DraftSettings, given, {})


def with_tokenizer(folder, tmp_path, text: str | None):
    """A copy of a model with another tokenizer.json, or without one."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    if text is None:
        (copy / "tokenizer.json").unlink()
    else:
        (copy / "tokenizer.json").write_text(text)
    return copy


def test_a_draft_model_brings_its_method_which_is_the_default(folders):
    methods = make_methods(settings(folders), DraftMetrics())
    assert list(methods.drafters) == ["model", "ngram", "none"]
    assert methods.default == methods.chosen("") == "model"
    assert methods.layout is None
    assert not methods.canary.is_pending
    assert methods.drafters["model"].features_from(SESSION) is None


def test_verify_workers_are_told_which_target_it_was_compared_with(folders):
    built_for = make_methods(settings(folders), DraftMetrics()).built_for
    assert built_for.tokenizer_fingerprint == tokenizer_fingerprint(tokenizer_json(WORDS))
    assert built_for.vocab_size == VOCAB


def test_a_session_that_loses_its_draft_model_is_counted_and_logged(folders, caplog):
    metrics = DraftMetrics()
    drafter = make_methods(settings(folders), metrics).drafters["model"]
    drafter.open(SESSION, [1, 2, 999], Sampling())
    reason = DropReason.UNKNOWN_TOKEN
    name = "outrider_dropped_draft_models_total"
    assert metrics.registry.get_sample_value(name, {"reason": reason.value}) == 1
    assert f"goes on without its draft model: {reason}" in caplog.text


def test_another_vocabulary_is_refused_and_what_differs_is_named(folders, tmp_path):
    target, draft = folders
    words = [*WORDS[:10], "other", *WORDS[11:], "more"]
    other = with_tokenizer(draft, tmp_path, tokenizer_json(words))
    problem = (
        rf"--draft-model {other} does not fit --target {target}: it has {VOCAB} tokens, the target "
        rf"{VOCAB - 1}, and 1 ids stand for different ones, such as 10 for 'other' here and 'w10'"
    )
    with pytest.raises(BadSettings, match=problem):
        make_methods(settings((target, other)), DraftMetrics())


def test_a_folder_without_a_tokenizer_is_refused(folders, tmp_path):
    target, draft = folders
    bare = with_tokenizer(draft, tmp_path, None)
    with pytest.raises(BadSettings, match=rf"--draft-model: {bare}/tokenizer.json cannot be read"):
        make_methods(settings((target, bare)), DraftMetrics())
    with pytest.raises(BadSettings, match=rf"--target: {bare}/tokenizer.json cannot be read"):
        make_methods(settings((bare, draft)), DraftMetrics())


def test_pickles_are_not_read(folders, tmp_path):
    target, draft = folders
    pickled = with_tokenizer(draft, tmp_path, tokenizer_json(WORDS))
    (pickled / "model.safetensors").unlink()
    torch.save({}, pickled / "pytorch_model.bin")
    with pytest.raises(BadSettings, match=r"--draft-model .* cannot be loaded: .*safetensors"):
        make_methods(settings((target, pickled)), DraftMetrics())


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--default-method", "hybrid", "--head", "h"), "head h: config.json"),
        (("--draft-model", "/no/such/folder"), "--draft-model /no/such/folder: no such folder"),
        (("--draft-cache-mib", "1"), "--draft-cache-mib 1 holds .* rows of .* bytes"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(folders, flags, problem, monkeypatch):
    monkeypatch.setattr("draft_service.tensors.loading.SMALLEST_POOL", 10**6)
    with pytest.raises(BadSettings, match=problem):
        make_methods(settings(folders, *flags), DraftMetrics())
