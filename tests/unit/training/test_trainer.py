"""How a batch is cut does not matter, and a killed run goes on as if it had not been."""

import json

import pytest
import torch

from outrider.settings import BadSettings
from outrider.training.batches import plan_epoch
from outrider.training.checkpoints import read_last_checkpoint
from outrider.training.head_training import HeadTraining
from outrider.training.optimiser import OptimiserOptions, TorchOptimiser, trained_weights
from outrider.training.parallel import ParallelKind, Ranks
from outrider.training.split import Split
from outrider.training.terminal import Terminal
from outrider.training.train_head import HeadRun, Pace
from outrider.training.trainer import Trainer
from outrider.training.training_log import read_log
from outrider.training.work_folder import WorkFolder, claim
from tests.unit.training.tiny_heads import CONFIGS, STEPS, make_conversations, make_data, make_head
from tests.unit.training.tiny_recipe import make_recipe

ALONE = Ranks(0, 1, torch.device("cpu"))
CONVERSATIONS = make_conversations(24)


def make_trainer(micro_tokens=1000, follow_every=2):
    config = CONFIGS["eagle3"]
    data = make_data(CONVERSATIONS, config)
    optimiser = TorchOptimiser(
        HeadTraining(make_head(config)), ParallelKind.NONE, ALONE, OptimiserOptions()
    )
    trainer = Trainer(data, optimiser, ALONE, 0.8, STEPS, micro_tokens, follow_every)
    return trainer, optimiser


@pytest.mark.parametrize("micro_tokens", [1, 30])
def test_accumulated_passes_equal_one_large_pass(micro_tokens):
    (whole, first), (cut, second) = make_trainer(), make_trainer(micro_tokens)
    for turn, batch in enumerate(plan_epoch([len(one) for one in CONVERSATIONS], 80, 0, 0)):
        expected, outcome = whole.step(batch, 1e-2, turn), cut.step(batch, 1e-2, turn)
        assert outcome.objective == pytest.approx(expected.objective, abs=1e-5)
        assert outcome.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-4)
        assert outcome.figures.accuracies == pytest.approx(expected.figures.accuracies)
    weights = trained_weights(first.state())
    for name, tensor in trained_weights(second.state()).items():
        torch.testing.assert_close(tensor, weights[name], atol=1e-5, rtol=1e-4)


def test_measuring_learns_nothing():
    trainer, optimiser = make_trainer()
    before = {name: tensor.clone() for name, tensor in optimiser.state().items()}
    figures = trainer.measure(range(5))
    assert figures.losses == pytest.approx(make_trainer(10)[0].measure(range(5)).losses)
    assert all(torch.equal(before[name], tensor) for name, tensor in optimiser.state().items())


class Killed(Exception):
    pass


def run_in(folder, stop_behind=None, epochs=2):
    """A run in a folder; `stop_behind` kills it behind so many of its own steps."""
    trainer, optimiser = make_trainer()
    taken = 0
    step = trainer.step

    def step_or_die(batch, rate, turn):
        nonlocal taken
        if taken == stop_behind:
            raise Killed
        taken += 1
        return step(batch, rate, turn)

    trainer.step = step_or_die
    lengths = [len(one) for one in CONVERSATIONS]
    split = Split(list(range(4, 24)), list(range(4)))
    recipe = make_recipe(epochs=epochs, batch_tokens=60)
    work = WorkFolder(folder, "run")
    work.prepare()
    run = HeadRun(trainer, optimiser, recipe, split, lengths, work, ALONE, Terminal(is_silent=True))
    state = run.run(Pace(measure_every=3, checkpoint_every=2))
    return state, [{**one, "seconds": 0} for one in read_log(work.log)], taken


def test_a_killed_run_has_the_same_curve_and_the_same_head(tmp_path):
    expected, records, steps = run_in(tmp_path / "whole")
    assert steps >= 6
    for stop in (3, 2):  # one step behind a checkpoint, and just as the next is due
        with pytest.raises(Killed):
            run_in(tmp_path / "cut", stop)
    state, resumed, taken = run_in(tmp_path / "cut")
    assert taken < steps
    assert resumed == records
    assert state.keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in state.items())


def test_a_finished_run_is_not_run_again(tmp_path):
    expected, records, _ = run_in(tmp_path)
    state, again, taken = run_in(tmp_path)
    assert taken == 0
    assert again == records
    assert all(torch.equal(tensor, expected[name]) for name, tensor in state.items())


def test_a_checkpoint_is_safetensors_and_json_and_the_last_two_are_kept(tmp_path):
    run_in(tmp_path)
    folders = sorted((tmp_path / "run" / "checkpoints").iterdir())
    assert len(folders) == 2
    for folder in folders:
        assert {path.name for path in folder.iterdir()} == {"state.safetensors", "progress.json"}
    steps_done = json.loads((folders[-1] / "progress.json").read_text())["steps_done"]
    checkpoint = read_last_checkpoint(tmp_path / "run" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.steps_done == steps_done
    assert not [name for name in checkpoint.state if "embed_tokens" in name]


def test_a_folder_of_other_settings_is_refused_in_words(tmp_path):
    claim(tmp_path, {"rate": 0.1, "layers": (1, 2)})
    claim(tmp_path, {"rate": 0.1, "layers": [1, 2]})
    with pytest.raises(BadSettings, match=r"rate 0\.1 \(now 0\.2\)"):
        claim(tmp_path, {"rate": 0.2, "layers": [1, 2]})
