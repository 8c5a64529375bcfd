"""Prompts and answers from a service: what is asked, what is kept, and what is not asked twice."""

import json
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outrider.evaluation.service import ServiceOptions
from outrider.settings import BadSettings
from outrider.training import asking
from outrider.training.chat_frame import ChatFrame
from outrider.training.make_answers import AnswerOptions, make_answers
from outrider.training.make_prompts import PromptOptions, make_prompts
from outrider.training.option_flags import OUR_OPENINGS
from outrider.training.prompts import read_opening, user_prompt
from outrider.training.serving import Serving
from outrider.training.smoke_target import build_smoke_target
from outrider.training.terminal import Terminal
from outrider.training.work_folder import WorkFolder, read_rows
from tests.unit.training.fake_service import FakeStub

SILENT = Terminal(is_silent=True)
START, END, USER, ASSISTANT = 0, 1, 2, 3
ANSWERS = AnswerOptions(
    max_new_tokens=6, temperatures=(0.0, 1.0), top_k=5, per_prompt=2, max_tokens=64, seed=3
)


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    build_smoke_target(folder, seed=1)
    return ChatFrame(folder)


@pytest.fixture
def stub(monkeypatch):
    stub = FakeStub()

    @asynccontextmanager
    async def connect(address):
        yield stub

    monkeypatch.setattr(asking, "connect", connect)
    return stub


@pytest.fixture
def work(tmp_path):
    work = WorkFolder(tmp_path, "run")
    work.prepare()
    return work


def serving() -> Serving:
    return Serving("tiny", "here:1", ServiceOptions(""), 4, "", SILENT)


def prompt_options(**changes) -> PromptOptions:
    values: dict[str, Any] = {
        "files": [], "own_count": 6, "openings": [], "max_tokens": 5, "temperature": 1.0,
        "top_k": 0, "keeps_cut": False, "seed": 10,
    }  # fmt: skip
    return PromptOptions(**(values | changes))


def test_the_target_is_put_in_the_users_place(frame, stub, work):
    prompts = make_prompts(prompt_options(), frame, work, serving(), SILENT)
    assert [list(request.token_ids.ids) for request in stub.requests] == [[USER]] * 6
    assert list(stub.requests[0].limits.stop_token_ids) == [END]
    assert {request.sampling.seed for request in stub.requests} == set(range(10, 16))
    assert len(prompts) == 3  # the fake cuts every other one short
    everything = prompt_options(keeps_cut=True)
    assert len(make_prompts(everything, frame, work, serving(), SILENT)) == 6
    assert len(stub.requests) == 6


def test_more_prompts_are_asked_for_and_none_twice(frame, stub, work):
    make_prompts(prompt_options(own_count=2), frame, work, serving(), SILENT)
    make_prompts(prompt_options(own_count=5), frame, work, serving(), SILENT)
    assert sorted(request.sampling.seed for request in stub.requests) == [10, 11, 12, 13, 14]


def test_it_goes_on_with_first_words_that_take_turns(frame, stub, work, tmp_path):
    path = tmp_path / "openings.jsonl"
    path.write_text('{"text": "seven grey"}\n{"text": "", "max_tokens": 9}\n')
    options = prompt_options(openings=[path], own_count=4, keeps_cut=True)
    prompts = make_prompts(options, frame, work, serving(), SILENT)
    assert len(prompts) == 4
    asked = {request.sampling.seed: request for request in stub.requests}
    begun = frame.user_turn("seven grey").begin_ids
    for seed in (10, 12):
        assert list(asked[seed].token_ids.ids) == begun != [USER]
        assert asked[seed].limits.max_new_tokens == 5
    for seed in (11, 13):
        assert list(asked[seed].token_ids.ids) == [USER]
        assert asked[seed].limits.max_new_tokens == 9
    texts = [
        record["text"] for record in map(json.loads, work.user_turns.read_text().splitlines()[1:])
    ]
    assert sum(text.startswith("seven grey") for text in texts) == 2
    with pytest.raises(BadSettings, match="openings"):
        make_prompts(prompt_options(), frame, work, serving(), SILENT)


def test_our_own_openings_can_be_read():
    openings = [read_opening(row, where) for row, where in read_rows(OUR_OPENINGS)]
    assert len(openings) > 50
    assert any(one.max_tokens for one in openings)
    assert "" in {one.text for one in openings}


def test_files_and_the_targets_own_are_one_list_in_a_fixed_order(frame, stub, work, tmp_path):
    path = tmp_path / "given.jsonl"
    path.write_text('{"text": "Why?"}\n{"text": "why? "}\n{"text": "How far is it?"}\n')
    options = prompt_options(files=[path], own_count=4)
    prompts = make_prompts(options, frame, work, serving(), SILENT)
    assert len(prompts) == 2 + 2
    assert [one.digest for one in prompts] == sorted(one.digest for one in prompts)
    assert len(work.prompts.read_text().splitlines()) == 4


def test_other_settings_do_not_mix(frame, stub, work):
    make_prompts(prompt_options(), frame, work, serving(), SILENT)
    with pytest.raises(BadSettings, match="temperature"):
        make_prompts(prompt_options(temperature=0.5), frame, work, serving(), SILENT)


def test_answers_follow_their_prompts(frame, stub, work):
    prompts = [user_prompt("Why?"), user_prompt("How far is it?")]
    conversations = make_answers(prompts, ANSWERS, frame, work, serving(), SILENT)
    assert len(conversations) == 4
    asked = {tuple(request.token_ids.ids) for request in stub.requests}
    assert asked == {tuple(frame.prompt_ids(prompt)) for prompt in prompts}
    for one in conversations:
        assert tuple(one.token_ids[: one.prompt_length].tolist()) in asked
        assert one.token_ids[0] == USER
        assert one.token_ids[one.prompt_length - 1] == ASSISTANT
        assert len(one) == one.prompt_length + 6
    assert {request.sampling.temperature for request in stub.requests} == {0.0, 1.0}
    assert all(
        request.sampling.top_k == (5 if request.sampling.temperature else 0)
        for request in stub.requests
    )


def test_an_answer_keeps_its_seed_when_prompts_are_added(frame, stub, work, tmp_path):
    first = make_answers([user_prompt("Why?")], ANSWERS, frame, work, serving(), SILENT)
    both = [user_prompt("A?"), user_prompt("Why?")]
    assert len(make_answers(both, ANSWERS, frame, work, serving(), SILENT)) == 4
    assert len(stub.requests) == 4
    elsewhere = WorkFolder(tmp_path / "other", "run")
    elsewhere.prepare()
    again = make_answers(both, ANSWERS, frame, elsewhere, serving(), SILENT)
    digests = {one.digest for one in again}
    assert {one.digest for one in first} <= digests


def test_a_killed_run_asks_for_what_is_missing_only(frame, stub, work):
    prompts = [user_prompt("Why?"), user_prompt("How far is it?")]
    make_answers(prompts, ANSWERS, frame, work, serving(), SILENT)
    lines = work.answers.read_text().splitlines(keepends=True)
    work.answers.write_text("".join(lines[:3]) + lines[3][:20])  # the third is cut short
    conversations = make_answers(prompts, ANSWERS, frame, work, serving(), SILENT)
    assert len(conversations) == 4
    assert len(stub.requests) == 4 + 2


def test_a_prompt_without_room_for_an_answer_is_passed_over(frame, stub, work):
    long = user_prompt("seven grey horses " * 40)
    assert make_answers([long], ANSWERS, frame, work, serving(), SILENT) == []
    assert stub.requests == []
