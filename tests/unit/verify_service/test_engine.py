"""Single rules of the verify engine; whole conversations: tests/unit/test_*conversation*.py."""

import numpy as np
import pytest

from outrider.protocol import messages as m
from outrider.protocol.decoding import DecodeLimits, Sampling
from outrider.protocol.token_tree import TokenTree
from tests.fakes.conversation import identity
from tests.fakes.table_target import LAYER_COUNT, TableTarget, markov_logits, table_features
from verify_service.engine import VerifyEngine
from verify_service.kv_blocks import KvBlocks
from verify_service.step import Segment

PEER, OTHER = b"peer", b"other"
ID = b"s" * 16


@pytest.fixture
def engine() -> VerifyEngine:
    engine = VerifyEngine(identity(), KvBlocks(64, 4), token_budget=64)
    for peer in (PEER, OTHER):
        assert engine.handle(peer, m.Hello(b"boot"), 0.0) == [(peer, engine.identity)]
    return engine


def open_session(epoch=0, token_ids=(1, 2, 3), **options) -> m.OpenSession:
    limits = DecodeLimits(options.pop("max_new_tokens", 20), ignore_eos=True)
    return m.OpenSession(ID, epoch, token_ids, len(token_ids), Sampling(), limits, **options)


def propose(round=0, epoch=0, tree=None) -> m.ProposeTree:
    return m.ProposeTree(ID, epoch, round, tree or TokenTree.root_only(3))


def run(engine: VerifyEngine, target: TableTarget) -> list[m.Message]:
    sent: list[m.Message] = []
    while (step := engine.plan()) is not None:
        finished = engine.finish(step, target.run(step.segments), 1.0, lambda: 1.5)
        target.move_rows(finished.move_sources, finished.move_destinations)
        sent += [message for _, message in finished.outgoing]
    return sent


def only_fault(answers) -> m.Fault:
    ((_, answer),) = answers
    assert isinstance(answer, m.Fault)
    return answer


def test_strangers_say_hello_first(engine):
    fault = only_fault(engine.handle(b"stranger", open_session(), 0.0))
    assert fault.code is m.FaultCode.HELLO_REQUIRED


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        (m.Hello(b"b", protocol_version=99), m.FaultCode.VERSION),
        (m.Hello(b"b", vocab_size=9), m.FaultCode.FINGERPRINT_MISMATCH),
        (m.Hello(b"b", tokenizer_fingerprint="other"), m.FaultCode.FINGERPRINT_MISMATCH),
        (m.Hello(b"b", feature_layers=(2, LAYER_COUNT + 1)), m.FaultCode.FINGERPRINT_MISMATCH),
    ],
)
def test_another_model_or_protocol_is_refused_in_words(engine, hello, code):
    fault = only_fault(engine.handle(b"new", hello, 0.0))
    assert fault.code is code
    assert fault.message


def test_a_repeated_tree_gets_the_same_verdict_and_moves_nothing(engine):
    target = TableTarget(256, markov_logits(8, 1))
    engine.handle(PEER, open_session(), 0.0)
    engine.handle(PEER, propose(), 0.0)
    (verdict,) = run(engine, target)
    rows = list(target.rows)
    assert engine.handle(PEER, propose(), 0.0) == [(PEER, verdict)]
    assert run(engine, target) == []
    assert target.rows == rows


def test_an_older_epoch_is_dropped_and_counted(engine):
    engine.handle(PEER, open_session(epoch=2), 0.0)
    assert engine.handle(PEER, open_session(epoch=1), 0.0) == []
    assert engine.handle(PEER, propose(epoch=1), 0.0) == []
    engine.handle(PEER, m.CloseSession(ID, 1), 0.0)
    assert engine.counters.stale_messages == 3
    assert len(engine.sessions) == 1


def test_a_newer_epoch_takes_over_from_another_peer(engine):
    target = TableTarget(256, markov_logits(8, 1))
    engine.handle(PEER, open_session(), 0.0)
    engine.handle(PEER, propose(), 0.0)
    engine.handle(OTHER, open_session(epoch=1), 0.0)
    assert run(engine, target) == [], "the old placement's tree is gone"
    fault = only_fault(engine.handle(PEER, propose(), 0.0))
    assert fault.code is m.FaultCode.SESSION_GONE
    engine.handle(OTHER, propose(epoch=1), 0.0)
    assert len(run(engine, target)) == 1


def test_someone_elses_session_looks_unknown(engine):
    engine.handle(PEER, open_session(), 0.0)
    foreign = only_fault(engine.handle(OTHER, propose(), 0.0))
    unknown = only_fault(
        engine.handle(OTHER, m.ProposeTree(b"u" * 16, 0, 0, TokenTree.root_only(3)), 0.0)
    )
    assert (foreign.code, foreign.message) == (unknown.code, unknown.message)
    engine.handle(OTHER, m.CloseSession(ID, 5), 0.0)
    assert len(engine.sessions) == 1


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (TokenTree.root_only(5), "root"),
        (TokenTree((3, 8), (-1, 0)), "tree.token_ids"),
        (TokenTree((3, *range(100, 140)), (-1, *[0] * 40)), "nodes"),
        (TokenTree.chain([3, *range(17)]), "depth"),
    ],
)
def test_a_bad_tree_is_refused_and_the_session_lives(engine, tree, words):
    engine.handle(PEER, open_session(), 0.0)
    fault = only_fault(engine.handle(PEER, propose(tree=tree), 0.0))
    assert fault.code is m.FaultCode.INVALID_TREE
    assert words in fault.message
    assert engine.handle(PEER, propose(), 0.0) == []


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (open_session(token_ids=(1, 8)), "token_ids[1]"),
        (open_session(token_ids=tuple([1] * 4096)), "token_ids"),
    ],
    ids=["vocabulary", "context"],
)
def test_a_bad_session_names_its_field(engine, message, field):
    fault = only_fault(engine.handle(PEER, message, 0.0))
    assert fault.code is m.FaultCode.INVALID_ARGUMENT
    assert fault.message.startswith(field)
    assert not len(engine.sessions)


def test_three_bad_frames_cost_a_peer_its_sessions(engine):
    engine.handle(PEER, open_session(), 0.0)
    assert only_fault(engine.handle_bad_frame(PEER, "garbage")).code is m.FaultCode.BAD_FRAME
    engine.handle_bad_frame(PEER, "garbage")
    assert len(engine.sessions) == 1
    assert engine.handle_bad_frame(PEER, "garbage") == []
    assert not len(engine.sessions)
    assert engine.counters.bad_frames == 3


def test_draining_takes_no_new_sessions_and_lets_the_old_ones_run(engine):
    target = TableTarget(256, markov_logits(8, 1))
    engine.handle(PEER, open_session(), 0.0)
    assert {type(message) for _, message in engine.drain("upgrade")} == {m.GoAway}
    other = m.OpenSession(b"t" * 16, 0, (1,), 1, Sampling(), DecodeLimits(3))
    assert only_fault(engine.handle(PEER, other, 0.0)).code is m.FaultCode.SESSION_GONE
    greeted = engine.handle(b"another", m.Hello(b"boot"), 0.0)
    assert [type(message) for _, message in greeted] == [m.HelloAck, m.GoAway]
    engine.handle(PEER, propose(), 0.0)
    assert len(run(engine, target)) == 1


def test_a_running_session_may_be_placed_anew_while_draining(engine):
    engine.handle(PEER, open_session(), 0.0)
    engine.drain("upgrade")
    assert engine.handle(PEER, open_session(epoch=1), 0.0) == []
    (session,) = engine.sessions
    assert session.ledger.epoch == 1


def test_who_greets_again_has_nothing_placed_here(engine):
    """A draft worker that took this one for lost has placed its sessions elsewhere."""
    engine.handle(PEER, open_session(), 0.0)
    other = b"another"
    engine.handle(other, m.Hello(b"boot"), 0.0)
    engine.handle(other, m.OpenSession(b"t" * 16, 0, (1,), 1, Sampling(), DecodeLimits(3)), 0.0)
    engine.handle(PEER, m.Hello(b"boot"), 0.0)
    assert [session.peer for session in engine.sessions] == [other]
    engine.audit()


def test_the_prompt_is_prefilled_in_chunks_with_the_tree_behind_the_last():
    engine = VerifyEngine(identity(), KvBlocks(64, 4), token_budget=4)
    engine.handle(PEER, m.Hello(b"boot"), 0.0)
    engine.handle(PEER, open_session(token_ids=(1, 2, 3, 4, 5, 6, 1, 2, 3)), 0.0)
    engine.handle(PEER, propose(), 0.0)
    seen: list[Segment] = []
    target = TableTarget(256, markov_logits(8, 1))
    while (step := engine.plan()) is not None:
        seen += step.segments
        engine.finish(step, target.run(step.segments), 0.0, lambda: 0.0)
    assert [len(segment.token_ids) for segment in seen] == [4, 4, 1]
    assert [segment.cached_rows for segment in seen] == [0, 4, 8]
    assert [segment.tree_start for segment in seen] == [None, None, 0]


def test_verdicts_say_how_long_they_waited(engine):
    target = TableTarget(256, markov_logits(8, 1))
    engine.handle(PEER, open_session(), 0.0)
    engine.handle(PEER, propose(), 0.25)
    (verdict,) = run(engine, target)
    assert isinstance(verdict, m.Verdict)
    assert (verdict.queue_us, verdict.verify_us) == (750_000, 500_000)


def test_a_failed_step_ends_its_sessions_with_words(engine):
    engine.handle(PEER, open_session(), 0.0)
    engine.handle(PEER, propose(), 0.0)
    step = engine.plan()
    assert step is not None
    fault = only_fault(engine.abandon(step, "out of memory"))
    assert (fault.code, fault.message) == (m.FaultCode.INTERNAL, "out of memory")
    assert engine.blocks.in_use == 0


# ---- features

CHAIN = TokenTree.chain([3, 0, 1, 2, 3])


def greet(engine: VerifyEngine, peer: bytes, *layers: int) -> None:
    hello = m.Hello(b"boot", feature_layers=layers)
    assert engine.handle(peer, hello, 0.0) == [(peer, engine.identity)]


def values(rows: m.FeatureRows) -> list[list[float]]:
    return np.frombuffer(rows.data, "<f4").reshape(rows.row_count, rows.row_size).tolist()


def test_features_come_in_front_of_the_verdict_up_to_the_last_accepted_row(engine):
    greet(engine, PEER, 1, -1)
    engine.handle(PEER, open_session(features_from=1), 0.0)
    engine.handle(PEER, propose(tree=CHAIN), 0.0)
    rows, verdict = run(engine, TableTarget(256, lambda prefix: [*[0] * 7, 1]))
    assert isinstance(rows, m.FeatureRows)
    assert verdict == m.Verdict(ID, 0, 0, (), 7, None, (), 1_000_000, 500_000, 7, 1, 5)
    assert (rows.session_id, rows.epoch, rows.first_row, rows.row_count) == (ID, 0, 1, 2)
    assert values(rows) == [table_features((1, 2), (1, -1)), table_features((1, 2, 3), (1, -1))]


def test_accepted_rows_travel_and_rejected_ones_do_not(engine):
    greet(engine, PEER, 2)
    engine.handle(PEER, open_session(features_from=2), 0.0)
    tree = TokenTree((3, 5, 0, 6, 1, 7), (-1, 0, 0, 1, 2, 4))
    engine.handle(PEER, propose(tree=tree), 0.0)
    # The token that follows is always the next number, beginning again with 0 after 3.
    rows, verdict = run(engine, TableTarget(256, lambda prefix: np.eye(8)[(prefix[-1] + 1) % 4]))
    assert isinstance(rows, m.FeatureRows)
    assert isinstance(verdict, m.Verdict)
    assert verdict.accepted_indices == (2, 4)
    expected = [(1, 2, 3), (1, 2, 3, 0), (1, 2, 3, 0, 1)]
    assert values(rows) == [table_features(prefix, (2,)) for prefix in expected]


def test_a_repeated_tree_gets_its_features_again(engine):
    greet(engine, PEER, 1)
    target = TableTarget(256, markov_logits(8, 1))
    engine.handle(PEER, open_session(features_from=0), 0.0)
    engine.handle(PEER, propose(), 0.0)
    rows, verdict = run(engine, target)
    assert isinstance(rows, m.FeatureRows)
    assert engine.handle(PEER, propose(), 0.0) == [(PEER, rows), (PEER, verdict)]
    assert run(engine, target) == []
    assert isinstance(verdict, m.Verdict)
    second = propose(round=1, tree=TokenTree.root_only(verdict.bonus_token or 0))
    engine.handle(PEER, second, 0.0)
    answer = run(engine, target)
    assert [type(one) for one in answer] == [m.FeatureRows, m.Verdict]
    assert [one for _, one in engine.handle(PEER, second, 0.0)] == answer, "its own and no others"


def test_the_last_round_brings_no_features(engine):
    greet(engine, PEER, 1)
    engine.handle(PEER, open_session(features_from=0, max_new_tokens=1), 0.0)
    engine.handle(PEER, propose(), 0.0)
    (verdict,) = run(engine, TableTarget(256, markov_logits(8, 1)))
    assert isinstance(verdict, m.Verdict)
    assert verdict.finish_reason is not None


def test_prefill_brings_its_features_as_it_runs():
    engine = VerifyEngine(identity(), KvBlocks(64, 4), token_budget=4)
    greet(engine, PEER, 1)
    engine.handle(PEER, open_session(token_ids=(1, 2, 3, 4, 5, 6, 1, 2, 3), features_from=2), 0.0)
    engine.handle(PEER, propose(), 0.0)
    sent = run(engine, TableTarget(256, markov_logits(8, 1)))
    rows = [one for one in sent if isinstance(one, m.FeatureRows)]
    assert [(one.first_row, one.row_count) for one in rows] == [(2, 2), (4, 4), (8, 1)]
    assert [type(one) for one in sent] == [*[m.FeatureRows] * 3, m.Verdict]


def test_each_peer_gets_the_layers_it_named(engine):
    greet(engine, PEER, 1, 3)
    greet(engine, OTHER, 3, 5, -1)
    target = TableTarget(256, markov_logits(8, 1))
    layers = {ID: (1, 3), b"t" * 16: (3, 5, -1)}
    for peer, session_id in zip((PEER, OTHER), layers, strict=True):
        limits = DecodeLimits(9, ignore_eos=True)
        opened = m.OpenSession(session_id, 0, (1, 3), 2, Sampling(), limits, features_from=0)
        engine.handle(peer, opened, 0.0)
        engine.handle(peer, m.ProposeTree(session_id, 0, 0, TokenTree.root_only(3)), 0.0)
    step = engine.plan()
    assert step is not None
    finished = engine.finish(step, target.run(step.segments), 0.0, lambda: 0.0)
    rows = [(peer, one) for peer, one in finished.outgoing if isinstance(one, m.FeatureRows)]
    assert [peer for peer, _ in rows] == [PEER, OTHER]
    for _, one in rows:
        wanted = layers[one.session_id]
        assert values(one) == [table_features((1,), wanted), table_features((1, 3), wanted)]


def test_features_that_the_hello_did_not_name_are_refused(engine):
    fault = only_fault(engine.handle(PEER, open_session(features_from=0), 0.0))
    assert fault.code is m.FaultCode.INVALID_ARGUMENT
    assert fault.message.startswith("features_from: ")


@pytest.mark.parametrize("layers", [(), (1,)])
def test_features_are_kept_for_all_sessions_of_a_peer_that_may_want_some(engine, layers):
    greet(engine, PEER, *layers)
    engine.handle(PEER, open_session(), 0.0)
    engine.handle(PEER, propose(), 0.0)
    step = engine.plan()
    assert step is not None
    assert step.segments[0].feature_layers == layers


def test_nan_logits_send_no_features(engine):
    greet(engine, PEER, 1)
    engine.handle(PEER, open_session(features_from=0), 0.0)
    engine.handle(PEER, propose(), 0.0)
    (fault,) = run(engine, TableTarget(256, lambda prefix: [float("nan")] * 8))
    assert isinstance(fault, m.Fault)
    assert fault.code is m.FaultCode.NON_FINITE_LOGITS
