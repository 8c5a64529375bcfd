"""Measures a service that serves: same tokens, speed with and without speculation, and load.

Shell: owns the streams and the clock. What is good or bad is said elsewhere.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from outrider.client import Model
from outrider.evaluation.client import Answer, AnyStub, ask, ask_all, chat_request
from outrider.evaluation.load import Load
from outrider.evaluation.load_run import LoadRun
from outrider.evaluation.prompts import Prompt
from outrider.evaluation.throughput import Timing, rate_ratio
from outrider.going_live import figures, verdicts
from outrider.going_live.lines import Line
from outrider.going_live.settings import CheckOptions
from outrider.v1 import decoding_pb2, generation_pb2

SPEED_PROMPTS = 4
TICK_S = 0.2
TEXT = "Write a short story about a coach, its horses and the rider who goes ahead of them."

Ids = tuple[int, ...]


def request_of(
    model: Model,
    text: str,
    method: str,
    max_new_tokens: int,
    sampling: decoding_pb2.Sampling | None = None,
) -> generation_pb2.GenerateRequest:
    """As a message, or as it is where the model has no chat template."""
    request = chat_request(text, method, max_new_tokens, sampling)
    if not model.has_chat_template:
        request.prompt = text  # takes the place of the chat
    return request


class Measuring:
    """Measures one service.

    Args:
        options: How hard.
        prompts: What may be asked; so many are kept as were asked for, of those that fit.
        model: What is served.
        stub: The service.
        on_progress: Told what is being done, and how much of it is done, 0 to 1.
    """

    def __init__(
        self,
        options: CheckOptions,
        prompts: Sequence[Prompt],
        model: Model,
        stub: AnyStub,
        on_progress: Callable[[str, float], None],
    ) -> None:
        self._options, self._model, self._stub = options, model, stub
        self._on_progress = on_progress
        most, limit = options.max_new_tokens, model.context_limit
        fit = [one for one in prompts if verdicts.fits(one.text, limit, most)]
        self._prompts = fit[: options.prompts] or [Prompt("story", 0, 0, TEXT)]

    async def exactness(self) -> list[Line]:
        """Whether speculation changes a token, greedily and with a seed.

        Raises:
            AskFailed: A request failed.
        """
        lines = []
        for number, (name, temperature) in enumerate((("greedy", 0.0), ("seeded", 1.0))):
            plain = await self._ids("none", temperature, number / 2)
            drafted = await self._ids("", temperature, number / 2 + 0.25)
            pairs = [
                verdicts.Pair(f"{prompt.task} {prompt.id}", *both)
                for prompt, *both in zip(self._prompts, plain, drafted, strict=True)
            ]
            lines.append(verdicts.exact_line(name, pairs, self._options.differing))
        return lines

    async def _ids(self, method: str, temperature: float, done: float) -> list[Ids]:
        """Ids of all prompts; `done` is the share of the step that lies behind."""
        found: dict[int, Ids] = {}

        def keep(index: int, answer: Answer) -> None:
            found[index] = answer.token_ids
            self._on_progress("exactness", done + 0.25 * len(found) / len(self._prompts))

        requests = [
            request_of(
                self._model,
                prompt.text,
                method,
                self._options.max_new_tokens,
                decoding_pb2.Sampling(temperature=temperature, seed=place),
            )
            for place, prompt in enumerate(self._prompts)
        ]
        await ask_all(self._stub, requests, self._options.concurrency, keep)
        return [found[index] for index in range(len(requests))]

    async def speed(self) -> list[Line]:
        """Whether speculation pays: plain and drafted in turn, prompt by prompt, one stream.

        Raises:
            AskFailed: A request failed.
        """
        plain: list[Answer] = []
        drafted: list[Answer] = []
        prompts = self._prompts[:SPEED_PROMPTS]
        for number, prompt in enumerate(prompts):
            for method, answers in (("none", plain), ("", drafted)):
                request = request_of(self._model, prompt.text, method, self._options.max_new_tokens)
                answers.append(await ask(self._stub, request))
            self._on_progress("speed", (number + 1) / len(prompts))
        tokens = sum(len(one.token_ids) for one in drafted)
        rounds = sum(one.report.rounds for one in drafted)
        method = self._model.default_method
        ratio = rate_ratio([_timing(one) for one in drafted], [_timing(one) for one in plain])
        seen = figures.Ratio(ratio.value, ratio.low, ratio.high) if ratio is not None else None
        return [figures.round_line(tokens, rounds, method), figures.speed_line(seen, method)]

    async def load(self) -> list[Line]:
        """What the service does at the given rate, whether it keeps up or not.

        Raises:
            AskFailed: The first request failed.
        """
        options = self._options
        run = LoadRun(
            self._stub,
            ("",),
            self._prompts,
            options.max_new_tokens,
            _NoWatch(),
            request_of=partial(request_of, self._model),
        )
        async with self._ticking("load", options.seconds):
            count = math.ceil(options.rate * options.seconds)
            points = await run.run([Load(rate=options.rate)], count, lambda _: None)
        return figures.load_lines(points[0], options.budget, run.problems)

    @asynccontextmanager
    async def _ticking(self, name: str, seconds: float) -> AsyncIterator[None]:
        async def tick() -> None:
            start = time.monotonic()
            while True:
                self._on_progress(name, min(1.0, (time.monotonic() - start) / seconds))
                await asyncio.sleep(TICK_S)

        ticking = asyncio.create_task(tick())
        try:
            yield
        finally:
            ticking.cancel()


class _NoWatch:
    """The pool may be out of sight."""

    def begin(self) -> None:
        """Nothing to begin."""

    def peak(self) -> float | None:
        """Not known."""
        return None


def _timing(answer: Answer) -> Timing:
    return Timing(len(answer.token_ids), answer.first_count, answer.first_s, answer.last_s)
