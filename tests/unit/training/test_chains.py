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


def test_one_chain_in_so_many_goes_on_and_each_has_its_turn():
    lengths, firsts, steps = [7, 4, 9], [2, 3, 2], 3
    whole = plan([0] * 20, lengths, firsts, steps)
    turns = [plan_chains(np.zeros(20, np.int64), lengths, firsts, steps, 3, n) for n in range(4)]
    assert all((one.counted[0] == whole.counted[0]).all() for one in turns)
    for matrix in ("reached", "counted"):
        parts = [getattr(one, matrix)[1:].astype(int) for one in turns[:3]]
        assert (sum(parts) == getattr(whole, matrix)[1:]).all()
    assert sorted(np.concatenate([one.followed for one in turns[:3]])) == whole.followed.tolist()
    assert sum(one.followable for one in turns[:3]) == len(whole.starts)
    assert turns[3].followed.tolist() == turns[0].followed.tolist()


def test_which_chains_go_on_does_not_depend_on_what_else_is_in_the_pass():
    alone = plan_chains(np.zeros(9, np.int64), [9], [2], 2, 2, 1)
    behind = plan_chains(np.zeros(14, np.int64), [5, 9], [2, 2], 2, 2, 1)
    assert behind.counted[:, behind.counts_by_part[0] :].tolist() == alone.counted.tolist()
