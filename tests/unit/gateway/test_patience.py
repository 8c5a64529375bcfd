"""How long a stream that lost its worker is tried again."""

from gateway.patience import MAX_BARREN, Patience


def test_nobody_waits_before_a_loss() -> None:
    assert Patience(30.0).until == float("-inf")


def test_the_first_loss_is_made_good_at_once_and_later_ones_ever_more_slowly() -> None:
    patience = Patience(30.0)
    pauses = [patience.lost(1.0) for _ in range(8)]
    assert pauses == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]


def test_time_without_progress_is_limited() -> None:
    patience = Patience(30.0)
    patience.lost(5.0)
    patience.lost(20.0)
    assert patience.until == 35.0
    assert not patience.is_over(34.9)
    assert patience.is_over(35.0)


def test_progress_begins_the_count_anew() -> None:
    patience = Patience(30.0)
    patience.lost(5.0)
    patience.progressed()
    assert patience.lost(30.0) == 0.0
    assert patience.until == 60.0


def test_a_stream_that_ends_every_worker_is_given_up() -> None:
    patience = Patience(1e9)
    for _ in range(MAX_BARREN):
        patience.lost(0.0)
        assert not patience.is_over(0.0)
    patience.lost(0.0)
    assert patience.is_over(0.0)


def test_without_a_limit_of_time_the_first_loss_ends_it() -> None:
    patience = Patience(0.0)
    patience.lost(7.0)
    assert patience.is_over(7.0)
