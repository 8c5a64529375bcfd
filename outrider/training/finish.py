"""The end of a run: what was trained becomes a head in a published format, with its card."""

from collections.abc import Mapping

import torch
from torch import Tensor

from outrider.training.curves import draw_curves
from outrider.training.figures import Figures
from outrider.training.gather import sources
from outrider.training.model_card import CardFacts, model_card
from outrider.training.optimiser import trained_weights
from outrider.training.options import TrainOptions
from outrider.training.run_setup import Setup
from outrider.training.training_log import read_log
from outrider.training.work_folder import WorkFolder
from outrider.training.write_result import (
    HeadNaming,
    finished_head,
    parameter_count,
    write_result,
)


def finish(
    setup: Setup, options: TrainOptions, state: Mapping[str, Tensor], work: WorkFolder
) -> None:
    """Writes head, card and picture.

    Args:
        setup: Of the run.
        options: How to write.
        state: Final one, as `Optimiser.state` gives it.
        work: Where to.

    Raises:
        BadCheckpoint: The format cannot hold the head.
    """
    naming = HeadNaming(
        options.format,
        getattr(torch, options.head_dtype),
        setup.target.name,
        setup.target.files.context_limit,
    )
    weights = {
        name.removeprefix("head."): tensor for name, tensor in trained_weights(state).items()
    }
    head = finished_head(setup.config, weights, setup.target_ids, naming)
    training = [setup.conversations[index] for index in setup.split.training]
    facts = CardFacts(
        target=setup.target.name,
        license=options.license,
        kind=setup.config.kind,
        parameters=parameter_count(head),
        dtype=options.head_dtype,
        sources=sources(options, setup.target),
        conversations=len(training),
        tokens=sum(map(len, training)),
        held_out=len(setup.split.held_out),
        draft_vocab_size=len(setup.vocabulary.target_ids),
        coverage=setup.vocabulary.coverage,
        recipe=setup.recipe.document(),
        figures=held_out_figures(work),
        baseline=setup.baseline,
    )
    picture = draw_curves(read_log(work.log), f"A head for {setup.target.name}")
    write_result(work.head, head, model_card(facts), picture)


def held_out_figures(work: WorkFolder) -> Figures | None:
    """The last measurement of a run; None where nothing is held out."""
    measured = [record for record in read_log(work.log) if record.get("held_out")]
    return Figures.from_document(measured[-1]) if measured else None
