"""The tightest device decides how many rows the KV pool has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify_service.pool_size import (
    MIB,
    DeviceRoom,
    PoolDoesNotFit,
    pool_by_share,
    pool_of_bytes,
)

ROOMY = DeviceRoom("cuda:0", free_bytes=100 * MIB, row_bytes=1024)
TIGHT = DeviceRoom("cuda:1", free_bytes=10 * MIB, row_bytes=4096)

DEVICES = st.lists(
    st.builds(
        DeviceRoom,
        st.just("cuda:7"),
        free_bytes=st.integers(0, 10**12),
        row_bytes=st.integers(1, 10**6),
        feature_bytes=st.integers(0, 10**5),
    ),
    min_size=1,
    max_size=8,
)


def test_a_share_is_that_of_the_tightest_device():
    size = pool_by_share([ROOMY, TIGHT], 16, 0.5)
    assert (size.block_count, size.row_count) == (80, 1280)
    assert [size.bytes_on(device) for device in size.devices] == [1280 * 1024, 5 * MIB]


def test_features_take_their_part_of_the_share():
    """Rows of 1 KiB with features of 3 KiB: a quarter of the rows."""
    with_features = DeviceRoom("cuda:0", 100 * MIB, 1024, feature_bytes=3 * 1024)
    alone = pool_by_share([ROOMY], 16, 0.8).row_count
    assert pool_by_share([with_features], 16, 0.8).row_count == alone // 4 // 16 * 16


@given(DEVICES, st.integers(1, 64), st.floats(0.01, 0.95))
def test_no_device_gives_more_than_its_share_and_one_more_block_would_take_it(
    devices, block_size, share
):
    size = pool_by_share(devices, block_size, share)

    def fits(row_count: int) -> bool:
        return all(
            row_count * (one.row_bytes + one.feature_bytes) <= int(share * one.free_bytes)
            for one in devices
        )

    assert fits(size.row_count)
    assert not fits(size.row_count + block_size)


def test_a_size_is_that_of_all_devices_together():
    size = pool_of_bytes([ROOMY, TIGHT], 16, 5 * MIB)
    assert size.block_count == 5 * MIB // (1024 + 4096) // 16
    assert sum(map(size.bytes_on, size.devices)) <= 5 * MIB


def test_a_size_that_does_not_fit_names_the_device_and_what_is_free():
    words = r"^16 MiB of it would lie on cuda:1, where 10 MiB are free$"
    with pytest.raises(PoolDoesNotFit, match=words):
        pool_of_bytes([ROOMY, TIGHT], 16, 20 * MIB)


def test_the_start_log_shows_blocks_tokens_and_every_device():
    assert str(pool_by_share([ROOMY, TIGHT], 16, 0.5)) == (
        "80 blocks of 16, 1280 tokens: 1 of 100 free MiB on cuda:0, 5 of 10 free MiB on cuda:1"
    )
