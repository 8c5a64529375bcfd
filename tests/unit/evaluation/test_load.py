"""Sums of a load test, and its run against a service without sockets."""

import io
import json
from typing import cast
from xml.etree import ElementTree

import pytest
from rich.console import Console

from outrider.evaluation.client import AskFailed, Stub
from outrider.evaluation.load import Load, Point, StreamTimes, percentile, point_of
from outrider.evaluation.load_report import draw_load, load_document, load_table
from outrider.evaluation.load_run import LoadRun
from outrider.evaluation.prompts import OWN_SET, load_prompts
from tests.unit.evaluation.fake_service import FakeStub

PROMPTS = load_prompts(OWN_SET, ("qa",), per_task=3)


class Watch:
    """Says what it was told to, and counts the points."""

    def __init__(self) -> None:
        self.points = 0

    def begin(self) -> None:
        self.points += 1

    def peak(self) -> float | None:
        return 0.25


def load_run(stub: FakeStub, *methods: str) -> LoadRun:
    return LoadRun(cast(Stub, stub), methods, PROMPTS, 4, Watch())


def test_a_percentile_is_a_value_that_was_there() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert [percentile(values, share) for share in (0.2, 0.5, 0.99, 1.0)] == [1.0, 3.0, 5.0, 5.0]
    assert percentile([], 0.5) == 0.0
    assert percentile(list(range(1, 101)), 0.99) == 99


def test_a_point_sums_its_streams_up() -> None:
    streams = [
        StreamTimes(0.0, (1.0, 1.5, 3.0), (1, 2, 1), 3),
        StreamTimes(1.0, (1.5, 2.0), (1, 3), 2),
    ]
    point = point_of("ngram", Load(2), streams, 1, None)
    assert (point.requests, point.refused) == (2, 1)
    assert point.token_rate == pytest.approx(8 / 3)
    assert point.request_rate == pytest.approx(2 / 3)
    assert point.first_ms == (500.0, 1000.0)
    assert point.gap_ms == (500.0, 1500.0)
    assert point.tokens_per_round == pytest.approx(8 / 5)
    empty = point_of("none", Load(rate=1.0), [], 4, None)
    assert (empty.token_rate, empty.first_ms, empty.refused) == (0.0, (0.0, 0.0), 4)


@pytest.mark.asyncio
async def test_a_closed_loop_keeps_so_many_streams_and_methods_take_turns() -> None:
    stub = FakeStub()
    seen: list[Point] = []
    run = load_run(stub, "none", "ngram")
    points = await run.run([Load(1), Load(5)], 4, seen.append)
    assert seen == points
    assert [(p.method, p.load.streams, p.requests) for p in points] == [
        ("none", 1, 4), ("ngram", 1, 4), ("none", 5, 10), ("ngram", 5, 10),
    ]  # fmt: skip
    assert stub.most_running == 5
    assert all(point.kv_peak == 0.25 and point.refused == 0 for point in points)
    assert points[1].tokens_per_round == 2.0


@pytest.mark.asyncio
async def test_no_point_finds_the_prompts_of_another_one_in_the_prefix_cache() -> None:
    stub = FakeStub()
    loads = [Load(1), Load(3), Load(rate=1e6)]
    await load_run(stub, "none", "ngram").run(loads, 6, lambda _: None)
    warming, *measured = (request.cache_salt for request in stub.requests[1:])
    assert warming == ""
    assert len(set(measured)) == len(loads) * 2
    assert [measured.count(salt) for salt in dict.fromkeys(measured)] == [6] * 6


@pytest.mark.asyncio
async def test_an_open_loop_counts_what_is_refused() -> None:
    stub = FakeStub(failing_from=4)  # the first one warms up
    (point,) = await load_run(stub, "none").run([Load(rate=1e6)], 6, lambda _: None)
    assert (point.requests, point.refused) == (3, 3)


@pytest.mark.asyncio
async def test_a_closed_loop_that_fails_says_so() -> None:
    with pytest.raises(AskFailed, match="no worker"):
        await load_run(FakeStub(failing_from=2), "none").run([Load(2)], 4, lambda _: None)


POINTS = [
    Point("none", Load(1), 4, 0, 30.0, 0.5, (100.0, 200.0), (30.0, 60.0), 1.0, 0.1),
    Point("ngram", Load(1), 4, 0, 45.0, 0.7, (100.0, 200.0), (40.0, 70.0), 1.6, None),
    Point("none", Load(rate=0.5), 4, 2, 50.0, 0.5, (300.0, 900.0), (30.0, 90.0), 1.0, 0.4),
]


def test_table_document_and_picture_show_every_point() -> None:
    screen = io.StringIO()
    Console(file=screen, width=200).print(load_table(POINTS))
    for text in ("1 at a time", "0.5 a second", "45.0", "900", "40%"):
        assert text in screen.getvalue()
    document = json.loads(json.dumps(load_document(POINTS, {"requests": 4})))
    assert document["points"][2]["load"] == {"streams": 0, "rate": 0.5}
    root = ElementTree.fromstring(draw_load(POINTS, "a <title>"))
    width = float(root.attrib["width"])
    bars = [e for e in root.iter() if e.tag.endswith("rect")]
    assert len(bars) == 1 + 3 * len(POINTS)
    assert all(float(e.attrib.get("x", 0)) + float(e.attrib["width"]) <= width for e in bars)
