"""The flags of `outrider train`, their defaults and what they accept."""

import argparse
from pathlib import Path
from typing import NoReturn

from outrider.evaluation.options import above_zero, positive
from outrider.modeling.heads.head_config import HeadKind
from outrider.settings import BadSettings
from outrider.training.conversation import LossOn
from outrider.training.parallel import ParallelKind
from outrider.training.shards import FeatureMode

DESCRIPTION = "Train a draft head for a target, in stages that go on where a killed run stopped."
DEFAULT_OWN_PROMPTS = 2000
OUR_OPENINGS = Path(__file__).parent / "openings.jsonl"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadSettings(message)


def build_parser() -> argparse.ArgumentParser:
    """The parser; what it refuses is a `BadSettings`."""
    parser = _Parser(
        prog="outrider train",
        description=DESCRIPTION,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    _add_general(parser)
    _add_data(parser)
    _add_features(parser)
    _add_training(parser)
    _add_result(parser)
    return parser


def _add_general(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--smoke", action="store_true", help="train a head for a tiny target made on the spot")
    option("--work", type=Path, help="folder that a run keeps its work in, seen by all ranks")
    option("--run", type=_name, default="run", help="name of this head within the folder")
    option("--model", default="", help="target: folder or hub name; empty: the embedded model")
    option("--device", default="", help="cpu, cuda, ...; empty: CUDA where there is some")
    option("--threads", type=_count, default=0, help="of torch on a CPU; 0: its own choice")
    option("--seed", type=_count, default=0, help="of everything that is drawn")


def _add_data(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument_group("prompts and answers").add_argument
    option(
        "--conversations",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help='finished ones: JSON lines of {"ids": [...], "p": prompt length}, may be gzipped',
    )
    option(
        "--prompt-file",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help='JSON lines of {"text": ...} or {"messages": [...]}',
    )
    option(
        "--own-prompts",
        type=_count,
        help=f"prompts that the target writes itself (default: {DEFAULT_OWN_PROMPTS} where "
        "nothing else is named)",
    )
    option(
        "--openings",
        type=_openings,
        nargs="+",
        default=[],
        metavar="FILE",
        help='JSON lines of {"text": ...}: first words of its prompts, which take turns; '
        '"max_tokens" beside a text lets its prompts be longer; "diverse": a list of ours, '
        "English, of code, sums, facts, instructions and articles",
    )
    option("--prompt-tokens", type=positive, default=160, help="most tokens of one of those")
    option("--prompt-temperature", type=above_zero, default=1.0, help="at which they are written")
    option(
        "--keep-cut-prompts",
        action="store_true",
        help="keep those that reach --prompt-tokens as they are",
    )
    option("--answers-per-prompt", type=positive, default=1, help="with different seeds")
    option("--answer-tokens", type=positive, default=512, help="most tokens of an answer")
    option(
        "--temperatures",
        type=_numbers,
        default="0,0,0.7,1",
        help="of the answers, in turn; 0 is greedy",
    )
    option("--top-k", type=_count, default=64, help="most likely tokens drawn from; 0: all")
    option("--address", default="", help="gRPC address of a running service; empty: start one")
    option("--streams", type=positive, default=16, help="requests at a time")
    option("--method", default="", help="draft method of the requests; empty: the service's")


def _add_features(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument_group("features").add_argument
    option(
        "--features",
        choices=[*FeatureMode],
        default=FeatureMode.AUTO,
        help="stored first, made along with training, or whichever costs less",
    )
    option("--online", action="store_true", help="short for --features online")
    option(
        "--feature-layers",
        type=_layers,
        default=(),
        metavar="2,15,27",
        help="boundaries that the head reads; empty: low, middle and high",
    )
    option("--likely", type=positive, default=64, help="soft targets: likeliest tokens kept")
    option("--pass-tokens", type=positive, default=1024, help="of the target's forward passes")
    option("--dtype", default="auto", help="of the target")


def _add_training(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument_group("training").add_argument
    option("--kind", choices=[*HeadKind], default=HeadKind.EAGLE3, help="family of the head")
    option("--draft-vocab", type=positive, default=8192, help="tokens that it can guess")
    option("--init", choices=["target", "random"], default="target", help="of its layer")
    option(
        "--from-head",
        type=Path,
        metavar="FOLDER",
        help="go on from this head: its weights, layers and draft vocabulary",
    )
    option("--loss-on", choices=[*LossOn], default=LossOn.ANSWER, help="tokens to learn")
    option(
        "--chain-steps",
        type=_count,
        default=0,
        help="guesses in a row that are trained (0: 6 for eagle3, 3 for eagle1)",
    )
    option(
        "--follow-every",
        type=positive,
        default=1,
        help="one chain of so many goes on beyond its first guess; later guesses cost the most",
    )
    option("--step-decay", type=above_zero, default=0.8, help="weight from guess to guess")
    option("--epochs", type=positive, default=2, help="passes over the conversations")
    option("--max-tokens", type=positive, default=2048, help="of a conversation; cut off there")
    option("--batch-tokens", type=positive, default=4096, help="of a step, over all ranks")
    option("--micro-tokens", type=positive, default=2048, help="of the head's forward passes")
    option(
        "--precision",
        choices=["float32", "bfloat16"],
        default="float32",
        help="of matrix products; weights and sums stay float32. bfloat16 is faster on GPUs and on "
        "CPUs with instructions for it",
    )
    option("--rate", type=above_zero, default=1e-3, help="peak learning rate")
    option("--warmup", type=_share, default=0.05, help="share of the steps")
    option("--final-rate", type=_share, default=0.02, help="share of the peak at the end")
    option("--weight-decay", type=_share, default=0.0, help="of AdamW")
    option("--max-norm", type=above_zero, default=1.0, help="gradients are clipped to it")
    option("--held-out", type=_share, default=0.02, help="share of the prompts to measure on")
    option("--measure-every", type=positive, default=50, help="steps between measurements")
    option("--checkpoint-every", type=positive, default=20, help="steps between checkpoints")
    option(
        "--parallel",
        choices=[*ParallelKind],
        default=ParallelKind.NONE,
        help="with several processes of torchrun",
    )


def _add_result(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument_group("result").add_argument
    option("--format", default="", help="safeailab, specforge, speculators or eagle1")
    option(
        "--head-dtype",
        choices=["bfloat16", "float16", "float32"],
        default="bfloat16",
        help="of the written weights",
    )
    option("--license", default="", help="of the head, for its card")


def _openings(value: str) -> Path:
    return OUR_OPENINGS if value == "diverse" else Path(value)


def _count(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _share(value: str) -> float:
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(value)
    return number


def _numbers(value: str) -> tuple[float, ...]:
    numbers = tuple(float(part) for part in value.split(","))
    if min(numbers) < 0.0:
        raise ValueError(value)
    return numbers


def _layers(value: str) -> tuple[int, ...]:
    return tuple(int(part) for part in value.split(",") if part)


def _name(value: str) -> str:
    if not value.replace("-", "").replace("_", "").isalnum():
        raise ValueError(value)
    return value
