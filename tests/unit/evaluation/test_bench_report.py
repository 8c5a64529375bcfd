"""Tables and picture of a benchmark."""

import io
import json
import re
from xml.etree import ElementTree

import pytest
from rich.console import Console

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
from outrider.evaluation.throughput import Rounds, Sample, Timing

ROUNDS = Rounds(10, 40, 10, 1000, 2000, 3000, 900_000, (10, 8, 5), (8, 2))


def sample(task: str, seconds: float, rounds: Rounds = ROUNDS) -> Sample:
    return Sample(task, Timing(21, 1, 0.0, seconds), seconds, rounds)


SAMPLES = {
    "none": [sample("qa", 1.0), sample("sum", 2.0)],
    "ngram": [sample("qa", 1.0), sample("sum", 1.0)],
    "transformers": [sample("qa", 4.0, Rounds()), sample("sum", 4.0, Rounds())],
}
AGAINST = ["none", "transformers"]
CELLS = cells_of(SAMPLES, AGAINST)


def test_cells_cover_each_task_and_all_of_them() -> None:
    assert [(cell.task, cell.method) for cell in CELLS] == [
        (task, method) for task in ("qa", "sum", "all") for method in SAMPLES
    ]
    ratios = {
        (cell.task, cell.method, other): round(ratio.value, 2)
        for cell in CELLS
        for other, ratio in cell.ratios.items()
    }
    assert ratios["qa", "ngram", "none"] == 1.0
    assert ratios["sum", "ngram", "none"] == 2.0
    assert ratios["all", "ngram", "none"] == 1.5
    assert ratios["all", "none", "transformers"] == 2.67
    assert all(method != other for _, method, other in ratios)


def test_means_weigh_each_task_the_same() -> None:
    means = {one.method: one for one in means_of(CELLS)}
    assert means["ngram"].ratios["none"] == pytest.approx(2**0.5)  # of 1 and 2
    assert means["ngram"].least_ratios["none"] == pytest.approx(1.0)
    assert means["none"].ratios["transformers"] == pytest.approx(8**0.5)  # of 4 and 2
    assert means["none"].tokens_per_round == pytest.approx(2.1)
    assert "none" not in means["none"].ratios
    screen = io.StringIO()
    Console(file=screen, width=160).print(means_table(list(means.values()), AGAINST))
    assert "1.41 (1.00)" in screen.getvalue()


def test_a_single_task_has_no_line_for_all() -> None:
    cells = cells_of({"none": [sample("qa", 1.0)]}, against=["none"])
    assert [cell.task for cell in cells] == ["qa"]
    assert not means_of(cells)


def test_the_tables_show_rates_and_the_split() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=160)
    console.print(rates_table(CELLS, AGAINST))
    console.print(depth_table(CELLS))
    console.print(split_table(CELLS))
    text = screen.getvalue()
    assert "2.00 (2.00-2.00)" in text
    assert "90000" in text
    assert re.search(r"ngram +│ +80% +│ +25% +│ +0%", text)
    assert "transformers" not in text[text.index("a round, microseconds") :]


def test_the_document_is_json() -> None:
    document = json.loads(json.dumps(document_of(CELLS, means_of(CELLS), SAMPLES, {"prompts": 2})))
    assert document["results"][0]["summary"]["tokens"] == 21
    assert document["means"][1]["method"] == "ngram"
    assert document["samples"]["ngram"][1]["timing"]["last_s"] == 1.0


def test_the_picture_is_svg_and_stays_inside_its_frame() -> None:
    root = ElementTree.fromstring(draw(CELLS, "none", "a <title>"))
    width = float(root.attrib["width"])
    bars = [e for e in root.iter() if e.tag.endswith("rect")]
    assert len(bars) > 20
    assert all(float(e.attrib.get("x", 0)) + float(e.attrib["width"]) <= width for e in bars)
    texts = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert "a <title>" in texts
    assert "sum, ngram" in texts
    height = float(root.attrib["height"])
    lines = [e.attrib["points"] for e in root.iter() if e.tag.endswith("polyline")]
    assert len(lines) == 3 + 2  # the scale, and both methods that draft
    for points in lines:
        for point in points.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
