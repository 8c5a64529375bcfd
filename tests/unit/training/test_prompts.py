"""What a prompt file may hold, and which prompts are the same."""

import pytest

from outrider.training.conversation import BadConversations
from outrider.training.prompts import (
    Message,
    Opening,
    Prompt,
    in_order,
    openings_digest,
    read_opening,
    read_prompt,
    user_prompt,
)


def test_a_text_is_a_message_of_the_users():
    assert read_prompt({"text": " hello \n"}, "here") == Prompt((Message("user", "hello"),))


def test_messages_are_taken_as_they_are():
    rows = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    prompt = read_prompt({"messages": rows}, "here")
    assert [one.role for one in prompt.messages] == ["system", "user"]


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ("hello", "neither"),
        ({"text": "  "}, "neither"),
        ({"messages": []}, "neither"),
        ({"messages": [{"role": "user"}]}, "content"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "role"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "last message"),
    ],
)
def test_anything_else_names_its_place(row, word):
    with pytest.raises(BadConversations, match=f"here.*{word}"):
        read_prompt(row, "here")


def test_the_same_words_are_one_prompt_in_a_fixed_order():
    texts = ["Why is the sky blue?", "why is  the sky BLUE?", "What is a coach?", "Name a river."]
    one_way = in_order(map(user_prompt, texts))
    assert len(one_way) == 3
    assert [p.digest for p in one_way] == [
        p.digest for p in in_order(map(user_prompt, texts[::-1]))
    ]


def test_an_opening_may_be_empty_and_may_be_long():
    assert read_opening({"text": ""}, "here") == Opening("")
    assert read_opening({"text": "Why", "max_tokens": 9}, "here") == Opening("Why", 9)


@pytest.mark.parametrize(
    ("row", "word"),
    [("Why", "text"), ({"text": 3}, "text"), ({"text": "Why", "max_tokens": 0}, "max_tokens")],
)
def test_other_openings_are_refused(row, word):
    with pytest.raises(BadConversations, match=f"here: .*{word}"):
        read_opening(row, "here")


def test_openings_are_told_apart_by_words_order_and_length():
    lists = [[Opening("a"), Opening("b")], [Opening("b"), Opening("a")], [Opening("a", 3)], []]
    assert len({openings_digest(one) for one in lists}) == 4
