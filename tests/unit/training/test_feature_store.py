"""Files are finished work: written whole, read by conversation."""

import torch

from outrider.training.captured import Captured
from outrider.training.feature_store import FeatureStore

LENGTHS = {"a": 3, "b": 5, "c": 2, "d": 7, "e": 4}
SHARDS = ["ab", "c", "de"]


def captured(shard: str) -> Captured:
    values = torch.tensor([float(ord(one)) for one in shard for _ in range(LENGTHS[one])])
    features = values[:, None].repeat(1, 6).bfloat16()
    return Captured(features, values[:, None].int(), values[:, None].half())


def write(store: FeatureStore, shard: str) -> None:
    store.write({one: LENGTHS[one] for one in shard}, captured(shard))


def test_conversations_come_back_in_the_order_asked_for(tmp_path):
    store = FeatureStore(tmp_path / "features")
    assert "a" not in store
    for shard in SHARDS:
        write(store, shard)
    for one in (store, FeatureStore(tmp_path / "features")):
        assert all(digest in one for digest in LENGTHS)
        read = one.read(["d", "a", "e"])
        expected = [100.0] * 7 + [97.0] * 3 + [101.0] * 4
        assert read.features[:, 5].tolist() == expected
        assert read.likely_ids[:, 0].tolist() == expected
        assert read.features.dtype is torch.bfloat16


def test_a_killed_writer_leaves_its_conversations_missing(tmp_path):
    store = FeatureStore(tmp_path)
    write(store, "ab")
    (tmp_path / "00001.part").write_bytes(b"half a file")
    other = FeatureStore(tmp_path)
    assert [one for one in LENGTHS if one not in other] == ["c", "d", "e"]
    store.remove("b")
    assert not any(one in store for one in LENGTHS)
    assert "a" not in FeatureStore(tmp_path)


def test_what_another_rank_has_written_is_seen_after_a_look(tmp_path):
    one, other = FeatureStore(tmp_path), FeatureStore(tmp_path)
    write(other, "de")
    assert "d" not in one
    one.look()
    assert one.read(["e"]).features[:, 0].tolist() == [101.0] * 4
