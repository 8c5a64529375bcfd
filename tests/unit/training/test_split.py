"""No prompt is trained on and measured on."""

from outrider.training.split import split_held_out


def test_whole_prompts_are_held_out():
    digests = [f"prompt-{index // 3}" for index in range(90)]
    split = split_held_out(digests, 0.1, seed=0)
    assert sorted(split.training + split.held_out) == list(range(90))
    assert len(split.held_out) == 9
    assert not {digests[i] for i in split.training} & {digests[i] for i in split.held_out}


def test_a_held_out_prompt_stays_one_when_data_is_added():
    few = [f"prompt-{index}" for index in range(100)]
    more = few + [f"new-{index}" for index in range(100)]
    before = {few[i] for i in split_held_out(few, 0.1, seed=0).held_out}
    after = {more[i] for i in split_held_out(more, 0.1, seed=0).held_out}
    # Twice as many are held out; the old ones among the first ranks are among them.
    assert len(after) == 20
    assert before & after


def test_seeds_choose_differently():
    digests = [f"prompt-{index}" for index in range(100)]
    assert split_held_out(digests, 0.1, 0) != split_held_out(digests, 0.1, 1)


def test_something_is_always_left_to_train_on():
    assert split_held_out(["only"], 0.5, 0).training == [0]
    assert len(split_held_out(["one", "two"], 0.01, 0).held_out) == 1
    assert split_held_out(["one", "two"], 0.0, 0).held_out == []
