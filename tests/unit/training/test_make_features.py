"""Features are stored where that pays, and captured no more often than needed."""

import numpy as np
import pytest
import torch

from outrider.settings import BadSettings
from outrider.training import make_features
from outrider.training.captured import Captured
from outrider.training.conversation import Conversation, LossOn
from outrider.training.make_features import FeaturePlan, Features
from outrider.training.parallel import Ranks
from outrider.training.shards import FeatureMode
from outrider.training.terminal import Terminal

LENGTHS = [5, 9, 4, 7]


class FakeCapture:
    """Features are the token ids; counts what it is asked."""

    def __init__(self) -> None:
        self.tokens = 0

    def __call__(self, token_ids, first_counted) -> Captured:
        values = torch.tensor([float(one) for ids in token_ids for one in ids])[:, None]
        self.tokens += len(values)
        return Captured(values.bfloat16(), values.int(), values.half())


@pytest.fixture
def capture(monkeypatch):
    monkeypatch.setattr(make_features, "SHARD_TOKENS", 14)
    return FakeCapture()


def features_in(
    folder, capture, passes=3, held_out=(0,), key=None, lengths=tuple(LENGTHS)
) -> Features:
    conversations = [
        Conversation(np.arange(10 * i, 10 * i + length, dtype=np.int32), 2)
        for i, length in enumerate(lengths)
    ]
    plan = FeaturePlan(conversations, LossOn.ANSWER, 1, 1, passes, held_out, key or {"a": 1})
    alone = Ranks(0, 1, torch.device("cpu"))
    return Features(plan, lambda: capture, folder / "features", alone, Terminal(is_silent=True))


def test_stored_features_are_captured_once(tmp_path, capture):
    source = features_in(tmp_path, capture).source(FeatureMode.STORED)
    for _ in range(3):
        assert source([2, 1]).features[:, 0].tolist() == [*range(20, 24), *range(10, 19)]
    assert capture.tokens == sum(LENGTHS)
    features_in(tmp_path, capture).source(FeatureMode.AUTO)([0])
    assert capture.tokens == sum(LENGTHS)


def test_a_killed_capture_goes_on_with_the_missing_shards(tmp_path, capture):
    features_in(tmp_path, capture).source(FeatureMode.STORED)
    first, second = sorted((tmp_path / "features").glob("*.safetensors"))
    before = first.stat().st_mtime_ns
    second.unlink()
    features_in(tmp_path, capture).source(FeatureMode.STORED)
    lost = capture.tokens - sum(LENGTHS)
    assert lost in (LENGTHS[0] + LENGTHS[1], LENGTHS[2] + LENGTHS[3])
    assert first.stat().st_mtime_ns == before


def test_more_conversations_cost_only_their_own(tmp_path, capture):
    features_in(tmp_path, capture, lengths=LENGTHS[:3]).source(FeatureMode.STORED)
    source = features_in(tmp_path, capture).source(FeatureMode.AUTO)
    assert capture.tokens == sum(LENGTHS)
    assert source([3, 0]).features[:, 0].tolist() == [*range(30, 37), *range(5)]


def test_one_pass_stores_nothing(tmp_path, capture):
    source = features_in(tmp_path, capture, passes=1).source(FeatureMode.AUTO)
    assert source([3]).likely_ids[:, 0].tolist() == list(range(30, 37))
    assert not (tmp_path / "features").exists()


def test_held_out_conversations_are_captured_once_even_then(tmp_path, capture):
    source = features_in(tmp_path, capture, held_out=(0, 2)).source(FeatureMode.ONLINE)
    for _ in range(3):
        source([0, 2])
        source([1])
    assert capture.tokens == 5 + 4 + 3 * 9


def test_a_full_disk_means_online_unless_storing_was_asked_for(tmp_path, capture, monkeypatch):
    monkeypatch.setattr(make_features, "fits", lambda needed, free: False)
    features_in(tmp_path, capture).source(FeatureMode.AUTO)([1])
    assert not (tmp_path / "features").exists()
    with pytest.raises(BadSettings, match="--features stored needs"):
        features_in(tmp_path, capture).source(FeatureMode.STORED)


@pytest.mark.parametrize("pays", [True, False])
def test_the_first_shard_is_measured_and_kept_if_it_pays(tmp_path, capture, monkeypatch, pays):
    monkeypatch.setattr(make_features, "storing_pays", lambda costs, passes: pays)
    features_in(tmp_path, capture).source(FeatureMode.AUTO)
    shards = list((tmp_path / "features").glob("*.safetensors"))
    assert len(shards) == (2 if pays else 0)
    assert capture.tokens == (sum(LENGTHS) if pays else LENGTHS[0] + LENGTHS[1])


def test_features_of_other_settings_are_refused(tmp_path, capture):
    features_in(tmp_path, capture).source(FeatureMode.STORED)
    with pytest.raises(BadSettings, match=r"a 1 \(now 2\)"):
        features_in(tmp_path, capture, key={"a": 2}).source(FeatureMode.STORED)
