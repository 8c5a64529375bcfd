"""Tables and picture of a benchmark."""

import io
import json
from xml.etree import ElementTree

from rich.console import Console

from outrider.evaluation.bench_picture import draw
from outrider.evaluation.bench_report import cells_of, document_of, rates_table, split_table
from outrider.evaluation.throughput import Rounds, Sample, Timing

ROUNDS = Rounds(10, 40, 10, 1000, 2000, 3000, 900_000)


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


def test_a_single_task_has_no_line_for_all() -> None:
    cells = cells_of({"none": [sample("qa", 1.0)]}, against=["none"])
    assert [cell.task for cell in cells] == ["qa"]


def test_the_tables_show_rates_and_the_split() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=160)
    console.print(rates_table(CELLS, AGAINST))
    console.print(split_table(CELLS))
    text = screen.getvalue()
    assert "2.00 (2.00-2.00)" in text
    assert "90000" in text
    assert "transformers" not in text[text.index("a round, microseconds") :]


def test_the_document_is_json() -> None:
    document = json.loads(json.dumps(document_of(CELLS, SAMPLES, {"prompts": 2})))
    assert document["results"][0]["summary"]["tokens"] == 21
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
