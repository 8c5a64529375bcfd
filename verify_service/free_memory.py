"""How many bytes are free on a device, or in the part of this machine's memory that is ours.

A container may use no more than its control group says, whatever the machine has.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import psutil
import torch

GROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")

# Files of the two versions of control groups: limit, use, and the line of memory.stat with what is
# counted as used but only caches files.
_V2 = ("memory.max", "memory.current", "inactive_file")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated on a device."""
    if device.type == "cpu":
        available: int = psutil.virtual_memory().available
        return min([available, *control_group_rooms(GROUPS, MEMBERSHIP)])
    torch.accelerator.empty_cache()  # what torch has freed and not given back is free too
    return torch.accelerator.get_memory_info(device)[0]


def control_group_rooms(groups: Path, membership: Path) -> list[int]:
    """Bytes that are left to this process's control group and to each of those above it.

    Args:
        groups: Where control groups are mounted.
        membership: This process's list of them.

    Returns:
        Empty where there is no limit, or no such thing as control groups.
    """
    try:
        lines = membership.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    rooms: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            rooms += _rooms(groups, path, _V2)
        elif "memory" in controllers.split(","):
            rooms += _rooms(groups / "memory", path, _V1)
    return rooms


def _rooms(mount: Path, path: str, names: tuple[str, str, str]) -> Iterator[int]:
    limit_name, use_name, cache_name = names
    group = PurePosixPath(path)
    # In a container its own group may be mounted as the root; the path is the machine's then.
    for one in (group, *group.parents):
        folder = mount / str(one).lstrip("/")
        try:
            limit = int((folder / limit_name).read_text(encoding="ascii"))
            used = int((folder / use_name).read_text(encoding="ascii"))
            stat = (folder / "memory.stat").read_text(encoding="ascii")
        except (OSError, ValueError):  # not there, or "max"
            continue
        cached = next((int(v) for k, v in map(str.split, stat.splitlines()) if k == cache_name), 0)
        yield max(0, limit - used + cached)
