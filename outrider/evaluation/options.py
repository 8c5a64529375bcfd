"""The command-line options that the evaluation commands share.

Takes no decisions beyond what a missing option means.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from outrider.embedded_model import resolve_model
from outrider.evaluation.prompts import TASKS, Prompt, default_set, load_prompts
from outrider.evaluation.service import Service, ServiceOptions

DEFAULT_ADDRESS = "127.0.0.1:50051"


def words(value: str) -> tuple[str, ...]:
    """Splits `a,b` into its parts."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def some_of(allowed: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Splits `a,b` and refuses parts that are not allowed."""

    def parse(value: str) -> tuple[str, ...]:
        parts = words(value)
        if not parts or not set(parts) <= set(allowed):
            raise argparse.ArgumentTypeError(f"must be some of {','.join(allowed)}, got {value!r}")
        return parts

    return parse


def counts(value: str) -> tuple[int, ...]:
    """Splits `1,8` into numbers.

    Raises:
        ValueError: A part is not a number of at least 1.
    """
    numbers = tuple(int(part) for part in words(value))
    if not numbers or min(numbers) < 1:
        raise ValueError(value)
    return numbers


def rates(value: str) -> tuple[float, ...]:
    """Splits `0.5,2` into numbers above 0.

    Raises:
        ValueError: A part is not one.
    """
    numbers = tuple(float(part) for part in words(value))
    if not numbers or not all(0 < number < float("inf") for number in numbers):
        raise ValueError(value)
    return numbers


def positive(value: str) -> int:
    """A whole number of at least 1.

    Raises:
        ValueError: It is not.
    """
    number = int(value)
    if number < 1:
        raise ValueError(value)
    return number


def above_zero(value: str) -> float:
    """A finite number above 0.

    Raises:
        ValueError: It is not.
    """
    number = float(value)
    if not 0.0 < number < float("inf"):
        raise ValueError(value)
    return number


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model that is served, and that references and baselines load."""
    parser.add_argument("--model", help="folder or hub name (default: the embedded model)")


def add_prompts(parser: argparse.ArgumentParser) -> None:
    """Which prompts are run."""
    parser.add_argument("--data", type=Path, help="folder of TASK.jsonl files")
    parser.add_argument(
        "--tasks", type=some_of(TASKS), default=TASKS, help=f"some of {','.join(TASKS)}"
    )
    parser.add_argument("--prompts", type=positive, help="most prompts of each task (default: all)")


def add_service(parser: argparse.ArgumentParser, dtype: str) -> None:
    """Which service is measured: one that runs, or one of our own."""
    parser.add_argument(
        "--address", default=DEFAULT_ADDRESS, help="a running service's gRPC address"
    )
    parser.add_argument(
        "--serve", action="store_true", help="start a service and end it afterwards"
    )
    parser.add_argument("--dtype", default=dtype, help="of the started service's target")
    parser.add_argument("--threads", type=int, default=0, help="of the target; 0: its own choice")
    parser.add_argument(
        "--draft-model", default="", help="of the started service: folder, hub name or 'embedded'"
    )


def prompts_from(args: argparse.Namespace) -> list[Prompt]:
    """Loads the prompts that the options name.

    Raises:
        BadPrompts: See `load_prompts`.
    """
    return load_prompts(args.data or default_set(), args.tasks, args.prompts)


def model_from(args: argparse.Namespace) -> str:
    """Folder or hub name of the named model, or the folder of the embedded one.

    Raises:
        BadSettings: The model is not there.
    """
    return str(resolve_model(args.model or "", os.environ))


def service_from(args: argparse.Namespace) -> Service:
    """A service of our own, not started yet."""
    return Service(
        ServiceOptions(model_from(args), args.dtype, args.threads, draft_model=args.draft_model)
    )
