"""The processes that hold one target in parts: who this one is, and how they talk in each step.

They are started by `torchrun`, which says in the environment who is who, or by the first of them
(`rank_processes.py`). What they say to one another apart from the networks' own sums goes over gloo
between CPUs, as whole numbers of a fixed form.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import torch
from torch import distributed as dist

from outrider.settings import BadSettings
from verify_service.step import TargetLost
from verify_service.step_frames import Frame

# Weights of a large model may reach some ranks long before others; steps follow one another closely
# but for the idle time of the service, which has no end.
LOAD_LIMIT = timedelta(hours=2)
IDLE_LIMIT = timedelta(days=365)
FIRST_NUMBERS = 512  # of a frame, sent at once; most frames need no second turn

MEETING_VARIABLE = "OUTRIDER_RANKS_MEETING"  # file at which ranks meet that torchrun did not start


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those that run a target together.

    Args:
        rank: From 0; the first one decides and talks to draft workers.
        count: Processes; 1: this one has the whole target.
        local_count: Those on this machine.
        link: To the others; None where there are none.
    """

    rank: int = 0
    count: int = 1
    local_count: int = 1
    link: "dist.ProcessGroup | None" = field(default=None, repr=False)

    @property
    def is_first(self) -> bool:
        """True for the rank that decides."""
        return self.rank == 0

    def own_threads(self, core_count: int) -> int:
        """Threads of this rank's passes on the cores that all ranks of this machine share."""
        return max(1, core_count // self.local_count)

    def gather(self, numbers: Sequence[int]) -> list[list[int]]:
        """The numbers of every rank, in their order; all ranks come here, with equally many.

        Raises:
            TargetLost: A rank is gone.
        """
        if self.link is None:
            return [list(numbers)]
        own = torch.tensor(numbers, dtype=torch.int64)
        found = [torch.empty_like(own) for _ in range(self.count)]
        with _words_for_a_lost_rank():
            dist.all_gather(found, own, group=self.link)
        return [one.tolist() for one in found]

    def send(self, frame: Frame) -> None:
        """Hands a frame to every other rank, from the first.

        Raises:
            TargetLost: A rank is gone.
        """
        first = np.zeros(FIRST_NUMBERS, np.int64)
        first[0] = len(frame)
        head, rest = frame[: FIRST_NUMBERS - 1], frame[FIRST_NUMBERS - 1 :]
        first[1 : 1 + len(head)] = head
        self._broadcast(torch.from_numpy(first))
        if len(rest):
            self._broadcast(torch.from_numpy(rest))

    def receive(self) -> Frame:
        """Waits for the first rank's next frame, for as long as it takes.

        Raises:
            TargetLost: The first rank is gone.
        """
        first = self._broadcast(torch.empty(FIRST_NUMBERS, dtype=torch.int64))
        length = int(first[0])
        head = first[1 : 1 + length].numpy()
        if length < FIRST_NUMBERS:
            return head
        rest = self._broadcast(torch.empty(length - len(head), dtype=torch.int64))
        return np.concatenate([head, rest.numpy()])

    def _broadcast(self, numbers: torch.Tensor) -> torch.Tensor:
        with _words_for_a_lost_rank():
            dist.broadcast(numbers, src=0, group=self.link)
        return numbers


@contextmanager
def _words_for_a_lost_rank() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # all that gloo says
        raise TargetLost("another rank of the target is gone") from error


def rank_of(environ: Mapping[str, str]) -> int:
    """Which of the ranks this process is; 0 where it was started alone."""
    return int(environ.get("RANK", "0"))


@contextmanager
def join_ranks(environ: Mapping[str, str]) -> Iterator[Ranks]:
    """Joins the processes that were started together, or none.

    Args:
        environ: `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE` as `torchrun` sets them.

    Yields:
        Who this process is. Left without an error, the process group is closed.

    Raises:
        BadSettings: This machine has too few GPUs for its ranks.
    """
    count = int(environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Ranks()
        return
    rank, local_count = rank_of(environ), int(environ.get("LOCAL_WORLD_SIZE", count))
    device = _own_device(int(environ.get("LOCAL_RANK", rank)), local_count)
    meeting = environ.get(MEETING_VARIABLE, "")
    dist.init_process_group(
        "nccl" if device is not None else "gloo",
        init_method=f"file://{meeting}" if meeting else "env://",
        rank=rank,
        world_size=count,
        timeout=LOAD_LIMIT,
        device_id=device,
    )
    yield Ranks(rank, count, local_count, dist.new_group(backend="gloo", timeout=IDLE_LIMIT))
    dist.destroy_process_group()


def _own_device(local_rank: int, local_count: int) -> torch.device | None:
    """This rank's GPU; None where the target runs on CPUs."""
    if not torch.cuda.is_available():
        return None
    gpu_count = torch.cuda.device_count()
    if gpu_count < local_count:
        raise BadSettings(
            f"--tensor-parallel: {local_count} ranks on this machine, but {gpu_count} GPUs"
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device
