import torch

from outrider.modeling.ragged_batch import SegmentRows, build_ragged_batch
from verify_service.thread_choice import ThreadChoice
from verify_service.timed_model import TimedModel


class Watched:
    """Says with how many threads it was run, and takes longer with more."""

    def __init__(self) -> None:
        self.now = 0.0
        self.threads: list[int] = []
        self.moved: list[tuple[list[int], list[int]]] = []

    def forward(self, batch) -> torch.Tensor:
        self.threads.append(torch.get_num_threads())
        self.now += self.threads[-1]
        return torch.full((1, 2), float(len(batch.token_ids)))

    def forward_with_features(self, batch, feature_layers) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward(batch), torch.tensor(feature_layers)

    def move_rows(self, sources, destinations) -> None:
        self.moved.append((sources, destinations))


def test_passes_run_on_the_chosen_threads_and_are_timed():
    before = torch.get_num_threads()
    try:
        watched = Watched()
        timed = TimedModel(watched, ThreadChoice((1, 2)), lambda: watched.now)
        batch = build_ragged_batch([SegmentRows([0], [-1], 0, range(1), 0)])
        assert [timed.forward(batch).tolist() for _ in range(4)] == [[[1.0, 1.0]]] * 4
        assert watched.threads == [2, 1, 1, 1]
        logits, features = timed.forward_with_features(batch, (2, 5))
        assert (logits.tolist(), features.tolist()) == ([[1.0, 1.0]], [2, 5])
        assert watched.threads == [2, 1, 1, 1, 1]
        timed.move_rows([1], [2])
        assert watched.moved == [([1], [2])]
    finally:
        torch.set_num_threads(before)
