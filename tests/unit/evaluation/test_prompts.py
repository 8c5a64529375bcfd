"""Reading task sets."""

import json
from pathlib import Path

import pytest

from outrider.evaluation.prompts import OWN_SET, TASKS, BadPrompts, load_prompts

GOOD = {"id": 7, "task": "qa", "turns": ["Who?", "Why?"]}


def write(folder: Path, *lines: str) -> None:
    (folder / "qa.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_own_set_has_four_prompts_of_each_task() -> None:
    prompts = load_prompts(OWN_SET)
    assert len(prompts) == 4 * len(TASKS)
    assert {prompt.task for prompt in prompts} == set(TASKS)
    assert all("\n\n" in p.text for p in prompts if p.task == "sum")


def test_tasks_take_turns_and_a_place_does_not_depend_on_the_part_that_is_run() -> None:
    everything = {prompt.key: prompt for prompt in load_prompts(OWN_SET)}
    assert [prompt.place for prompt in everything.values()] == list(range(24))
    part = load_prompts(OWN_SET, ("sum", "qa"), per_task=2)
    assert [prompt.key for prompt in part] == [("qa", 0), ("sum", 0), ("qa", 1), ("sum", 1)]
    assert all(everything[prompt.key] == prompt for prompt in part)


def test_only_the_first_turn_is_used(tmp_path: Path) -> None:
    write(tmp_path, json.dumps(GOOD))
    [prompt] = load_prompts(tmp_path, ("qa",))
    assert (prompt.key, prompt.text) == (("qa", 7), "Who?")


def test_a_text_may_hold_any_line_separator(tmp_path: Path) -> None:
    write(tmp_path, json.dumps(GOOD | {"turns": ["a\u2028b\x85c"]}, ensure_ascii=False))
    assert load_prompts(tmp_path, ("qa",))[0].text == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        (json.dumps(GOOD | {"id": "7"}), "id must be"),
        (json.dumps(GOOD | {"id": True}), "id must be"),
        (json.dumps(GOOD | {"task": "sum"}), "task must be 'qa'"),
        (json.dumps(GOOD | {"turns": []}), "turns must be"),
        (json.dumps(GOOD | {"turns": [""]}), "turns must be"),
        (json.dumps(GOOD | {"turns": "Who?"}), "turns must be"),
        (json.dumps(GOOD), "id 7 appears twice"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, line: str, words: str) -> None:
    write(tmp_path, json.dumps(GOOD), line)
    with pytest.raises(BadPrompts, match=words) as error:
        load_prompts(tmp_path, ("qa",))
    assert f"{tmp_path / 'qa.jsonl'}, line 2" in str(error.value)


def test_an_unknown_task_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPrompts, match="unknown task poetry"):
        load_prompts(tmp_path, ("poetry",))
    with pytest.raises(BadPrompts, match=r"qa\.jsonl"):
        load_prompts(tmp_path, ("qa",))
