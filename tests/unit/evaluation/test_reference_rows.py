"""Stored reference rows: their key, their shape, and which prompts they belong to."""

from dataclasses import replace
from pathlib import Path

import pytest

from outrider.evaluation.prompts import Prompt
from outrider.evaluation.reference_rows import (
    BadReference,
    Reference,
    model_digest,
    reference_log,
    stored_references,
)
from outrider.evaluation.result_log import OtherRun

PROMPT = Prompt("qa", 7, 0, "Who?")
ROW = Reference("qa", 7, (1, 2), (3, 4), (5, 6), (0.5, 0.25), 0.1, PROMPT.digest)


def test_a_row_survives_its_record() -> None:
    assert Reference.from_record(ROW.to_record()) == ROW


def test_rows_of_unequal_lengths_or_unknown_fields_are_refused() -> None:
    with pytest.raises(BadReference, match="qa/7"):
        Reference.from_record(ROW.to_record() | {"margins": [0.5]})
    with pytest.raises(BadReference, match="not a reference row"):
        Reference.from_record(ROW.to_record() | {"colour": "red"})


def test_a_row_of_another_text_under_the_same_id_is_not_taken(tmp_path: Path) -> None:
    log = reference_log("org/model", 2, tmp_path / "rows.jsonl")
    log.append(replace(ROW, digest="other").to_record())
    assert stored_references(log, [PROMPT]) == {}
    log.append(ROW.to_record())
    assert stored_references(log, [PROMPT]) == {PROMPT.key: ROW}


def test_another_length_or_model_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    reference_log("org/model", 2, path)
    with pytest.raises(OtherRun, match="max_new_tokens 2"):
        reference_log("org/model", 3, path)
    with pytest.raises(OtherRun, match="model"):
        reference_log("org/other", 2, path)


def test_any_file_that_decides_the_output_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "chat_template.jinja").write_text("{{ x }}")
    before = model_digest(str(tmp_path))
    (tmp_path / "README.md").write_text("no part of the model")
    assert model_digest(str(tmp_path)) == before
    (tmp_path / "chat_template.jinja").write_text("{{ y }}")
    assert model_digest(str(tmp_path)) != before
