"""Single rules of the verify engine; whole conversations are in tests/unit/test_conversation.py."""

import pytest

from outrider.protocol import messages as m
from outrider.protocol.decoding import DecodeLimits, Sampling
from outrider.protocol.token_tree import TokenTree
from tests.fakes.conversation import identity
from tests.fakes.table_target import TableTarget, markov_logits
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
    assert only_fault(engine.handle(PEER, other, 0.0)).code is m.FaultCode.RESOURCE_EXHAUSTED
    engine.handle(PEER, propose(), 0.0)
    assert len(run(engine, target)) == 1


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
