"""Stop strings in text that arrives in parts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stop_strings import StopStrings


def scan_all(stop: list[str], parts: list[str]) -> tuple[str, bool]:
    strings = StopStrings(stop)
    shown = ""
    for part in parts:
        scanned = strings.scan(part)
        shown += scanned.text
        if scanned.is_stopped:
            return shown, True
    return shown + strings.flush(), False


def expected(stop: list[str], text: str) -> tuple[str, bool]:
    """By brute force: the string that is complete first, of two the longer."""
    for end in range(1, len(text) + 1):
        lengths = [len(string) for string in stop if text[:end].endswith(string)]
        if lengths:
            return text[: end - max(lengths)], True
    return text, False


def cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


@given(
    stop=st.lists(st.text("ab", min_size=2, max_size=5), max_size=4),
    text=st.text("ab", min_size=6, max_size=24),
    places=st.lists(st.integers(0, 100), max_size=12),
)
def test_any_cut_gives_what_brute_force_gives(
    stop: list[str], text: str, places: list[int]
) -> None:
    assert scan_all(stop, cut(text, places)) == expected(stop, text)


@given(
    stop=st.lists(st.text("ab", min_size=2, max_size=5), min_size=1, max_size=3),
    text=st.text("ab", min_size=6, max_size=24),
    places=st.lists(st.integers(0, 100), max_size=12),
    deaf=st.integers(0, 6),
)
def test_a_stop_string_that_does_not_count_yet_is_passed_over(
    stop: list[str], text: str, places: list[int], deaf: int
) -> None:
    parts = cut(text, places)
    strings, shown, is_stopped = StopStrings(stop), "", False
    for number, part in enumerate(parts):
        scanned = strings.scan(part, may_stop=number >= deaf)
        shown += scanned.text
        if is_stopped := scanned.is_stopped:
            break
    first = len("".join(parts[:deaf])) + 1  # the first end that counts
    ends = [e for e in range(first, len(text) + 1) if any(text[:e].endswith(s) for s in stop)]
    if ends:
        longest = max(len(s) for s in stop if text[: ends[0]].endswith(s))
        assert (shown, is_stopped) == (text[: ends[0] - longest], True)
    else:
        assert (shown + strings.flush(), is_stopped) == (text, False)


@pytest.mark.parametrize(
    ("stop", "parts", "shown"),
    [
        (["END"], ["the E", "N", "D of it"], "the "),
        (["abcd", "bc"], ["abcd"], "a"),
        (["bc", "abc"], ["xabc"], "x"),
        (["abc", "bc"], ["xabc"], "x"),
        (["aab"], ["aaab"], "a"),
        (["\n\n"], ["one\n", "\ntwo"], "one"),
        (["é"], ["caf", "é!"], "caf"),
    ],
)
def test_text_ends_before_the_stop_string(stop: list[str], parts: list[str], shown: str) -> None:
    assert scan_all(stop, parts) == (shown, True)


def test_a_possible_beginning_is_held_back_and_flushed() -> None:
    strings = StopStrings(["</s>"])
    assert strings.scan("x</").text == "x"
    assert strings.scan("s").text == ""
    assert strings.flush() == "</s"
    assert strings.flush() == ""


def test_what_turned_out_to_be_no_stop_string_is_shown_at_once() -> None:
    strings = StopStrings(["</s>"])
    strings.scan("x</")
    assert strings.scan("p>") == ("</p>", False)
