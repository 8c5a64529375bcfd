"""How full the devices of the target are, for the metrics page, which asks when it is read.

Refuses to know who has filled them: other processes on the same device count too.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from prometheus_client import Gauge

MemoryInfo = Callable[[torch.device], tuple[int, int]]


def show_device_memory(
    gauge: Gauge,
    devices: Iterable[torch.device],
    memory_info: MemoryInfo = torch.accelerator.get_memory_info,
) -> None:
    """Shows each device from now on; a CPU's memory is the process's own and not shown here.

    Args:
        gauge: With the labels `device` and `state`.
        devices: Of the target; repeats are shown once.
        memory_info: Free bytes and all bytes of a device; called from the metrics thread.
    """
    for device in {device for device in devices if device.type != "cpu"}:
        gauge.labels(str(device), "free").set_function(partial(_free, memory_info, device))
        gauge.labels(str(device), "used").set_function(partial(_used, memory_info, device))


def _free(memory_info: MemoryInfo, device: torch.device) -> int:
    return memory_info(device)[0]


def _used(memory_info: MemoryInfo, device: torch.device) -> int:
    free, total = memory_info(device)
    return total - free
