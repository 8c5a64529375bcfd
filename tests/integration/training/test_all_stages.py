"""Every stage on a smaller smoke run with a service of its own; then nothing is done twice."""

from dataclasses import replace
from pathlib import Path

import pytest

from outrider.modeling.heads.checkpoints import TargetFiles, load_head
from outrider.training.options import TrainOptions, read_options
from outrider.training.parallel import join_ranks
from outrider.training.pipeline import Result, run_pipeline
from outrider.training.smoke import smoke_options
from outrider.training.terminal import Terminal
from outrider.training.training_log import read_log


class Listener(Terminal):
    """Remembers what was said."""

    def __init__(self) -> None:
        super().__init__(is_silent=True)
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def small(options: TrainOptions, terminal: Terminal) -> TrainOptions:
    """A smoke run with less of everything."""
    options = smoke_options(options, terminal)
    return replace(
        options,
        prompts=replace(options.prompts, own_count=40),
        answers=replace(options.answers, max_new_tokens=40),
        recipe=replace(options.recipe, epochs=10, chain_steps=2, batch_tokens=512),
    )


def run(work: Path, *flags: str) -> tuple[Result, list[str]]:
    listener = Listener()
    given = read_options(["--smoke", "--work", str(work), "--device", "cpu", *flags])
    options = small(given, listener)
    with join_ranks({}, "cpu") as ranks:
        return run_pipeline(options, ranks, listener), listener.said


@pytest.mark.slow
def test_from_nothing_to_a_head_and_no_stage_twice(tmp_path: Path) -> None:
    result, said = run(tmp_path)
    assert result.figures is not None
    assert result.figures.accuracies[0] > 20 / result.vocab_size
    assert any("starting a service" in text for text in said)
    head = load_head(result.head, TargetFiles(result.target))
    assert len(head.tensors["target_ids"]) == head.config.draft_vocab_size <= 400
    assert "| chain_steps | 2 |" in (result.head / "README.md").read_text()
    assert (result.head / "curves.svg").read_text().startswith("<svg")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "features").iterdir()}
    records = read_log(tmp_path / "run" / "log.jsonl")

    again, said = run(tmp_path)
    assert again.figures == result.figures
    assert not any("starting a service" in text for text in said)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "features").iterdir()} == before
    assert read_log(tmp_path / "run" / "log.jsonl") == records

    # Another run may go on from this head, with its vocabulary, and over the same stored features.
    flags = ("--run", "next", "--from-head", str(result.head), "--step-decay", "0.7")
    following, said = run(tmp_path, *flags)
    assert any("0 are not stored yet" in text for text in said)
    start = read_log(tmp_path / "next" / "log.jsonl")[0]
    assert start["accuracies"] == pytest.approx(result.figures.accuracies, abs=0.03)
    after = load_head(following.head, TargetFiles(result.target))
    assert (after.tensors["target_ids"] == head.tensors["target_ids"]).all()
    assert "went on" in (following.head / "README.md").read_text()
