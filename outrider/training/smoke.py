"""`outrider train --smoke`: every stage on a tiny target, in under two minutes."""

import tempfile
from dataclasses import replace
from pathlib import Path

from outrider.settings import BadSettings
from outrider.training.options import TrainOptions
from outrider.training.pipeline import Result
from outrider.training.smoke_target import build_smoke_target
from outrider.training.terminal import Terminal

TIMES_CHANCE = 20.0  # what "clearly above chance" means here
TIMES_COMMONEST = 2.0


def smoke_options(options: TrainOptions, terminal: Terminal) -> TrainOptions:
    """Options for a target that is made here, as small as all else.

    Args:
        options: As given; `--work`, `--address`, `--kind`, `--parallel` and the like are kept.
        terminal: Told of the target.

    Raises:
        BadSettings: A target or data of one's own was named.
    """
    if options.model or options.conversations or options.prompts.files:
        raise BadSettings("--smoke makes its own target and data; leave those options out")
    work = options.work or Path(tempfile.mkdtemp(prefix="outrider-smoke-"))
    target = work / "target"
    if not (target / "model.safetensors").exists():
        build_smoke_target(target, seed=1)
    terminal.say(f"smoke: a tiny random target in {target}")
    return replace(
        options,
        work=work,
        model=str(target),
        target_dtype="float32",
        threads=options.threads or 1,
        prompts=replace(options.prompts, own_count=128, max_tokens=12, keeps_cut=True, top_k=0),
        answers=replace(options.answers, max_new_tokens=64),
        recipe=replace(
            options.recipe,
            draft_vocab_size=400,
            chain_steps=4,
            epochs=12,
            batch_tokens=512,
            peak_rate=1e-2,
            held_out_share=0.1,
        ),
        micro_tokens=1024,
        license=options.license or "Apache-2.0",
    )


def verdict(result: Result) -> tuple[str, bool]:
    """What to say of a finished smoke run, and whether its head works."""
    assert result.figures is not None, "a smoke run holds conversations out"
    accuracy, chance = result.figures.accuracies[0], 1.0 / result.vocab_size
    works = accuracy > TIMES_CHANCE * chance and accuracy > TIMES_COMMONEST * result.baseline
    text = (
        f"smoke: the head's first guess is right for {accuracy:.1%} of the held-out tokens "
        f"(chance {chance:.1%}, always the commonest token {result.baseline:.1%}); chains of "
        f"{len(result.figures.accuracies)} guesses had {result.figures.chain_length:.2f} tokens "
        f"per round: {'it works' if works else 'that is too little, something is broken'}\n"
        "Try next: look at it, and make a real one, for the embedded model, on this machine:\n"
        f"  outrider inspect {result.head} --target {result.target}\n"
        "  outrider train --work ~/outrider-head"
    )
    return text, works
