"""The draft vocabulary is what occurs, never what does not."""

import numpy as np

from outrider.training.conversation import Conversation, LossOn
from outrider.training.vocabulary import choose_vocabulary, count_tokens


def test_only_tokens_that_the_loss_counts_are_counted():
    one = Conversation(np.array([5, 5, 5, 1, 2, 2], dtype=np.int32), 3)
    assert count_tokens([one, one], 6, LossOn.ANSWER).tolist() == [0, 2, 4, 0, 0, 0]
    assert count_tokens([one], 6, LossOn.ALL).tolist() == [0, 1, 2, 0, 0, 1]


def test_the_most_frequent_are_taken_and_ties_go_to_the_lower_id():
    chosen = choose_vocabulary(np.array([1, 7, 3, 3, 9]), wanted=3)
    assert chosen.target_ids.tolist() == [1, 2, 4]
    assert chosen.coverage == 19 / 23


def test_it_is_never_larger_than_what_occurs():  # SpecForge#76
    chosen = choose_vocabulary(np.array([0, 7, 0, 3, 0]), wanted=4096)
    assert chosen.target_ids.tolist() == [1, 3]
    assert chosen.coverage == 1.0


def test_the_end_of_sequence_can_always_be_guessed():
    chosen = choose_vocabulary(np.array([1, 7, 0, 3, 9]), wanted=3, always=(2,))
    assert chosen.target_ids.tolist() == [1, 2, 4]
    only = choose_vocabulary(np.array([0, 7, 0]), wanted=2, always=(2,))
    assert only.target_ids.tolist() == [1, 2]


def test_draft_ids_are_the_inverse():
    chosen = choose_vocabulary(np.array([1, 7, 3, 3, 9]), wanted=3)
    draft_ids = chosen.draft_ids(5)
    assert draft_ids.tolist() == [-1, 0, 1, -1, 2]
    assert draft_ids[chosen.target_ids].tolist() == [0, 1, 2]
