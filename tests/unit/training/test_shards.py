"""What features weigh and whether to keep them."""

from outrider.training.shards import (
    FeatureCosts,
    bytes_per_token,
    fits,
    storing_pays,
)


def test_the_size_of_a_token():
    assert bytes_per_token(feature_size=3 * 576, top_k=64) == 3456 + 384


def test_not_all_of_the_disk_is_ours():
    assert fits(80, 100)
    assert not fits(81, 100)


def test_storing_pays_when_reading_is_cheaper_than_another_pass_of_the_target():
    fast_disk = FeatureCosts(capture_s=1.0, write_s=0.1, read_s=0.1)
    assert not storing_pays(fast_disk, passes=1)
    assert storing_pays(fast_disk, passes=2)
    slow_disk = FeatureCosts(capture_s=1.0, write_s=0.5, read_s=1.1)
    assert not storing_pays(slow_disk, passes=100)
