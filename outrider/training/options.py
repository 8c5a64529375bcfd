"""The options of `outrider train`: flags in, checked values out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.modeling.heads.head_config import HeadKind
from outrider.settings import BadSettings
from outrider.training.conversation import LossOn
from outrider.training.make_answers import AnswerOptions
from outrider.training.make_prompts import PromptOptions
from outrider.training.option_flags import DEFAULT_OWN_PROMPTS, build_parser
from outrider.training.parallel import ParallelKind
from outrider.training.recipe import Recipe
from outrider.training.shards import FeatureMode
from outrider.training.train_head import Pace

# Per kind: chain steps, weight of the token loss, weight of the feature loss (EAGLE, section 4.2).
KIND_DEFAULTS = {HeadKind.EAGLE3: (6, 1.0, 0.0), HeadKind.EAGLE1: (3, 0.1, 1.0)}


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """All of them.

    Args:
        smoke: Train a head for a tiny target made on the spot.
        work: Folder of the run; None where a smoke run may choose.
        run: Name of this head within it.
        model: Target as it was named.
        prompts: Where prompts come from.
        answers: How they are answered.
        address: Of a running service; empty: one is started.
        streams: Requests at a time.
        method: Draft method; empty: the service's.
        conversations: Files of `{ids, p}` rows.
        features: Where features come from.
        pass_tokens: Most tokens of the target's forward passes.
        target_dtype: Of the target.
        device: Of head and target; empty: CUDA where there is some.
        threads: Of torch on a CPU; 0: its own choice.
        from_head: Folder of a head that training goes on from; None: it begins anew.
        recipe: How the head is trained; its feature layers are filled in when the target is known.
        micro_tokens: Most tokens of the head's forward passes.
        parallel: How several ranks work together.
        pace: How often to measure and to save.
        format: Published format to write.
        head_dtype: Of the written weights.
        license: For the card.
    """

    smoke: bool
    work: Path | None
    run: str
    model: str
    prompts: PromptOptions
    answers: AnswerOptions
    address: str
    streams: int
    method: str
    conversations: tuple[Path, ...]
    features: FeatureMode
    pass_tokens: int
    target_dtype: str
    device: str
    threads: int
    from_head: Path | None
    recipe: Recipe
    micro_tokens: int
    parallel: ParallelKind
    pace: Pace
    format: str
    head_dtype: str
    license: str


def read_options(argv: Sequence[str]) -> TrainOptions:
    """Reads the flags.

    Raises:
        BadSettings: One is unknown or refused.
        SystemExit: `--help` was given (status 0).
    """
    args = build_parser().parse_args(argv)
    if args.work is None and not args.smoke:
        raise BadSettings("--work is needed: the folder that a run keeps its work in")
    kind = HeadKind(args.kind)
    steps, token_weight, feature_weight = KIND_DEFAULTS[kind]
    own_prompts = args.own_prompts
    if own_prompts is None:
        own_prompts = 0 if args.conversations or args.prompt_file else DEFAULT_OWN_PROMPTS
    return TrainOptions(
        smoke=args.smoke,
        work=args.work,
        run=args.run,
        model=args.model,
        prompts=PromptOptions(
            args.prompt_file, own_prompts, args.openings, args.prompt_tokens,
            args.prompt_temperature, args.top_k, args.keep_cut_prompts, args.seed,
        ),
        answers=AnswerOptions(
            args.answer_tokens, args.temperatures, args.top_k, args.answers_per_prompt,
            args.max_tokens, args.seed,
        ),
        address=args.address,
        streams=args.streams,
        method=args.method,
        conversations=tuple(args.conversations),
        features=FeatureMode.ONLINE if args.online else FeatureMode(args.features),
        pass_tokens=args.pass_tokens,
        target_dtype=args.dtype,
        device=args.device,
        threads=args.threads,
        from_head=args.from_head,
        recipe=Recipe(
            kind=kind,
            feature_layers=args.feature_layers,
            draft_vocab_size=args.draft_vocab,
            likely_count=args.likely,
            loss_on=LossOn(args.loss_on),
            chain_steps=args.chain_steps or steps,
            follow_every=args.follow_every,
            step_decay=args.step_decay,
            token_weight=token_weight,
            feature_weight=feature_weight,
            from_target=args.init == "target",
            epochs=args.epochs,
            batch_tokens=args.batch_tokens,
            peak_rate=args.rate,
            warmup_share=args.warmup,
            final_rate_share=args.final_rate,
            weight_decay=args.weight_decay,
            max_norm=args.max_norm,
            held_out_share=args.held_out,
            max_tokens=args.max_tokens,
            precision=args.precision,
            seed=args.seed,
        ),
        micro_tokens=args.micro_tokens,
        parallel=ParallelKind(args.parallel),
        pace=Pace(args.measure_every, args.checkpoint_every),
        format=args.format or ("eagle1" if kind is HeadKind.EAGLE1 else "safeailab"),
        head_dtype=args.head_dtype,
        license=args.license,
    )  # fmt: skip
