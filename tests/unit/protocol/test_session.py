"""Both halves of the conversation about one session, as minutes of a meeting."""

import pytest

from outrider.protocol.decoding import DecodeLimits, FinishReason, Sampling, TopLogProbs
from outrider.protocol.errors import InvalidField
from outrider.protocol.messages import ProposeTree, Verdict
from outrider.protocol.session import (
    DraftSession,
    DraftState,
    OutOfTurn,
    RoundLedger,
    Standing,
    tokens_left,
)
from outrider.protocol.token_tree import TokenTree

ID = b"s" * 16


def draft_session(**options) -> DraftSession:
    return DraftSession(ID, 0, 2, [1, 2], Sampling(), DecodeLimits(10), **options)


def verdict(round=0, epoch=0, accepted=(), bonus=9, **options) -> Verdict:
    return Verdict(ID, epoch, round, accepted, bonus, **options)


def test_a_round_extends_the_tokens():
    session = draft_session()
    session.propose(TokenTree((2, 3, 4, 5), (-1, 0, 0, 2)))
    assert session.state is DraftState.WAITING
    committed = session.take(verdict(accepted=(2, 3)))
    assert committed is not None
    assert committed.token_ids == [4, 5, 9]
    assert committed.accepted_count == 2
    assert session.token_ids == [1, 2, 4, 5, 9]
    assert (session.state, session.round) == (DraftState.READY, 1)


@pytest.mark.parametrize("stale", [verdict(round=1), verdict(epoch=1), verdict(round=7, epoch=3)])
def test_a_verdict_of_another_round_or_epoch_is_dropped(stale):
    session = draft_session()
    session.propose(TokenTree.root_only(2))
    assert session.take(stale) is None
    assert session.token_ids == [1, 2]
    assert session.state is DraftState.WAITING


def test_a_verdict_is_taken_once():
    session = draft_session()
    session.propose(TokenTree.root_only(2))
    assert session.take(verdict()) is not None
    assert session.take(verdict()) is None
    assert session.token_ids == [1, 2, 9]


@pytest.mark.parametrize("accepted", [(1, 2), (3,), (0,), (4,), (2, 2), (2, 3, 3), (-1,)], ids=str)
def test_indices_that_are_no_path_are_refused_and_nothing_is_committed(accepted):
    session = draft_session()
    session.propose(TokenTree((2, 3, 4, 5), (-1, 0, 0, 2)))
    with pytest.raises(InvalidField, match="accepted_indices"):
        session.take(verdict(accepted=accepted))
    assert session.token_ids == [1, 2]


def test_a_verdict_without_any_token_is_refused():
    session = draft_session()
    session.propose(TokenTree.root_only(2))
    with pytest.raises(InvalidField, match="at least one token"):
        session.take(verdict(bonus=None))


def test_top_log_probs_must_be_one_a_token_and_none_where_none_are_wanted():
    one = TopLogProbs((3,), (-0.5,))
    wanted = draft_session(top_log_prob_count=1)
    wanted.propose(TokenTree.root_only(2))
    for found in ((), (one, one, one)):
        with pytest.raises(InvalidField, match="top_log_probs"):
            wanted.take(verdict(top_log_probs=found))
    unwanted = draft_session()
    unwanted.propose(TokenTree.root_only(2))
    with pytest.raises(InvalidField, match="top_log_probs"):
        unwanted.take(verdict(top_log_probs=(one,)))


def test_log_probs_must_be_one_a_token():
    session = draft_session(wants_log_probs=True)
    session.propose(TokenTree.root_only(2))
    with pytest.raises(InvalidField, match="log_probs"):
        session.take(verdict(log_probs=(-1.0, -2.0)))


def test_proposing_out_of_turn_is_our_own_bug():
    session = draft_session()
    with pytest.raises(OutOfTurn, match="root"):
        session.propose(TokenTree.root_only(7))
    session.propose(TokenTree.root_only(2))
    with pytest.raises(OutOfTurn, match="WAITING"):
        session.propose(TokenTree.root_only(2))
    session.take(verdict(finish_reason=FinishReason.STOP))
    with pytest.raises(OutOfTurn, match="FINISHED"):
        session.propose(TokenTree.root_only(9))
    with pytest.raises(OutOfTurn, match="finished"):
        session.reopen()


def test_reopening_carries_all_that_is_committed_and_fences_the_past():
    session = draft_session()
    session.propose(TokenTree.root_only(2))
    session.take(verdict())
    session.propose(TokenTree.root_only(9))
    opened = session.reopen()
    assert (opened.epoch, opened.token_ids, opened.prompt_length) == (1, (1, 2, 9), 2)
    assert session.take(verdict(round=1)) is None, "an answer to the old placement"
    assert session.propose(TokenTree.root_only(9)).round == 0


def test_a_placement_says_from_which_row_features_are_wanted():
    session = draft_session()
    assert session.open().features_from is None
    assert session.open(features_from=0).features_from == 0
    assert session.reopen(features_from=1).features_from == 1
    with pytest.raises(InvalidField, match="features_from"):
        session.open(features_from=2)


def test_rows_are_committed_up_to_the_root_and_possible_down_the_longest_path():
    session = draft_session()
    assert (session.committed_rows, session.possible_rows) == (1, 1)
    session.propose(TokenTree((2, 3, 4, 5), (-1, 0, 0, 2)))
    assert (session.committed_rows, session.possible_rows) == (1, 4)
    session.take(verdict(accepted=(2, 3)))
    assert (session.committed_rows, session.possible_rows) == (4, 4)


# ---- the verify half


def proposal(round=0, epoch=0) -> ProposeTree:
    return ProposeTree(ID, epoch, round, TokenTree.root_only(2))


def test_the_ledger_knows_new_repeated_stale_and_skipped():
    ledger = RoundLedger(epoch=1)
    assert ledger.standing(proposal(0, epoch=0)) is Standing.STALE
    assert ledger.standing(proposal(0, epoch=2)) is Standing.SKIPPED
    assert ledger.standing(proposal(1, epoch=1)) is Standing.SKIPPED
    assert ledger.standing(proposal(0, epoch=1)) is Standing.NEW
    ledger.accept(proposal(0, epoch=1))
    assert ledger.standing(proposal(0, epoch=1)) is Standing.STALE, "it is pending already"
    ledger.decide(verdict(0, epoch=1))
    assert ledger.standing(proposal(0, epoch=1)) is Standing.REPEATED
    ledger.accept(proposal(1, epoch=1))
    ledger.decide(verdict(1, epoch=1))
    assert ledger.standing(proposal(0, epoch=1)) is Standing.STALE
    with pytest.raises(OutOfTurn):
        ledger.accept(proposal(5, epoch=1))
    with pytest.raises(OutOfTurn):
        ledger.decide(verdict(2, epoch=1))


@pytest.mark.parametrize(
    ("count", "limit", "context", "left"),
    [
        (5, 10, 100, 10),
        (9, 10, 100, 6),
        (15, 10, 100, 0),
        (5, 10, 8, 3),
        (8, 10, 8, 0),
        (9, 1, 8, 0),
    ],
)
def test_tokens_left(count, limit, context, left):
    assert tokens_left(count, 5, DecodeLimits(limit), context) == left
