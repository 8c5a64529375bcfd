from draft_service.drafters.acceptance_rates import AcceptanceRates
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.ngram import NgramDrafter
from draft_service.drafters.ngram_text import NgramText
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import CostTable


def test_places_that_disagree_are_several_guesses_whose_chances_add_up_to_less_than_one():
    text = NgramText([1, 2, 7, 7, 1, 2, 9, 9, 1, 2], AcceptanceRates())
    found = text.continuations(text.places(), 4)
    assert {one.token_id for one in found} == {7, 9}
    assert 0.0 < sum(one.prob for one in found) < 1.0
    assert found[0].prob > found[1].prob
    assert len(text.continuations(text.places(), 1)) == 1


def test_what_follows_goes_on_from_the_same_places():
    text = NgramText([1, 2, 3, 4, 5, 1, 2], AcceptanceRates())
    places, path = text.places(), []
    while found := text.continuations(places, 1):
        path.append(found[0].token_id)
        places = found[0].places
    assert path == [3, 4, 5, 1, 2]


def test_it_learns_and_grows():
    shared = AcceptanceRates()
    text = NgramText([1, 2, 3, 1, 2], shared)
    (before,) = text.continuations(text.places(), 1)
    for _ in range(30):
        text.learn([before], 9)
    (after,) = text.continuations(text.places(), 1)
    assert after.prob < before.prob / 2
    text.extend([8, 1, 2])
    assert {one.token_id for one in text.continuations(text.places(), 4)} == {3, 8}
    other = NgramText([1, 2, 3, 1, 2], shared)
    assert other.continuations(other.places(), 1)[0].prob < before.prob, "sessions share"


def test_its_best_guess_is_that_of_the_method_ngram():
    tokens = [1, 2, 3, 4, 2, 3, 5, 6, 2, 3, 4, 1, 2, 3]
    drafter = NgramDrafter()
    drafter.open(b"a" * 16, tokens, Sampling())
    budget = TreeBudget(2, 4, 4, CostTable((1, 64), (1000, 1000)))
    (tree,) = drafter.draft([b"a" * 16], [budget])
    text = NgramText(tokens, AcceptanceRates())
    assert text.continuations(text.places(), 4)[0].token_id == tree.token_ids[1]
