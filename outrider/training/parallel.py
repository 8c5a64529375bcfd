"""How a training run is spread over processes: what differs between one, DDP, FSDP2 and DeepSpeed.

The loop above sees one interface; every rank runs the same steps on its own share of each batch.
Processes are started by `torchrun`, which says in the environment who is who.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import torch
from torch import Tensor
from torch import distributed as dist

WAIT_LIMIT = timedelta(days=7)  # rank 0 may make data for days while the others wait


class ParallelKind(StrEnum):
    """How weights, gradients and optimiser state are spread."""

    NONE = "none"
    DDP = "ddp"
    FSDP2 = "fsdp2"
    DEEPSPEED = "deepspeed"


@dataclass(frozen=True, slots=True)
class Ranks:
    """Who this process is among those that train together.

    Args:
        rank: From 0.
        count: Processes.
        device: Of this one.
    """

    rank: int
    count: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """True for the one that writes files."""
        return self.rank == 0

    def add_up(self, values: Tensor) -> Tensor:
        """Sum over all ranks."""
        if self.count == 1:
            return values
        total = values.clone()
        dist.all_reduce(total)
        return total

    def wait_for_all(self) -> None:
        """Returns when every rank has come here."""
        if self.count > 1:
            dist.barrier()


@contextmanager
def join_ranks(environ: Mapping[str, str] = os.environ, device: str = "") -> Iterator[Ranks]:
    """Joins the processes that `torchrun` started, or none.

    Args:
        environ: Holds `RANK`, `WORLD_SIZE` and `LOCAL_RANK` where `torchrun` started this process.
        device: "cpu", "cuda", ...; empty: CUDA where there is some.

    Yields:
        Who this process is.
    """
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    local_rank = int(environ.get("LOCAL_RANK", "0"))
    own = torch.device(f"cuda:{local_rank}") if kind == "cuda" else torch.device(kind)
    count = int(environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Ranks(0, 1, own)
        return
    if own.type == "cuda":
        torch.cuda.set_device(own)
    dist.init_process_group("nccl" if own.type == "cuda" else "gloo", timeout=WAIT_LIMIT)
    try:
        yield Ranks(dist.get_rank(), count, own)
        dist.barrier()  # who leaves while others still talk may bring them down
    finally:
        dist.destroy_process_group()
