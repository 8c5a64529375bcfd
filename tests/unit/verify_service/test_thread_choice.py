from verify_service.thread_choice import EXPLORE_EVERY, MAX_ROWS, ThreadChoice


def run(choice: ThreadChoice, seconds: dict[int, float], passes: int, rows: int = 1) -> list[int]:
    chosen = []
    for _ in range(passes):
        threads = choice.threads_for(rows)
        choice.note(rows, threads, seconds[threads])
        chosen.append(threads)
    return chosen


def test_each_is_tried_once_then_the_faster_one_serves():
    chosen = run(ThreadChoice((1, 4)), {1: 0.1, 4: 0.2}, EXPLORE_EVERY - 1)
    assert chosen == [4, 1] + [1] * (EXPLORE_EVERY - 3)


def test_it_changes_its_mind_with_the_machine_and_back():
    choice = ThreadChoice((1, 2))
    for quiet in (True, False, True):
        seconds = {1: 0.10, 2: 0.06} if quiet else {1: 0.11, 2: 0.25}
        chosen = run(choice, seconds, 8 * EXPLORE_EVERY)
        better = 2 if quiet else 1
        assert chosen[-2 * EXPLORE_EVERY :].count(better) == 2 * EXPLORE_EVERY - 2


def test_one_slow_pass_is_forgiven():
    choice = ThreadChoice((1, 2))
    run(choice, {1: 0.10, 2: 0.06}, 8)
    choice.note(1, 2, 0.15)
    assert choice.threads_for(1) == 2


def test_sizes_learn_apart():
    choice = ThreadChoice((1, 2))
    run(choice, {1: 0.10, 2: 0.20}, 4, rows=1)
    run(choice, {1: 0.40, 2: 0.20}, 4, rows=7)
    assert choice.threads_for(1) == 1
    assert choice.threads_for(8) == 2


def test_large_passes_and_a_single_option_are_no_choice():
    choice = ThreadChoice((1, 2))
    assert run(choice, {2: 1.0}, 3 * EXPLORE_EVERY, rows=MAX_ROWS + 1) == [2] * 3 * EXPLORE_EVERY
    assert run(ThreadChoice((1, 1)), {1: 1.0}, 20) == [1] * 20
