"""An exactness run against a service without sockets."""

import io
import re
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from outrider.evaluation.client import AskFailed, Stub
from outrider.evaluation.exactness_plan import Expected, plan_rows
from outrider.evaluation.exactness_report import exactness_table, lengths_table
from outrider.evaluation.exactness_run import ExactnessRun, RunOptions
from outrider.evaluation.prompts import OWN_SET, load_prompts
from outrider.evaluation.result_log import ResultLog
from tests.unit.evaluation.fake_service import FakeStub, right_ids

LENGTH = 6
PROMPTS = load_prompts(OWN_SET, ("qa", "alpaca"))
ROWS = plan_rows(("greedy", "sampled"), ("ngram", "none"), (1, 3))
REFERENCES = {
    prompt.key: Expected(right_ids(prompt.text, LENGTH), (0.125,) * LENGTH) for prompt in PROMPTS
}


async def run(stub: FakeStub, path: Path) -> tuple[list[Any], str]:
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    exactness = ExactnessRun(
        prompts=PROMPTS,
        references=REFERENCES,
        options=RunOptions(LENGTH, seed=5, tolerance=None),
        log=ResultLog(path, {"kind": "test"}),
        token_text=lambda token_id: f"<{token_id}>",
        measure_margins=lambda decisions: [len(d.before) + 0.5 for d in decisions],
        console=console,
    )
    results = await exactness.run(cast(Stub, stub), ROWS)
    console.print(exactness_table(results))
    console.print(lengths_table(results))
    return results, screen.getvalue()


@pytest.mark.asyncio
async def test_an_exact_service_passes_every_row(tmp_path: Path) -> None:
    stub = FakeStub()
    results, screen = await run(stub, tmp_path / "log.jsonl")
    assert all(result.verdict.passed for result in results)
    assert [result.tokens_per_round for result in results] == [2, 1, 2, 1, 1, 2, 2, 1]
    assert results[0].by_task == {"qa": 2.0, "alpaca": 2.0}
    assert re.search(r"greedy, ngram, alone +│ +2.00 │ +2.00 │ 2.00 │", screen)
    assert stub.most_running == 3
    assert "greedy, ngram, 3 at a time" in screen
    seeds = {r.sampling.seed for r in stub.requests if r.sampling.temperature == 1.0}
    assert seeds == {5 + prompt.place for prompt in PROMPTS}


@pytest.mark.asyncio
async def test_a_changed_id_is_reported_with_position_ids_and_margin(tmp_path: Path) -> None:
    results, screen = await run(FakeStub(wrong=("ngram", 4)), tmp_path / "log.jsonl")
    failed = [result.verdict.row.name for result in results if not result.verdict.passed]
    assert failed == [row.name for row in ROWS if row.method == "ngram"]
    wanted = REFERENCES[("qa", 0)].ids[4]
    got = (wanted + 1) % 97
    line = f"qa/0 at position 4: expected {wanted} '<{wanted}>', got {got} '<{got}>'"
    assert f"greedy, ngram, alone: {line}; margin 0.125000" in screen
    sampled = next(line for line in screen.splitlines() if "sampled, ngram, alone: qa/0" in line)
    assert "at position 4" in sampled
    assert sampled.endswith("margin 4.500000")


@pytest.mark.asyncio
async def test_an_interrupted_run_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    answered = len(PROMPTS) + 3  # into the second row, which runs one at a time
    with pytest.raises(AskFailed, match="UNAVAILABLE: no worker"):
        await run(FakeStub(failing_from=answered), path)
    stub = FakeStub()
    results, _ = await run(stub, path)
    assert len(stub.requests) == len(ROWS) * len(PROMPTS) - answered
    assert all(result.verdict.passed for result in results)
    assert all(result.verdict.tally.prompts == len(PROMPTS) for result in results)
