"""Streams over a link, left in peace or while its cable is pulled. Compares nothing by itself."""

import asyncio
import itertools
from collections.abc import Callable, Sequence

from outrider.evaluation.bench_run import sample_of
from outrider.evaluation.client import Answer, AskFailed, Stub, ask
from outrider.evaluation.throughput import summarise
from outrider.v1 import generation_pb2
from tests.links.findings import LinkFinding, PullFinding

BEFORE_PULL = 3  # messages of each stream
PROBLEM_TIMEOUT_S = 120.0

Requests = Sequence[generation_pb2.GenerateRequest]
Ids = tuple[int, ...]


async def together(stub: Stub, requests: Requests) -> list[Answer]:
    """All requests at once, to their ends.

    Raises:
        AskFailed: One failed.
    """
    return await asyncio.gather(*(ask(stub, request) for request in requests))


async def over_link(
    stub: Stub, requests: Requests, expected: Sequence[Ids], link: str, repeats: int
) -> LinkFinding:
    """Measures a link.

    Args:
        stub: The service.
        requests: Run together.
        expected: Their ids.
        link: What it is like.
        repeats: How many times.

    Raises:
        AskFailed: A stream failed.
    """
    runs = [await together(stub, requests) for _ in range(repeats)]
    summary = summarise([sample_of(link, run) for run in runs])
    equal = sum(
        answer.token_ids == ids for run in runs for answer, ids in zip(run, expected, strict=True)
    )
    tokens = sum(len(answer.token_ids) for run in runs for answer in run)
    seconds = sum(max(answer.last_s for answer in run) for run in runs)
    method = runs[0][0].report.method
    answers = repeats * len(requests)
    return LinkFinding(link, method, len(requests), equal, answers, tokens / seconds, summary)


async def while_pulled(
    stub: Stub,
    requests: Requests,
    expected: Sequence[Ids],
    pull: Callable[[], None],
    plug: Callable[[], None],
    seconds: float,
) -> PullFinding:
    """Pulls the cable when every stream runs, and plugs it in again after so many seconds."""
    counts = [0] * len(requests)
    has_begun = asyncio.Event()

    def note(index: int) -> None:
        counts[index] += 1
        if min(counts) >= BEFORE_PULL:
            has_begun.set()

    async def run(index: int) -> Answer | str:
        try:
            async with asyncio.timeout(PROBLEM_TIMEOUT_S):
                return await ask(stub, requests[index], lambda: note(index))
        except AskFailed as error:
            return str(error)
        except TimeoutError:
            return f"no end in {PROBLEM_TIMEOUT_S:g} s"
        finally:
            counts[index] = max(counts[index], BEFORE_PULL)  # who ends early is not waited for

    streams = [asyncio.create_task(run(index)) for index in range(len(requests))]
    await has_begun.wait()
    pull()
    try:
        cut = sum(not stream.done() for stream in streams)
        await asyncio.sleep(seconds)
    finally:
        plug()
    ended = await asyncio.gather(*streams)
    answers = {index: one for index, one in enumerate(ended) if isinstance(one, Answer)}
    return PullFinding(
        method=next((one.report.method for one in answers.values()), ""),
        streams=len(requests),
        seconds=seconds,
        cut=cut,
        moved=sum(one.report.failovers > 0 for one in answers.values()),
        equal=sum(one.token_ids == expected[index] for index, one in answers.items()),
        problems=tuple(one for one in ended if isinstance(one, str)),
        silence_s=max((_silence(one) for one in answers.values()), default=0.0),
    )


def _silence(answer: Answer) -> float:
    times = (answer.asked_s, *answer.message_s)
    return max(later - earlier for earlier, later in itertools.pairwise(times))
