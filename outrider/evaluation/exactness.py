"""Shows that a served model's tokens are exactly those of the target alone.

    outrider exactness --serve
    python -m outrider.evaluation.exactness --address 127.0.0.1:50051 --prompts 4

Greedy answers are compared with `transformers`, sampled ones of each method with those of plain
decoding. Drives the public API only; takes no part in how tokens come about.
"""

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from rich.console import Console

from outrider.evaluation.client import AskFailed, connect
from outrider.evaluation.exactness_plan import MODES, Expected, PromptKey, plan_rows
from outrider.evaluation.exactness_report import (
    RowResult,
    exactness_table,
    lengths_table,
    token_text_of,
)
from outrider.evaluation.exactness_run import ExactnessRun, RunOptions
from outrider.evaluation.margins import MarginsFailed, margins_of
from outrider.evaluation.options import (
    add_model,
    add_prompts,
    add_service,
    counts,
    model_from,
    positive,
    prompts_from,
    service_from,
    some_of,
    words,
)
from outrider.evaluation.prompts import BadPrompts, Prompt
from outrider.evaluation.reference_rows import (
    BadReference,
    model_digest,
    reference_log,
    results_folder,
    stored_references,
)
from outrider.evaluation.result_log import OtherRun, ResultLog
from outrider.evaluation.service import ServiceFailed, end_with_sigterm
from outrider.evaluation.terminal import open_console
from outrider.settings import BadSettings

EXIT_MISMATCH = 1
EXIT_NOT_RUN = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        0 where all is equal, 1 on a mismatch beyond the tolerance, 2 where it could not run.
    """
    args = _parser().parse_args(argv)
    console = open_console()
    end_with_sigterm()
    try:
        args.model = model_from(args)
        results = _run(args, console)
    except (BadPrompts, BadReference, BadSettings, MarginsFailed, OtherRun, ServiceFailed) as error:
        console.print(f"exactness: {error}", style="red", markup=False)
        return EXIT_NOT_RUN
    except AskFailed as error:
        message = f"exactness: stopped: {error}; --resume continues"
        console.print(message, style="red", markup=False)
        return EXIT_NOT_RUN
    console.print(exactness_table(results))
    console.print(lengths_table(results))
    return 0 if all(result.verdict.passed for result in results) else EXIT_MISMATCH


def _run(args: argparse.Namespace, console: Console) -> list[RowResult]:
    prompts = prompts_from(args)
    references = _references(args, prompts) if "greedy" in args.modes else {}
    log = _result_log(args)
    console.print(f"answers and rows go to {log.path}", markup=False)
    options = RunOptions(args.max_new_tokens, args.seed, args.margin_tolerance)
    token_text = token_text_of(args.model)
    measure_margins = partial(margins_of, args.model, args.threads)
    run = ExactnessRun(prompts, references, options, log, token_text, measure_margins, console)
    rows = plan_rows(args.modes, args.methods, args.concurrency)

    async def drive(address: str) -> list[RowResult]:
        async with connect(address) as stub:
            return await run.run(stub, rows)

    with service_from(args) if args.serve else nullcontext() as service:
        return asyncio.run(drive(service.address if service else args.address))


def _references(args: argparse.Namespace, prompts: Sequence[Prompt]) -> dict[PromptKey, Expected]:
    """Stored rows; missing ones are made first, in a process of their own.

    So torch is never loaded here and never computes while the service is measured.
    """
    log = reference_log(args.model, args.max_new_tokens, args.reference)
    if len(stored_references(log, prompts)) < len(prompts):
        command = [sys.executable, "-m", "outrider.evaluation.reference"]
        command += ["--model", args.model, "--tasks", ",".join(args.tasks)]
        command += ["--max-new-tokens", str(args.max_new_tokens), "--threads", str(args.threads)]
        command += ["--reference", str(log.path)]
        command += ["--data", str(args.data)] if args.data else []
        command += ["--prompts", str(args.prompts)] if args.prompts else []
        if subprocess.run(command, check=False).returncode != 0:
            raise BadReference("the reference could not be made")
        log = reference_log(args.model, args.max_new_tokens, args.reference)
    rows = stored_references(log, prompts)
    return {key: Expected(row.ids, row.margins) for key, row in rows.items()}


def _result_log(args: argparse.Namespace) -> ResultLog:
    key = {
        "kind": "exactness",
        "model": model_digest(args.model),
        "max_new_tokens": args.max_new_tokens,
        "seed": args.seed,
    }
    path = args.json or results_folder() / f"exactness-{key['model']}.jsonl"
    return ResultLog(path, key, start_over=not args.resume)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="outrider exactness", description=__doc__.split("\n")[0])
    add_service(parser, dtype="float32")
    add_model(parser)
    add_prompts(parser)
    option = parser.add_argument
    option("--modes", type=some_of(MODES), default=MODES, help="greedy,sampled")
    option("--methods", type=words, default=("ngram", "none"), help="draft methods")
    option("--concurrency", type=counts, default=(1, 8), help="streams at a time, such as 1,8")
    option("--max-new-tokens", type=positive, default=128, help="most tokens of an answer")
    option("--seed", type=int, default=0, help="base of the sampled rows' seeds")
    option("--margin-tolerance", type=float, help="forgive mismatches with up to this margin")
    option("--reference", type=Path, help="file of reference rows (default: in the user's cache)")
    option("--json", type=Path, help="file of answers and rows, JSON lines (default: in the cache)")
    option("--resume", action="store_true", help="keep the answers that the file has already")
    return parser


if __name__ == "__main__":
    sys.exit(main())
