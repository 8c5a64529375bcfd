"""What a prompt file may hold, and which prompts are the same."""

import pytest

from outrider.training.conversation import BadConversations
from outrider.training.prompts import Message, Prompt, in_order, read_prompt, user_prompt


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
