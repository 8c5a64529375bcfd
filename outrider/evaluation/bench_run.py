"""Times methods against each other on the same prompts, in turn, so that noise hits all alike.

Owns the order; clocks are the client's and the baseline's. Summing up is `throughput.py`'s.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import zip_longest

from outrider.evaluation.baseline import Baseline
from outrider.evaluation.client import Answer, Stub, ask_all, chat_request
from outrider.evaluation.prompts import Prompt
from outrider.evaluation.throughput import Rounds, Sample, Timing

TRANSFORMERS = "transformers"

Samples = dict[str, list[Sample]]


def groups_of(prompts: Sequence[Prompt], size: int) -> list[list[Prompt]]:
    """Cuts each task into groups that run together; the tasks' groups take turns.

    Args:
        prompts: In any order.
        size: Prompts of a group, at least 1; the last one of a task may be smaller.
    """
    by_task: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_task.setdefault(prompt.task, []).append(prompt)
    cut = [
        [of_task[start : start + size] for start in range(0, len(of_task), size)]
        for of_task in by_task.values()
    ]
    return [group for turn in zip_longest(*cut) for group in turn if group is not None]


class BenchRun:
    """One benchmark.

    Args:
        stub: The service.
        methods: Draft methods.
        max_new_tokens: Most tokens of an answer.
        baseline: Timed too where given, as the method "transformers".
    """

    def __init__(
        self, stub: Stub, methods: Sequence[str], max_new_tokens: int, baseline: Baseline | None
    ) -> None:
        self._stub = stub
        self._max_new_tokens = max_new_tokens
        self._baseline = baseline
        self._methods = [*methods, *([TRANSFORMERS] if baseline else [])]

    @property
    def methods(self) -> list[str]:
        """What is timed."""
        return list(self._methods)

    async def run(
        self, groups: Sequence[Sequence[Prompt]], on_group: Callable[[str], None]
    ) -> Samples:
        """Times every method on every group.

        Args:
            groups: Prompts of a group run together; one prompt each where a baseline is timed.
            on_group: Told the task as each group ends.

        Raises:
            AskFailed: The service failed.
            BaselineFailed: The baseline did.
        """
        samples: Samples = {method: [] for method in self._methods}
        for method in self._methods:  # the first request of a method may pay for caches
            await self._time(method, groups[0])
        for index, group in enumerate(groups):
            first = index % len(self._methods)
            for method in self._methods[first:] + self._methods[:first]:
                samples[method].append(await self._time(method, group))
            on_group(group[0].task)
        return samples

    async def _time(self, method: str, group: Sequence[Prompt]) -> Sample:
        if method == TRANSFORMERS and self._baseline is not None:
            text = group[0].text
            timing = await asyncio.to_thread(self._baseline.time, text, self._max_new_tokens)
            return Sample(group[0].task, timing, timing.last_s)
        answers: list[Answer] = []
        requests = [chat_request(prompt.text, method, self._max_new_tokens) for prompt in group]
        for request in requests:  # no method finds in the prefix cache what another one has read
            request.cache_salt = method
        await ask_all(self._stub, requests, len(requests), lambda _, answer: answers.append(answer))
        return sample_of(group[0].task, answers)


def sample_of(task: str, answers: Sequence[Answer]) -> Sample:
    """Puts answers that started together into one sample."""
    timing = Timing(
        tokens=sum(len(answer.token_ids) for answer in answers),
        first_tokens=sum(answer.first_count for answer in answers),
        first_s=min(answer.first_s for answer in answers),
        last_s=max(answer.last_s for answer in answers),
    )
    rounds = sum((_rounds_of(answer) for answer in answers), Rounds())
    return Sample(task, timing, sum(answer.last_s for answer in answers), rounds)


def _rounds_of(answer: Answer) -> Rounds:
    report = answer.report
    return Rounds(
        rounds=report.rounds,
        drafted=report.drafted,
        accepted=report.accepted,
        draft_us=report.draft_us,
        wire_us=report.wire_us,
        queue_us=report.queue_us,
        verify_us=report.verify_us,
        offered_by_depth=tuple(report.offered_by_depth),
        accepted_by_depth=tuple(report.accepted_by_depth),
    )
