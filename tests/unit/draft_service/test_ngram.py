import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draft_service.drafters.acceptance_rates import AcceptanceRates, Evidence
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.ngram import NgramDrafter
from draft_service.drafters.none import NoDrafter
from draft_service.drafters.suffix_index import MAX_MATCH, Occurrence, SuffixIndex
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import CostTable
from outrider.protocol.token_tree import TokenTree

FREE = CostTable((1, 64), (1000, 1000))
DEAR = CostTable((1, 2), (1000, 2000))
A = b"a" * 16


def budget(**options) -> TreeBudget:
    values = {"max_nodes": 16, "max_depth": 4, "parallel_degree": 4, "cost_table": FREE, **options}
    return TreeBudget(**values)


def draft(token_ids: list[int], **options) -> TokenTree:
    drafter = NgramDrafter()
    drafter.open(A, token_ids, Sampling())
    return drafter.draft([A], [budget(**options)])[0]


def test_the_longest_match_comes_first_and_the_latest_among_equals():
    #        0  1  2  3  4  5  6  7  8  9
    index = SuffixIndex([5, 1, 2, 7, 1, 2, 9, 2, 8, 1, 2])
    assert index.occurrences(8) == [Occurrence(6, 2), Occurrence(3, 2), Occurrence(8, 1)]
    assert index.occurrences(1) == [Occurrence(6, 2)]


def test_matches_are_measured_beyond_the_indexed_grams():
    text = [*range(10, 40), 1, *range(10, 40)]
    assert SuffixIndex(text).occurrences(4)[0] == Occurrence(30, MAX_MATCH)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_occurrences_are_what_a_slow_search_finds(text):
    end = len(text)
    slow = []
    for place in range(1, end):
        length = 0
        while length < min(MAX_MATCH, place) and text[place - 1 - length] == text[end - 1 - length]:
            length += 1
        if length:
            slow.append(Occurrence(place, length))
    slow.sort(key=lambda one: (-one.match_length, -one.next_index))
    assert SuffixIndex(text).occurrences(1000) == slow


def test_extending_equals_building_anew():
    text = [1, 2, 1, 2, 3, 1, 2]
    grown = SuffixIndex(text[:3])
    grown.extend(text[3:])
    assert grown.occurrences(9) == SuffixIndex(text).occurrences(9)


def test_places_that_disagree_become_branches():
    tree = draft([1, 2, 7, 7, 1, 2, 9, 9, 1, 2])
    assert tree.token_ids[0] == 2
    assert set(tree.children()[0]) == {7, 9}


def test_a_text_that_repeats_is_continued():
    tree = draft([1, 2, 3, 4, 5, 6, 1, 2, 3], parallel_degree=1)
    assert [tree.token_ids[node] for node in tree.path(len(tree) - 1)] == [3, 4, 5, 6, 1]


def test_nothing_seen_before_gives_the_root_alone():
    assert draft([1, 2, 3]) == TokenTree.root_only(3)
    assert draft([7]) == TokenTree.root_only(7)


def test_limits_are_kept():
    text = [1, 2, 3, 4] * 10
    assert len(draft(text, max_nodes=3)) == 3
    assert max(draft(text, max_depth=2).depths()) == 2
    assert draft(text, max_depth=0) == TokenTree.root_only(4)
    assert draft(text, max_nodes=1) == TokenTree.root_only(4)


def test_dear_rows_give_no_tree():
    assert draft([1, 2, 3, 4] * 10, cost_table=DEAR) == TokenTree.root_only(4)


def test_guesses_that_fail_are_given_up_and_come_back_when_they_would_pay():
    """Guesses that are not sent are still judged, so the way back is open."""
    table = CostTable((1, 2, 8), (1000, 1300, 3000))
    drafter, rng = NgramDrafter(), random.Random(1)
    drafter.open(A, [1, 2, 3] * 8, Sampling())
    sizes = []
    for is_regular in [False] * 100 + [True] * 120:
        (tree,) = drafter.draft([A], [budget(cost_table=table)])
        sizes.append(len(tree))
        following = {3: 1, 1: 2, 2: 3}.get(tree.token_ids[0], 1)
        drafter.commit(A, (), [following if is_regular else rng.randrange(1, 9)])
    assert sizes[0] > 1
    assert sizes[50:100].count(1) > 25
    assert min(sizes[-20:]) > 1


def test_sessions_are_apart():
    drafter = NgramDrafter()
    drafter.open(A, [1, 2, 1], Sampling())
    drafter.open(b"b", [1, 5, 1], Sampling())
    first, second = drafter.draft([A, b"b"], [budget()] * 2)
    assert set(first.children()[0]) == {2}
    assert set(second.children()[0]) == {5}
    drafter.close(A)
    drafter.close(A)
    with pytest.raises(KeyError):
        drafter.draft([A], [budget()])


def test_no_drafter_proposes_the_last_token_alone():
    drafter = NoDrafter()
    drafter.open(A, [1, 2], Sampling())
    assert drafter.draft([A], [budget()]) == [TokenTree.root_only(2)]
    drafter.commit(A, (), [5, 6])
    assert drafter.draft([A], [budget()]) == [TokenTree.root_only(6)]


def test_rates_start_by_evidence_and_learn():
    shared = AcceptanceRates()
    one, other = AcceptanceRates(shared), AcceptanceRates(shared)
    weak, fair, strong = Evidence(1), Evidence(3), Evidence(16)
    assert 0 < one.rate(weak) < one.rate(fair) < one.rate(strong) < 1
    before = other.rate(fair)
    for _ in range(40):
        one.note(fair, is_right=True)
    assert one.rate(fair) > 0.85
    assert before < other.rate(fair) < one.rate(fair), "others learn, more slowly"


def test_places_that_agree_make_a_guess_likelier_once_that_was_learnt():
    """Both guesses match one token; the one that three places agree on has come true more often."""
    drafter = NgramDrafter()
    for turn in range(30):
        session = turn.to_bytes(16, "big")
        drafter.open(session, [1, 2, 9, 1, 2, 8, 1, 2, 7, 1, 3, 6, 1], Sampling())
        drafter.draft([session], [budget()])
        drafter.commit(session, (), [2])
    drafter.open(A, [5, 7, 9, 5, 7, 1, 5, 7, 2, 5, 6, 8, 5], Sampling())
    (tree,) = drafter.draft([A], [budget(max_nodes=2, parallel_degree=1)])
    assert tree.token_ids == (5, 7)
