"""Each device is shown once, as it is when the page is read; a CPU is not."""

import torch

from outrider.telemetry.metrics import VerifyMetrics
from verify_service.device_memory import show_device_memory


def test_a_device_is_asked_when_the_page_is_read() -> None:
    free = {torch.device("cuda", 0): 30, torch.device("cuda", 1): 100}
    metrics = VerifyMetrics()
    devices = [torch.device("cuda", 0), torch.device("cuda", 1), torch.device("cuda", 0)]
    show_device_memory(metrics.device_memory, devices, lambda device: (free[device], 100))
    free[torch.device("cuda", 0)] = 20

    def shown(device: str, state: str) -> float | None:
        labels = {"device": device, "state": state}
        return metrics.registry.get_sample_value("outrider_device_memory_bytes", labels)

    assert (shown("cuda:0", "free"), shown("cuda:0", "used")) == (20, 80)
    assert (shown("cuda:1", "free"), shown("cuda:1", "used")) == (100, 0)


def test_a_cpu_is_not_shown() -> None:
    metrics = VerifyMetrics()
    show_device_memory(metrics.device_memory, [torch.device("cpu")])
    assert not next(iter(metrics.device_memory.collect())).samples
