import pytest

from draft_service.drafters.acceptance_rates import Evidence
from draft_service.drafters.draft_network import Guesses
from draft_service.drafters.merging import Voice, merge
from draft_service.drafters.ngram_text import Continuation


def said(token_id: int, prob: float) -> Continuation:
    return Continuation(token_id, prob, Evidence(1), ())


def merged(guesses: Guesses | None, *continuations: Continuation, network_prob=lambda raw: raw):
    found = merge(guesses, continuations, network_prob)
    return {one.token_id: (pytest.approx(one.raw), one.voice) for one in found}


HEAD = Guesses([4, 5], [0.5, 0.25], "feedback")


def test_each_alone_speaks_for_itself():
    assert merged(HEAD) == {4: (0.5, Voice.NETWORK), 5: (0.25, Voice.NETWORK)}
    assert merged(None, said(6, 0.75)) == {6: (0.75, Voice.TEXT)}
    assert merged(None) == {}


def test_a_token_of_both_is_one_child_and_likelier_than_either():
    found = merged(HEAD, said(4, 0.75))
    assert found == {4: (0.875, Voice.BOTH), 5: (0.25 * 0.625, Voice.NETWORK_BESIDE)}
    assert merged(HEAD, said(4, 0.75), network_prob=lambda raw: 0.0)[4] == (0.75, Voice.BOTH)


def test_where_they_disagree_both_are_children_and_less_likely_than_alone():
    found = merged(HEAD, said(6, 0.5))
    assert found == {
        4: (0.5 * 0.75, Voice.NETWORK_BESIDE),
        5: (0.25 * 0.75, Voice.NETWORK_BESIDE),
        6: (0.5 * 0.625, Voice.TEXT_BESIDE),
    }


def test_a_token_that_a_head_says_twice_is_one_child():
    """Siblings carry distinct tokens, whatever the map of a head's vocabulary says."""
    assert merged(Guesses([4, 4], [0.5, 0.25], None)) == {4: (0.5, Voice.NETWORK)}
