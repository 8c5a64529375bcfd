"""Which conversations are taken, and in which order."""

import numpy as np
import pytest

from outrider.training.conversation import (
    BadConversations,
    Conversation,
    LossOn,
    prepare,
    read_row,
)


def conversation(*ids: int, prompt: int) -> Conversation:
    return Conversation(np.array(ids, dtype=np.int32), prompt)


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ([], "object"),
        ({"ids": 3}, "object"),
        ({"ids": [1, 2, 99], "p": 1}, "0 to 9"),
        ({"ids": [1, True, 2], "p": 1}, "whole numbers"),
        ({"ids": [1, 2, 3], "p": 4}, "from 0 to 3"),
        ({"ids": [1, 2, 3], "p": "2"}, "from 0 to 3"),
    ],
)
def test_a_row_of_another_shape_names_its_place(row, word):
    with pytest.raises(BadConversations, match=f"here.*{word}"):
        read_row(row, 10, "here")


def test_answers_count_from_the_prompt_on_and_everything_from_the_third_token():
    one = conversation(1, 2, 3, 4, 5, prompt=4)
    assert one.first_counted(LossOn.ANSWER) == 4
    assert one.first_counted(LossOn.ALL) == 2
    assert conversation(1, 2, 3, prompt=0).first_counted(LossOn.ANSWER) == 2
    assert conversation(1, 2, prompt=1).first_counted(LossOn.ANSWER) == 2


def test_long_ones_are_cut_repeated_and_empty_ones_dropped():
    kept = prepare(
        [
            conversation(1, 2, 3, 4, 5, 6, prompt=2),
            conversation(1, 2, 3, 4, 9, 9, prompt=2),  # the same once cut
            conversation(7, 8, 9, prompt=3),  # no answer
            conversation(1, 2, 3, 4, 5, 6, prompt=5),  # its answer is cut off
        ],
        max_tokens=4,
        loss_on=LossOn.ANSWER,
    )
    assert [one.token_ids.tolist() for one in kept] == [[1, 2, 3, 4]]


def test_the_order_does_not_depend_on_the_order_given():
    many = [conversation(1, 2, last, prompt=1) for last in range(20)]
    one_way = prepare(many, 10, LossOn.ANSWER)
    other_way = prepare(many[::-1], 10, LossOn.ANSWER)
    assert [one.digest for one in one_way] == [one.digest for one in other_way]
    assert [one.token_ids[2] for one in one_way] != list(range(20))


def test_a_digest_knows_the_prompts_length():
    assert conversation(1, 2, 3, prompt=1).digest != conversation(1, 2, 3, prompt=2).digest
    assert conversation(1, 2, 3, prompt=2).prompt_digest == (
        conversation(1, 2, 4, 5, prompt=2).prompt_digest
    )
