"""Runs the rows of an exactness plan against a service and stores each answer as it comes.

Owns the order and the clock; judging is `exactness_plan.py`'s.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress, TaskID

from outrider.evaluation.client import Answer, Stub, ask_all, chat_request
from outrider.evaluation.exactness_plan import (
    Expected,
    PromptKey,
    Row,
    Verdict,
    judge,
    seed_for,
    with_margins,
)
from outrider.evaluation.exactness_report import RowResult, TokenText, describe_mismatch
from outrider.evaluation.margins import Decision
from outrider.evaluation.prompts import Prompt
from outrider.evaluation.result_log import Record, ResultLog
from outrider.evaluation.terminal import progress_bar
from outrider.v1 import decoding_pb2, generation_pb2

SAMPLED_TEMPERATURE = 1.0

MeasureMargins = Callable[[Sequence[Decision]], list[float]]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How every row is run.

    Args:
        max_new_tokens: Most ids of an answer.
        seed: Base of the prompts' seeds.
        tolerance: Largest margin of a forgiven mismatch, in logits; None: none is forgiven.
    """

    max_new_tokens: int
    seed: int
    tolerance: float | None


class ExactnessRun:
    """One run over a plan.

    Args:
        prompts: What to ask.
        references: Ids of the greedy rows, by prompt.
        options: How.
        log: Holds earlier answers and takes the new ones.
        token_text: How ids read, for mismatches.
        measure_margins: Of sampled decisions; called only where sampled ids differ.
        console: Where progress and mismatches are shown.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        references: Mapping[PromptKey, Expected],
        options: RunOptions,
        log: ResultLog,
        token_text: TokenText,
        measure_margins: MeasureMargins,
        console: Console,
    ) -> None:
        self._prompts = prompts
        self._expected: dict[str, Mapping[PromptKey, Expected]] = {"greedy": references}
        self._options = options
        self._log = log
        self._token_text = token_text
        self._measure_margins = measure_margins
        self._console = console

    async def run(self, stub: Stub, rows: Sequence[Row]) -> list[RowResult]:
        """Runs the rows in order.

        Raises:
            AskFailed: The service failed; what was answered before is stored.
        """
        results = []
        with progress_bar(self._console) as bar:
            job = bar.add_task("exactness", total=len(rows) * len(self._prompts))
            for row in rows:
                bar.update(job, description=row.name)
                answers = await self._answers(stub, row, bar, job)
                results.append(await self._judge(row, answers))
        return results

    async def _answers(
        self, stub: Stub, row: Row, bar: Progress, job: TaskID
    ) -> dict[PromptKey, Record]:
        digests = {prompt.key: prompt.digest for prompt in self._prompts}
        answers: dict[PromptKey, Record] = {}
        for record in self._log.records:
            if record["type"] == "answer" and record["row"] == row.name:
                key = (record["task"], record["id"])
                if digests.get(key) == record["digest"]:
                    answers[key] = record
        bar.advance(job, len(answers))
        missing = [prompt for prompt in self._prompts if prompt.key not in answers]
        # A continued row's clock goes on from where it stopped.
        start = time.monotonic() - max((a["row_seconds"] for a in answers.values()), default=0.0)

        def store(index: int, answer: Answer) -> None:
            record = _to_record(row, missing[index], answer, time.monotonic() - start)
            self._log.append(record)
            answers[missing[index].key] = record
            bar.advance(job)

        requests = [self._request(row, prompt) for prompt in missing]
        await ask_all(stub, requests, row.concurrency, store)
        return {prompt.key: answers[prompt.key] for prompt in self._prompts}

    def _request(self, row: Row, prompt: Prompt) -> generation_pb2.GenerateRequest:
        sampling = None
        if row.mode == "sampled":
            sampling = decoding_pb2.Sampling(
                temperature=SAMPLED_TEMPERATURE, seed=seed_for(prompt, self._options.seed)
            )
        return chat_request(prompt.text, row.method, self._options.max_new_tokens, sampling)

    async def _judge(self, row: Row, answers: Mapping[PromptKey, Record]) -> RowResult:
        ids = {key: tuple(record["ids"]) for key, record in answers.items()}
        if row.is_yardstick:
            self._expected["sampled"] = {key: Expected(value) for key, value in ids.items()}
        verdict = judge(row, ids, self._expected[row.mode], self._options.tolerance)
        if row.mode == "sampled":
            verdict = await self._with_margins(verdict, ids)
        by_task: dict[str, list[Record]] = {}
        for (task, _), record in answers.items():
            by_task.setdefault(task, []).append(record)
        result = RowResult(
            verdict=verdict,
            tokens_per_round=_tokens_per_round(answers.values()),
            by_task={task: _tokens_per_round(records) for task, records in by_task.items()},
            seconds=max((r["row_seconds"] for r in answers.values()), default=0.0),
        )
        self._log.append(result.to_record())
        for key, mismatch in verdict.mismatches.items():
            line = describe_mismatch(row.name, key, mismatch, self._token_text)
            self._console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
        return result

    async def _with_margins(
        self, verdict: Verdict, ids: Mapping[PromptKey, tuple[int, ...]]
    ) -> Verdict:
        """Measures how close the decisions were where sampled ids part; the service is idle."""
        drawn = [
            (prompt, mismatch)
            for prompt in self._prompts
            if (mismatch := verdict.mismatches.get(prompt.key)) is not None
            and mismatch.expected is not None
            and mismatch.actual is not None
        ]
        if not drawn:
            return verdict
        decisions = [
            Decision(
                text=prompt.text,
                before=ids[prompt.key][: mismatch.position],
                seed=seed_for(prompt, self._options.seed),
                temperature=SAMPLED_TEMPERATURE,
            )
            for prompt, mismatch in drawn
        ]
        margins = await asyncio.to_thread(self._measure_margins, decisions)
        by_prompt = {prompt.key: value for (prompt, _), value in zip(drawn, margins, strict=True)}
        return with_margins(verdict, by_prompt, self._options.tolerance)


def _tokens_per_round(records: Iterable[Record]) -> float:
    pairs = [(len(record["ids"]), record["rounds"]) for record in records]
    rounds = sum(count for _, count in pairs)
    return sum(tokens for tokens, _ in pairs) / rounds if rounds else 0.0


def _to_record(row: Row, prompt: Prompt, answer: Answer, row_seconds: float) -> Record:
    return {
        "type": "answer",
        "row": row.name,
        "task": prompt.task,
        "id": prompt.id,
        "digest": prompt.digest,
        "ids": list(answer.token_ids),
        "prompt_tokens": answer.prompt_tokens,
        "finish_reason": answer.finish_reason,
        "rounds": answer.report.rounds,
        "drafted": answer.report.drafted,
        "accepted": answer.report.accepted,
        "row_seconds": round(row_seconds, 3),
    }
