"""Strikes down workers under load and shows that no stream notices.

    outrider disturb --blows 50 --streams 8
    outrider disturb --drains 10 --streams 8
    outrider disturb --cancels 10000 --streams 16

Starts a gateway with several draft and verify workers, asks every request once in peace, then again
and again while random workers are killed or stopped; or while gateways (two of them), draft and
verify workers get SIGTERM one after the other. Or lets clients leave at random moments, and looks
at what is left behind. Takes no decisions.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from outrider.evaluation.cancelling import CancelRun, settle
from outrider.evaluation.client import AskFailed, Stub, chat_request, connect
from outrider.evaluation.disturb_report import outcome_lines, remains_lines
from outrider.evaluation.disturb_run import DisturbRun, undisturbed
from outrider.evaluation.disturbance import Outcome, outcome_of, plan_blows, plan_drains
from outrider.evaluation.options import add_model, add_prompts, model_from, positive, prompts_from
from outrider.evaluation.prompts import BadPrompts, Prompt
from outrider.evaluation.service import ServiceFailed, end_with_sigterm
from outrider.evaluation.staged_workers import StagedWorkers
from outrider.evaluation.terminal import open_console, progress_bar
from outrider.settings import BadSettings
from outrider.supervision.runtime_folder import verify_endpoints
from outrider.supervision.service_plan import AUTO_HEAD, ServiceOptions
from outrider.supervision.up import head_folder
from outrider.v1 import decoding_pb2, generation_pb2

EXIT_NOTICED = 1
EXIT_NOT_RUN = 2
SETTLE_TIMEOUT_S = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        0 where no client noticed anything, 1 where one did, 2 where it could not run.
    """
    args = _parser().parse_args(argv)
    console = open_console()
    if sys.platform == "win32":
        console.print("disturb: needs signals that Windows does not have", markup=False)
        return EXIT_NOT_RUN
    end_with_sigterm()
    try:
        passed, document = asyncio.run(
            _run(args, Path(model_from(args)), prompts_from(args), console)
        )
    except (AskFailed, BadPrompts, BadSettings, ServiceFailed) as error:
        console.print(f"disturb: {error}", style="red", markup=False)
        return EXIT_NOT_RUN
    if args.json:
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if passed else EXIT_NOTICED


def requests_of(
    prompts: Sequence[Prompt], method: str, max_new_tokens: int
) -> list[generation_pb2.GenerateRequest]:
    """Every other one greedy, the rest drawn at temperature 1 with a seed of its own."""
    return [
        chat_request(
            prompt.text,
            method,
            max_new_tokens,
            decoding_pb2.Sampling(temperature=float(index % 2), seed=index),
        )
        for index, prompt in enumerate(prompts)
    ]


async def _run(
    args: argparse.Namespace, model: Path, prompts: Sequence[Prompt], console: Console
) -> tuple[bool, dict[str, Any]]:
    """Starts the workers and does what was asked for; says whether all is well, and all of it."""
    options = ServiceOptions(
        model,
        dtype=args.dtype,
        head=head_folder(args.head, model, os.environ),
        draft_workers=args.draft_workers,
        verify_workers=args.verify_workers,
    )
    requests = requests_of(prompts, args.method, args.max_new_tokens)
    settings = {name: str(value) for name, value in vars(args).items()}
    with (
        verify_endpoints(os.environ, args.verify_workers) as endpoints,
        progress_bar(console) as bar,
        ExitStack() as stack,
    ):
        async with (
            StagedWorkers(options, endpoints, gateways=2 if args.drains else 1) as workers,
            connect(*workers.addresses) as stub,
        ):
            if args.logs:
                stack.callback(lambda: args.logs.write_text("\n".join(workers.lines) + "\n"))
            if args.cancels:
                job = bar.add_task("cancels", total=args.cancels)
                cancelling = CancelRun(workers, stub, requests, args.streams, args.seed)
                remains = await cancelling.run(args.cancels, lambda: bar.advance(job))
                shown, found = remains_lines(remains), {"remains": asdict(remains)}
                passed = remains.clean_s is not None
            else:
                outcome = await _disturb(args, workers, stub, requests, bar)
                shown, found = outcome_lines(outcome), {"outcome": asdict(outcome)}
                passed = outcome.passed
    for line in shown:
        console.print(line, markup=False, highlight=False)
    return passed, {"run": settings, "passed": passed, **found}


async def _disturb(
    args: argparse.Namespace,
    workers: StagedWorkers,
    stub: Stub,
    requests: Sequence[generation_pb2.GenerateRequest],
    bar: Progress,
) -> Outcome:
    job = bar.add_task("undisturbed", total=len(requests))
    expected = await undisturbed(stub, requests, args.streams, lambda: bar.advance(job))
    if args.drains:
        blows = plan_drains(list(workers.pids), args.drains, args.seed)
    else:
        blows = plan_blows(workers.workers, args.blows, args.seed)
    strikes = bar.add_task("disturbed", total=len(blows))
    run = DisturbRun(workers, stub, requests, args.streams)
    fallen, records = await run.run(blows, lambda _: bar.advance(strikes))
    _, left = await settle(workers, SETTLE_TIMEOUT_S)
    return outcome_of(fallen, records, expected, run.endings, left)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="outrider disturb", description=__doc__.split("\n")[0])
    add_model(parser)
    add_prompts(parser)
    parser.set_defaults(prompts=4)
    parser.add_argument("--head", default=AUTO_HEAD, help="as for outrider up")
    parser.add_argument("--dtype", default="float32", help="of the target")
    parser.add_argument("--method", default="", help="draft method; empty: the service's")
    parser.add_argument("--draft-workers", type=positive, default=2, help="how many")
    parser.add_argument("--verify-workers", type=positive, default=2, help="how many")
    parser.add_argument("--streams", type=positive, default=8, help="streams at a time")
    parser.add_argument("--blows", type=positive, default=50, help="workers that are struck")
    parser.add_argument(
        "--drains", type=positive, help="rounds of SIGTERM to each role, instead of blows"
    )
    parser.add_argument("--cancels", type=positive, help="clients that leave, instead of blows")
    parser.add_argument("--max-new-tokens", type=positive, default=96, help="of an answer")
    parser.add_argument("--seed", type=int, default=0, help="of what happens when to whom")
    parser.add_argument("--logs", type=Path, help="file to write what the processes wrote to")
    parser.add_argument("--json", type=Path, help="file to write the outcome to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
