"""The order of a benchmark, against a service without sockets."""

from typing import cast

import pytest

from outrider.evaluation.baseline import Baseline
from outrider.evaluation.bench_run import BenchRun, groups_of
from outrider.evaluation.client import Stub
from outrider.evaluation.prompts import OWN_SET, load_prompts
from outrider.evaluation.throughput import Timing
from tests.unit.evaluation.fake_service import FakeStub

PROMPTS = load_prompts(OWN_SET, ("qa", "sum"), per_task=3)


class FakeBaseline:
    """Takes a second for each answer."""

    def time(self, text: str, max_new_tokens: int) -> Timing:
        return Timing(max_new_tokens, 1, 0.5, 1.0)


def test_groups_keep_to_one_task_and_take_turns() -> None:
    groups = [[prompt.key for prompt in group] for group in groups_of(PROMPTS, 2)]
    assert groups == [
        [("qa", 0), ("qa", 1)],
        [("sum", 0), ("sum", 1)],
        [("qa", 2)],
        [("sum", 2)],
    ]


@pytest.mark.asyncio
async def test_methods_take_turns_and_each_goes_first_as_often() -> None:
    stub = FakeStub()
    run = BenchRun(cast(Stub, stub), ("none", "ngram"), 4, None)
    tasks: list[str] = []
    samples = await run.run(groups_of(PROMPTS, 1), tasks.append)
    methods = [request.speculation.method for request in stub.requests]
    assert methods == ["none", "ngram"] + ["none", "ngram", "ngram", "none"] * 3
    assert tasks == ["qa", "sum"] * 3
    assert [request.cache_salt for request in stub.requests] == methods, "no cache of another one"
    assert [sample.rounds.rounds for sample in samples["ngram"]] == [2] * 6
    assert [sample.timing.first_tokens for sample in samples["ngram"]] == [2] * 6
    assert [sample.timing.tokens for sample in samples["none"]] == [4] * 6


@pytest.mark.asyncio
async def test_a_group_runs_together() -> None:
    stub = FakeStub()
    run = BenchRun(cast(Stub, stub), ("none",), 4, None)
    samples = await run.run(groups_of(PROMPTS, 3), lambda _: None)
    assert stub.most_running == 3
    assert [sample.timing.tokens for sample in samples["none"]] == [12, 12]


@pytest.mark.asyncio
async def test_the_baseline_is_one_more_method() -> None:
    run = BenchRun(cast(Stub, FakeStub()), ("none",), 4, cast(Baseline, FakeBaseline()))
    samples = await run.run(groups_of(PROMPTS, 1), lambda _: None)
    assert run.methods == ["none", "transformers"]
    assert samples["transformers"][0].timing == Timing(4, 1, 0.5, 1.0)
    assert len(samples["transformers"]) == len(PROMPTS)
