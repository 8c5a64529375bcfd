"""Shards are finished work: written whole, read by conversation."""

import torch

from outrider.training.captured import Captured
from outrider.training.feature_store import FeatureStore
from outrider.training.shards import plan_shards

LENGTHS = [3, 5, 2, 7, 4]
SHARDS = plan_shards(LENGTHS, 8)


def captured(shard) -> Captured:
    values = torch.tensor([float(i) for i in shard for _ in range(LENGTHS[i])])
    features = values[:, None].repeat(1, 6).bfloat16()
    return Captured(features, values[:, None].int(), values[:, None].half())


def test_conversations_come_back_in_the_order_asked_for(tmp_path):
    store = FeatureStore(tmp_path / "features", SHARDS, LENGTHS)
    assert store.missing() == list(range(len(SHARDS)))
    for number, shard in enumerate(SHARDS):
        store.write(number, captured(shard))
    assert store.missing() == []
    read = FeatureStore(tmp_path / "features", SHARDS, LENGTHS).read([3, 0, 4])
    expected = [3.0] * 7 + [0.0] * 3 + [4.0] * 4
    assert read.features[:, 5].tolist() == expected
    assert read.likely_ids[:, 0].tolist() == expected
    assert read.features.dtype is torch.bfloat16


def test_a_killed_writer_leaves_its_shard_missing(tmp_path):
    store = FeatureStore(tmp_path, SHARDS, LENGTHS)
    store.write(0, captured(SHARDS[0]))
    (tmp_path / "00001.part").write_bytes(b"half a file")
    assert FeatureStore(tmp_path, SHARDS, LENGTHS).missing() == [1, 2, 3]
    store.remove(0)
    assert store.missing() == [0, 1, 2, 3]
