"""All stages of a run, from prompts to a written head; every rank runs the same."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from outrider.modeling.dtypes import choose_dtype
from outrider.modeling.heads.checkpoints import load_head
from outrider.modeling.heads.head_config import HeadKind
from outrider.modeling.heads.heads import build_head
from outrider.modeling.target import TargetModel
from outrider.settings import BadSettings
from outrider.training.capture import TargetCapture
from outrider.training.captured import FeatureSource
from outrider.training.conversation import BadConversations
from outrider.training.deepspeed_optimiser import DeepSpeedOptimiser, import_deepspeed
from outrider.training.figures import Figures
from outrider.training.finish import finish, held_out_figures
from outrider.training.gather import gather
from outrider.training.head_training import HeadTraining, TrainableHead
from outrider.training.initial_head import initial_head
from outrider.training.make_features import FeaturePlan, Features
from outrider.training.optimiser import (
    Optimiser,
    OptimiserOptions,
    TorchOptimiser,
)
from outrider.training.options import TrainOptions
from outrider.training.parallel import ParallelKind, Ranks
from outrider.training.run_setup import Setup, set_up
from outrider.training.target_folder import open_target
from outrider.training.terminal import Terminal
from outrider.training.train_head import HeadRun
from outrider.training.trainer import Trainer
from outrider.training.training_data import TrainingData
from outrider.training.work_folder import WorkFolder, claim, read_conversations
from outrider.training.write_result import check_format


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run.

    Args:
        head: Folder of the head.
        target: Folder of its target.
        figures: On the held-out conversations; None where there were none.
        baseline: What always saying their commonest token would reach.
        vocab_size: Of the target.
    """

    head: Path
    target: Path
    figures: Figures | None
    baseline: float
    vocab_size: int


def run_pipeline(options: TrainOptions, ranks: Ranks, terminal: Terminal) -> Result:
    """Runs what has not been done yet.

    Args:
        options: With a work folder.
        ranks: Who works together.
        terminal: Where progress is told.

    Raises:
        AskFailed: The service fails.
        BadCheckpoint: The target's files lack something, the head to go on from cannot be used, or
            the format cannot hold the head.
        BadConversations: There is nothing to train on.
        BadSettings: A setting cannot be used, or the work was begun with others.
        ServiceFailed: No service could be started.
    """
    _check_parallel(options.parallel, ranks)
    if options.threads:
        torch.set_num_threads(options.threads)
    target = open_target(options.model)
    options = _within(options, target.files.context_limit)
    assert options.work is not None, "a run has a work folder"
    work = WorkFolder(options.work, options.run)
    if ranks.is_first:
        work.prepare()
        gather(options, target, work, terminal)
    ranks.wait_for_all()
    conversations = read_conversations(work.conversations, target.files.vocab_size)
    earlier = load_head(options.from_head, target.files) if options.from_head else None
    setup = set_up(target, options.recipe, conversations, _end_ids(target.folder), earlier)
    _describe(setup, terminal)
    check_format(setup.config, options.format)
    if not setup.split.training:
        raise BadConversations("all conversations have one prompt, and that one is held out")
    if ranks.is_first:
        claim(work.run, setup.run_key)
    source = _features(setup, options, work, ranks, terminal)
    state = _train(setup, options, source, work, ranks, terminal)
    if ranks.is_first:
        finish(setup, options, state, work)
        terminal.say(f"head: {work.head}")
    figures = held_out_figures(work)
    return Result(work.head, target.folder, figures, setup.baseline, target.files.vocab_size)


def _check_parallel(kind: ParallelKind, ranks: Ranks) -> None:
    if kind is ParallelKind.DEEPSPEED:
        import_deepspeed()
    if kind is ParallelKind.NONE and ranks.count > 1:
        raise BadSettings("torchrun started several processes: name --parallel ddp or fsdp2")
    if kind is not ParallelKind.NONE and ranks.count == 1:
        raise BadSettings(f"--parallel {kind} is for several processes: start with torchrun")


def _within(options: TrainOptions, context_limit: int | None) -> TrainOptions:
    """No conversation is longer than what the target was made for."""
    most = min(options.recipe.max_tokens, context_limit or options.recipe.max_tokens)
    return replace(
        options,
        recipe=replace(options.recipe, max_tokens=most),
        answers=replace(options.answers, max_tokens=most),
    )


def _end_ids(folder: Path) -> tuple[int, ...]:
    # The checkpoint's own word, read without its weights.
    from transformers import AutoConfig, GenerationConfig  # noqa: PLC0415

    try:
        ends = GenerationConfig.from_pretrained(folder).eos_token_id
    except OSError:
        ends = AutoConfig.from_pretrained(folder).get_text_config().eos_token_id
    return tuple(ends) if isinstance(ends, list) else () if ends is None else (int(ends),)


def _describe(setup: Setup, terminal: Terminal) -> None:
    vocabulary, config = setup.vocabulary, setup.config
    asked = setup.recipe.draft_vocab_size
    few = f" ({asked} were asked for)" if len(vocabulary.target_ids) < asked else ""
    terminal.say(
        f"draft vocabulary: {len(vocabulary.target_ids)} tokens{few}, "
        f"{vocabulary.coverage:.2%} of those that count; features of boundaries "
        f"{', '.join(map(str, config.feature_layers))}; {len(setup.split.training)} conversations "
        f"to train on, {len(setup.split.held_out)} held out"
    )


def _features(
    setup: Setup, options: TrainOptions, work: WorkFolder, ranks: Ranks, terminal: Terminal
) -> FeatureSource:
    plan = FeaturePlan(
        conversations=setup.conversations,
        loss_on=setup.recipe.loss_on,
        feature_size=setup.config.feature_size,
        likely_count=setup.recipe.likely_count,
        passes=setup.recipe.epochs,
        held_out=setup.split.held_out,
        key=setup.feature_key | {"dtype": options.target_dtype},
    )

    def load_capture() -> TargetCapture:
        on_cpu = ranks.device.type == "cpu"
        dtype = choose_dtype(options.target_dtype, on_cpu)
        try:
            model = TargetModel.load(setup.target.folder, dtype, str(ranks.device))
        except (OSError, ValueError) as error:
            raise BadSettings(f"--model {setup.target.name}: {error}") from error
        if not model.facts.hidden_size:
            raise BadSettings(f"--model {setup.target.name}: it shows no features")
        return TargetCapture(
            model,
            setup.config.feature_layers,
            setup.target_ids,
            setup.target.files.lm_head(),
            setup.recipe.likely_count,
            options.pass_tokens,
            max(map(len, setup.conversations)),
        )

    return Features(plan, load_capture, work.features, ranks, terminal).source(options.features)


def _train(
    setup: Setup,
    options: TrainOptions,
    source: FeatureSource,
    work: WorkFolder,
    ranks: Ranks,
    terminal: Terminal,
) -> dict[str, Tensor]:
    recipe = setup.recipe
    tensors = _first_tensors(setup, terminal)
    head = build_head(setup.config, tensors, torch.float32, str(ranks.device))
    module = HeadTraining(
        _trainable(head),
        recipe.token_weight,
        recipe.feature_weight,
        getattr(torch, recipe.precision),
    )
    optimiser = _optimiser(module, setup, options, ranks)
    data = TrainingData(
        setup.conversations,
        setup.vocabulary.draft_ids(setup.config.vocab_size),
        source,
        recipe.loss_on,
        recipe.chain_steps,
        ranks.device,
    )
    trainer = Trainer(
        data, optimiser, ranks, recipe.step_decay, recipe.chain_steps, options.micro_tokens,
        recipe.follow_every,
    )  # fmt: skip
    run = HeadRun(trainer, optimiser, recipe, setup.split, data.lengths, work, ranks, terminal)
    return run.run(options.pace)


def _first_tensors(setup: Setup, terminal: Terminal) -> Mapping[str, Tensor]:
    if setup.earlier is not None:
        return setup.earlier.tensors
    initial = initial_head(
        setup.config,
        setup.target.files,
        setup.target_ids,
        setup.recipe.from_target,
        setup.recipe.seed,
    )
    if initial.drawn:
        terminal.say(f"training: starts at random: {', '.join(initial.drawn)}")
    return initial.tensors


def _trainable(head: object) -> TrainableHead:
    """The head in training mode; what belongs to the target stays as it is."""
    assert isinstance(head, TrainableHead)
    head.train()
    head.embed_tokens.weight.requires_grad_(False)
    head.lm_head.weight.requires_grad_(head.config.kind is not HeadKind.EAGLE1)
    return head


def _optimiser(
    module: HeadTraining, setup: Setup, options: TrainOptions, ranks: Ranks
) -> Optimiser:
    settings = OptimiserOptions(
        weight_decay=setup.recipe.weight_decay, max_norm=setup.recipe.max_norm
    )
    if options.parallel is ParallelKind.DEEPSPEED:
        return DeepSpeedOptimiser(module, settings)
    return TorchOptimiser(module, options.parallel, ranks, settings)
