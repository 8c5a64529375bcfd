"""Runs the go-live list against a service that serves, and prints a table.

    outrider check --target HOST --http https://HOST:8080 --key KEY --tls-ca ROOTS.pem \\
        --metrics HOST:8081,HOST:9101,HOST:9102 --logs gateway.log,draft.log,verify.log

Ends with 0 where nothing failed, 1 where something did, 2 where it could not run. It sends some
hundred requests, so best to a service that nobody uses yet. docs/going-live.md says what each line
means.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrider.evaluation.prompts import BadPrompts, Prompt, default_set, load_prompts
from outrider.evaluation.terminal import open_console, progress_bar
from outrider.going_live.grpc_side import open_grpc
from outrider.going_live.http_side import HttpSide
from outrider.going_live.lines import Line, Verdict, may_go_live
from outrider.going_live.settings import CheckOptions, parse_options
from outrider.going_live.visit import Visit
from outrider.settings import BadSettings

EXIT_FAILED = 1
EXIT_NOT_RUN = 2

_COLOURS = {
    Verdict.PASS: "green",
    Verdict.WARN: "yellow",
    Verdict.FAIL: "bold red",
    Verdict.SKIPPED: "magenta",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        0 where nothing failed, 1 where something did, 2 where it could not run.
    """
    console = open_console()
    try:
        options, json_file = parse_options(argv, __doc__.split("\n")[0])
        prompts = load_prompts(default_set())
        lines = asyncio.run(_visit(options, prompts, console))
    except (BadPrompts, BadSettings, OSError) as error:
        console.print(f"check: {error}", style="red", markup=False)
        return EXIT_NOT_RUN
    console.print(check_table(lines, options.address))
    if json_file:
        text = json.dumps(document(lines, options.address), indent=1)
        json_file.write_text(text + "\n", encoding="utf-8")
    return 0 if may_go_live(lines) else EXIT_FAILED


def check_table(lines: Sequence[Line], address: str) -> Table:
    """One line of the list a row."""
    table = Table("", "what", "seen", "what to do", title=f"go-live list of {address}")
    for line in lines:
        verdict = Text(line.verdict, style=_COLOURS[line.verdict])
        table.add_row(verdict, Text(line.name), Text(line.figure), Text(line.advice))
    counts = {one: sum(line.verdict is one for line in lines) for one in Verdict}
    table.caption = ", ".join(f"{count} {one}" for one, count in counts.items() if count)
    return table


def document(lines: Sequence[Line], address: str) -> dict[str, Any]:
    """All of it as JSON values."""
    return {
        "target": address,
        "passed": may_go_live(lines),
        "lines": [asdict(line) for line in lines],
    }


async def _visit(options: CheckOptions, prompts: Sequence[Prompt], console: Console) -> list[Line]:
    http = None
    if options.http_url:
        http = HttpSide(options.http_url, options.api_key, options.ssl_context())

    def show(line: Line) -> None:
        text = Text(f"{line.verdict:<8}", style=_COLOURS[line.verdict])
        console.print(text.append(f"{line.name}: {line.figure}", style="default"))

    with progress_bar(console) as bar:
        job = bar.add_task("", total=100)

        def on_progress(name: str, share: float) -> None:
            bar.update(job, description=name, completed=round(100 * share))

        async with open_grpc(options.address, options.api_key, options.tls) as grpc_side:
            return await Visit(options, prompts, grpc_side, http, on_progress).run(show)


if __name__ == "__main__":
    sys.exit(main())
