"""Allocates the KV pool: asks each device what is free, and says what became of it."""

import logging

from outrider.modeling.target import TargetModel
from outrider.settings import BadSettings
from verify_service.free_memory import free_bytes
from verify_service.kv_blocks import KvBlocks
from verify_service.pool_size import (
    MIB,
    DeviceRoom,
    PoolDoesNotFit,
    PoolSize,
    pool_by_share,
    pool_of_bytes,
)
from verify_service.ranks import Ranks
from verify_service.settings import VerifySettings

FEATURE_LAYERS = 3  # that EAGLE-3 heads read; others read one

logger = logging.getLogger(__name__)


def allocate_pool(model: TargetModel, settings: VerifySettings, ranks: Ranks) -> KvBlocks:
    """Makes the pool as large as the settings say, equally large on all ranks.

    Raises:
        BadSettings: It does not fit, or it does not hold a single tree.
    """
    devices = _devices(model, ranks)
    if settings.kv_cache_share:
        setting = f"--kv-cache-share {settings.kv_cache_share:g}"
        size = pool_by_share(devices, settings.block_size, settings.kv_cache_share)
    else:
        setting = f"--kv-cache-mib {settings.kv_cache_mib}"
        try:
            size = pool_of_bytes(devices, settings.block_size, settings.kv_cache_mib * MIB)
        except PoolDoesNotFit as error:
            raise BadSettings(f"{setting}: {error}") from error
    _check_holds_a_tree(size, setting, settings.max_nodes)
    model.allocate(size.row_count)
    if ranks.is_first:
        logger.info("KV pool by %s: %s", setting, size)
    return KvBlocks(size.block_count, settings.block_size, settings.prefix_cache)


def _devices(model: TargetModel, ranks: Ranks) -> list[DeviceRoom]:
    """The devices of all ranks; every rank gets the same list."""
    if ranks.count == 1:
        return [
            _room(str(device), free_bytes(device), row_bytes, model, device == model.device)
            for device, row_bytes in model.row_bytes.items()
        ]
    ((device, row_bytes),) = model.row_bytes.items()
    free = free_bytes(device)
    if device.type == "cpu":
        free //= ranks.local_count  # they share it
    return [
        _room(f"rank {rank} ({device.type})", one_free, one_row, model, rank == 0)
        for rank, (one_free, one_row) in enumerate(ranks.gather([free, row_bytes]))
    ]


def _room(
    name: str, free: int, row_bytes: int, model: TargetModel, keeps_features: bool
) -> DeviceRoom:
    return DeviceRoom(
        name, free, row_bytes, FEATURE_LAYERS * model.feature_bytes if keeps_features else 0
    )


def _check_holds_a_tree(size: PoolSize, setting: str, max_nodes: int) -> None:
    if size.row_count < max_nodes + 2:
        row_bytes = sum(device.row_bytes for device in size.devices)
        raise BadSettings(
            f"{setting} holds {size.block_count} blocks of {size.block_size} rows "
            f"({row_bytes} bytes a row); a tree of {max_nodes} nodes does not fit"
        )
