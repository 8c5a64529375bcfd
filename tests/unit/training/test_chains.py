"""Where chains start, and which of their guesses count."""

import numpy as np

from outrider.training.chains import plan_chains

OUTSIDE = -1


def plan(draft_ids, lengths, firsts, steps):
    return plan_chains(np.array(draft_ids, dtype=np.int64), lengths, firsts, steps)


def test_a_chain_starts_two_rows_before_each_counted_token():
    chains = plan([0] * 12, [5, 7], [3, 2], 1)
    assert chains.starts.tolist() == [1, 2, 5, 6, 7, 8, 9]
    assert chains.counts_by_part == [2, 5]


def test_a_chain_ends_with_its_text():
    chains = plan([0] * 10, [5, 5], [2, 2], 3)
    for matrix in (chains.reached, chains.counted):
        assert matrix.astype(int).tolist() == [
            [1, 1, 1, 1, 1, 1],
            [1, 1, 0, 1, 1, 0],
            [1, 0, 0, 1, 0, 0],
        ]


def test_a_token_that_cannot_be_guessed_ends_the_chain_through_it():
    #                 0  1  2  3        4  5
    chains = plan([0, 0, 0, OUTSIDE, 0, 0], [6], [2], 3)
    assert chains.starts.tolist() == [0, 1, 2, 3]  # they guess tokens 2, 3, 4 and 5 first
    # Chain 0 guesses 2, cannot guess 3, and 4 would come behind that.
    assert chains.counted[:, 0].tolist() == [True, False, False]
    assert chains.reached[:, 0].tolist() == [True, True, False]
    # Chain 1 begins with the one that cannot be guessed: reached, a miss, nothing behind it.
    assert chains.counted[:, 1].tolist() == [False, False, False]
    assert chains.reached[:, 1].tolist() == [True, False, False]
    assert chains.counted[:, 2].tolist() == [True, True, False]


def test_no_chain_reads_the_next_conversation():
    lengths, firsts, steps = [4, 3, 6], [2, 2, 4], 4
    chains = plan([0] * 13, lengths, firsts, steps)
    ends = np.repeat(np.cumsum(lengths), chains.counts_by_part)
    labels = chains.starts[None] + 2 + np.arange(steps)[:, None]
    assert (labels[chains.reached] < np.broadcast_to(ends, labels.shape)[chains.reached]).all()


def test_a_conversation_without_counted_tokens_has_no_chains():
    chains = plan([0] * 8, [5, 3], [2, 3], 2)
    assert chains.counts_by_part == [3, 0]
