"""Makes the reference rows: `transformers` `generate(do_sample=False)` in fp32, prompt by prompt.

    python -m outrider.evaluation.reference --model FOLDER

Rows are stored as they come; an interrupted run continues where it stopped. Knows nothing of
Outrider's own services.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from outrider.evaluation.options import add_model, add_prompts, model_from, prompts_from
from outrider.evaluation.plain_target import PlainTarget
from outrider.evaluation.prompts import BadPrompts, Prompt
from outrider.evaluation.reference_rows import (
    BadReference,
    Reference,
    reference_log,
    stored_references,
)
from outrider.evaluation.result_log import OtherRun, ResultLog, complete_lines
from outrider.evaluation.terminal import open_console, progress_bar
from outrider.settings import BadSettings


def import_rows(
    path: Path, prompts: Sequence[Prompt], log: ResultLog, target: PlainTarget, max_new_tokens: int
) -> int:
    """Takes over rows that were generated elsewhere with the same model in fp32.

    A row is taken where its prompt ids are what this tokenizer makes of the prompt, and where it
    is long enough or ends with an end-of-sequence id; a longer one is cut.

    Returns:
        How many rows were taken.

    Raises:
        BadReference: A line is not a reference row.
    """
    wanted = {prompt.key: prompt for prompt in prompts}
    known = stored_references(log, prompts)
    taken = 0
    for line in complete_lines(path).split("\n")[:-1]:
        record = json.loads(line)
        if "key" in record:
            continue
        row = Reference.from_record(record)
        prompt = wanted.get((row.task, row.id))
        if prompt is None or prompt.key in known:
            continue
        complete = len(row.ids) >= max_new_tokens or target.ends(row.ids)
        if complete and list(row.prompt_ids) == target.prompt_ids(prompt.text):
            log.append(_cut(row, prompt, max_new_tokens).to_record())
            known[prompt.key] = row
            taken += 1
    return taken


def _cut(row: Reference, prompt: Prompt, length: int) -> Reference:
    return Reference(
        task=row.task,
        id=row.id,
        digest=prompt.digest,
        prompt_ids=row.prompt_ids,
        ids=row.ids[:length],
        runner_up=row.runner_up[:length],
        margins=row.margins[:length],
        seconds=row.seconds,
    )


def make_references(
    target: PlainTarget,
    prompts: Sequence[Prompt],
    log: ResultLog,
    max_new_tokens: int,
    console: Console,
) -> None:
    """Generates and stores the rows that are still missing."""
    known = stored_references(log, prompts)
    with progress_bar(console) as bar:
        job = bar.add_task("reference", total=len(prompts), completed=len(known))
        for prompt in prompts:
            if prompt.key not in known:
                log.append(target.reference(prompt, max_new_tokens).to_record())
                bar.advance(job)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m outrider.evaluation.reference")
    add_model(parser)
    add_prompts(parser)
    parser.add_argument("--max-new-tokens", type=int, default=128, help="most ids of a row")
    parser.add_argument("--reference", type=Path, help="file of the rows (default: in the cache)")
    parser.add_argument("--threads", type=int, default=0, help="threads of torch; 0: its choice")
    parser.add_argument("--import", type=Path, dest="imported", help="take over rows of this file")
    parser.add_argument("--only-import", action="store_true", help="generate nothing")
    args = parser.parse_args(argv)
    console = open_console()
    try:
        args.model = model_from(args)
        prompts = prompts_from(args)
        log = reference_log(args.model, args.max_new_tokens, args.reference)
        target = PlainTarget(args.model, args.threads)
        if args.imported is not None:
            taken = import_rows(args.imported, prompts, log, target, args.max_new_tokens)
            console.print(f"{taken} rows taken over from {args.imported}")
        if not args.only_import:
            make_references(target, prompts, log, args.max_new_tokens, console)
    except (BadPrompts, BadReference, BadSettings, OtherRun) as error:
        console.print(f"reference: {error}", style="red")
        return 2
    console.print(f"{len(stored_references(log, prompts))} of {len(prompts)} rows in {log.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
