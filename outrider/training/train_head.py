"""Stage (d): optimisation steps until the plan is done, with checkpoints that a killed run goes on
from exactly where it stood."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from outrider.training.batches import plan_epoch
from outrider.training.checkpoints import read_last_checkpoint, write_checkpoint
from outrider.training.curves import draw_curves
from outrider.training.optimiser import Optimiser
from outrider.training.parallel import Ranks
from outrider.training.recipe import Recipe
from outrider.training.split import Split
from outrider.training.terminal import Terminal
from outrider.training.trainer import Trainer
from outrider.training.training_log import Record, TrainingLog
from outrider.training.work_folder import WorkFolder


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things are done besides training, in optimisation steps; nothing depends on it.

    Args:
        measure_every: Held-out conversations are measured.
        checkpoint_every: A checkpoint is written.
    """

    measure_every: int
    checkpoint_every: int


class HeadRun:
    """One run; every rank makes the same one.

    Args:
        trainer: Takes the steps.
        optimiser: The same that the trainer has.
        recipe: Of the run.
        split: Conversations to train on and to measure.
        lengths: Tokens of each conversation.
        work: Where checkpoints, log and picture go.
        ranks: Who trains together; the first writes.
        terminal: Where progress is told.
    """

    def __init__(
        self,
        trainer: Trainer,
        optimiser: Optimiser,
        recipe: Recipe,
        split: Split,
        lengths: Sequence[int],
        work: WorkFolder,
        ranks: Ranks,
        terminal: Terminal,
    ) -> None:
        self._trainer, self._optimiser, self._recipe = trainer, optimiser, recipe
        self._split, self._work, self._ranks, self._terminal = split, work, ranks, terminal
        own = [lengths[index] for index in split.training]
        self._plan = [
            [split.training[place] for place in batch]
            for epoch in range(recipe.epochs)
            for batch in plan_epoch(own, recipe.batch_tokens, recipe.seed, epoch)
        ]
        self._tokens = [sum(lengths[index] for index in batch) for batch in self._plan]

    def run(self, pace: Pace) -> dict[str, Tensor]:
        """Takes all steps that are left.

        Returns:
            The final state, on the first rank.
        """
        checkpoint = read_last_checkpoint(self._work.checkpoints)
        done = checkpoint.steps_done if checkpoint else 0
        if checkpoint:
            self._terminal.say(f"training: goes on behind step {done} of {len(self._plan)}")
            self._optimiser.load(checkpoint.state)
        log = TrainingLog(self._work.log, done) if self._ranks.is_first else None
        if not done:
            self._measure(0, log)
        schedule = self._recipe.schedule(len(self._plan))
        total, before = sum(self._tokens), sum(self._tokens[:done])
        with self._terminal.bar("training (tokens)", total, before) as advance:
            for step in range(done, len(self._plan)):
                begin = time.monotonic()
                rate = schedule.rate(step)
                outcome = self._trainer.step(self._plan[step], rate, turn=step)
                record = {
                    "step": step + 1,
                    "objective": outcome.objective,
                    "rate": rate,
                    "gradient_norm": outcome.gradient_norm,
                    "tokens": sum(self._tokens[: step + 1]),
                    "seconds": time.monotonic() - begin,
                    **outcome.figures.document(),
                }
                self._write(log, record)
                is_last = step + 1 == len(self._plan)
                if is_last or (step + 1) % pace.measure_every == 0:
                    self._measure(step + 1, log)
                if is_last or (step + 1) % pace.checkpoint_every == 0:
                    self._save(step + 1)
                advance(self._tokens[step])
        return self._optimiser.state()

    def _measure(self, step: int, log: TrainingLog | None) -> None:
        if not self._split.held_out:
            return
        figures = self._trainer.measure(self._split.held_out)
        self._write(log, {"step": step, "held_out": True, **figures.document()})
        shares = " ".join(f"{accuracy:.3f}" for accuracy in figures.accuracies)
        self._terminal.say(
            f"held out, step {step} of {len(self._plan)}: accuracy {shares}, "
            f"chain of {figures.chain_length:.2f} tokens per round"
        )
        if log is not None:
            title = f"{self._recipe.kind} head, {len(self._plan)} steps"
            self._work.curves.write_text(draw_curves(log.records, title), encoding="utf-8")

    def _write(self, log: TrainingLog | None, record: Record) -> None:
        if log is not None:
            log.append(record)

    def _save(self, steps_done: int) -> None:
        state = self._optimiser.state()
        if self._ranks.is_first:
            notes = {"steps": len(self._plan), "tokens": sum(self._tokens[:steps_done])}
            write_checkpoint(self._work.checkpoints, steps_done, state, notes)
