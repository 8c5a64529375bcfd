"""Measures tokens per second through the whole service, and where a round's time goes.

    outrider bench --serve --methods none,ngram --tasks sum --prompts 20 --baseline transformers
    outrider bench --serve --methods none,ngram --concurrency 1,4,16 --rate 0.5,1

Drives the public API only. Methods take turns prompt by prompt within one run; with several
concurrencies, or a rate, it is a load test, and they take turns at each load.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from outrider.evaluation.baseline import Baseline, BaselineFailed
from outrider.evaluation.bench_picture import draw
from outrider.evaluation.bench_report import (
    cells_of,
    depth_table,
    document_of,
    means_of,
    means_table,
    rates_table,
    split_table,
)
from outrider.evaluation.bench_run import TRANSFORMERS, BenchRun, Samples, groups_of
from outrider.evaluation.client import AskFailed, connect
from outrider.evaluation.kv_watch import MetricsKvWatch
from outrider.evaluation.load import Load, Point
from outrider.evaluation.load_report import draw_load, load_document, load_table
from outrider.evaluation.load_run import LoadRun
from outrider.evaluation.options import (
    add_model,
    add_prompts,
    add_service,
    counts,
    model_from,
    positive,
    prompts_from,
    rates,
    service_from,
    words,
)
from outrider.evaluation.prompts import BadPrompts, Prompt
from outrider.evaluation.service import ServiceFailed, end_with_sigterm
from outrider.evaluation.terminal import open_console, progress_bar
from outrider.settings import BadSettings

PLAIN = "none"
EXIT_NOT_RUN = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, or 2 where it could not run."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.baseline and (args.concurrency != (1,) or args.rate):
        parser.error("--baseline answers one prompt at a time; leave --concurrency and --rate out")
    console = open_console()
    end_with_sigterm()
    try:
        prompts = prompts_from(args)
        if len(args.concurrency) > 1 or args.rate:
            _load_test(args, prompts, console)
            return 0
        samples = _measure(args, prompts, console)
    except (AskFailed, BadPrompts, BadSettings, BaselineFailed, ServiceFailed) as error:
        console.print(f"bench: {error}", style="red", markup=False)
        return EXIT_NOT_RUN
    reference = PLAIN if PLAIN in args.methods else args.methods[0]
    against = [reference, *([args.baseline] if args.baseline else [])]
    cells = cells_of(samples, against)
    means = means_of(cells)
    console.print(rates_table(cells, against))
    console.print(depth_table(cells))
    console.print(split_table(cells))
    if means:
        console.print(means_table(means, against))
    run = _describe(args, prompts)
    if args.json:
        document = document_of(cells, means, samples, run)
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if args.picture:
        title = f"Outrider, {run['prompts']} prompts, {args.concurrency[0]} at a time"
        args.picture.write_text(draw(cells, reference, title), encoding="utf-8")
    return 0


def _measure(args: argparse.Namespace, prompts: Sequence[Prompt], console: Console) -> Samples:
    groups = groups_of(prompts, args.concurrency[0])

    async def drive(address: str, baseline: Baseline | None) -> Samples:
        async with connect(address) as stub:
            run = BenchRun(stub, args.methods, args.max_new_tokens, baseline)
            with progress_bar(console) as bar:
                job = bar.add_task("bench", total=len(groups))
                return await run.run(groups, lambda task: bar.advance(job))

    with ExitStack() as stack:
        baseline = None
        if args.baseline:
            dtype = args.baseline_dtype or args.dtype
            baseline = stack.enter_context(Baseline(model_from(args), dtype, args.threads))
        address = args.address
        if args.serve:
            address = stack.enter_context(service_from(args)).address
        return asyncio.run(drive(address, baseline))


def _load_test(args: argparse.Namespace, prompts: Sequence[Prompt], console: Console) -> None:
    loads = [] if args.rate and args.concurrency == (1,) else [Load(n) for n in args.concurrency]
    loads += [Load(rate=rate) for rate in args.rate]

    async def drive(address: str, metrics_port: int) -> list[Point]:
        async with connect(address) as stub:
            watch = MetricsKvWatch(metrics_port)
            run = LoadRun(stub, args.methods, prompts, args.max_new_tokens, watch)
            with progress_bar(console) as bar:
                job = bar.add_task("load", total=len(loads) * len(args.methods))
                return await run.run(loads, args.requests, lambda _: bar.advance(job))

    with ExitStack() as stack:
        address, metrics_port = args.address, 0
        if args.serve:
            service = stack.enter_context(service_from(args))
            address, metrics_port = service.address, service.verify_metrics_port
        points = asyncio.run(drive(address, metrics_port))
    console.print(load_table(points))
    run = _describe(args, prompts)
    if args.json:
        text = json.dumps(load_document(points, run), indent=1) + "\n"
        args.json.write_text(text, encoding="utf-8")
    if args.picture:
        picture = draw_load(points, f"Outrider under load, up to {args.max_new_tokens} tokens")
        args.picture.write_text(picture, encoding="utf-8")


def _describe(args: argparse.Namespace, prompts: Sequence[Prompt]) -> dict[str, Any]:
    return {
        "methods": list(args.methods),
        "tasks": list(args.tasks),
        "prompts": len(prompts),
        "concurrency": list(args.concurrency),
        "rate": list(args.rate),
        "max_new_tokens": args.max_new_tokens,
        "baseline": args.baseline,
        "dtype": args.dtype if args.serve else None,
        "threads": args.threads,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="outrider bench", description=__doc__.split("\n")[0])
    add_service(parser, dtype="auto")
    add_model(parser)
    add_prompts(parser)
    option = parser.add_argument
    option("--methods", type=words, default=("none", "ngram"), help="draft methods, taking turns")
    option(
        "--concurrency",
        type=counts,
        default=(1,),
        help="streams at a time; several (1,4,16): a load test",
    )
    option("--rate", type=rates, default=(), help="load test: requests a second, such as 0.5,1,2")
    option("--requests", type=positive, default=16, help="of each point of a load test, at least")
    option("--max-new-tokens", type=positive, default=128, help="most tokens of an answer")
    option("--baseline", choices=[TRANSFORMERS], help="time transformers' generate in turn too")
    option("--baseline-dtype", help="of the baseline (default: that of --dtype)")
    option("--json", type=Path, help="write all results to this file")
    option("--picture", type=Path, help="draw the results to this SVG file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
