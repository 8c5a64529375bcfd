"""The verify loop over an in-memory channel: whoever breaks alone ends alone."""

from dataclasses import replace

import pytest

from outrider.protocol import messages as m
from outrider.protocol.channel import MemoryHub
from outrider.protocol.codec import decode, encode
from outrider.protocol.decoding import DecodeLimits, Sampling
from outrider.protocol.token_tree import TokenTree
from outrider.telemetry.metrics import VerifyMetrics
from tests.fakes.conversation import identity
from tests.fakes.table_target import TableTarget, markov_logits
from verify_service.engine import VerifyEngine
from verify_service.kv_blocks import KvBlocks
from verify_service.step import TargetLost
from verify_service.worker import VerifyWorker

POISON = 6
DEADLY = 7


class BrittleTarget(TableTarget):
    """Fails whole steps that hold a poisoned token, as a kernel would."""

    def __init__(self, slot_count, logits_of, stage: "Stage") -> None:
        super().__init__(slot_count, logits_of)
        self._stage = stage

    def run(self, segments):
        self._stage.now += self._stage.step_s
        self._stage.lived.append(self._stage.worker.is_live)
        if any(POISON in segment.token_ids for segment in segments):
            raise RuntimeError("kernel error")
        if any(DEADLY in segment.token_ids for segment in segments):
            raise TargetLost("another rank of the target is gone")
        return super().run(segments)


class LateHub(MemoryHub):
    """Delivers one message on the second look only."""

    def __init__(self, stage: "Stage") -> None:
        super().__init__()
        self._stage = stage

    def receive(self, timeout_ms: int = 0):
        arrived = super().receive(timeout_ms)
        late, self._stage.arrives_later = self._stage.arrives_later, None
        if late is not None:
            self.push(b"draft", encode(late))
        return arrived


class Stage:
    def __init__(self, row_us: int = 1) -> None:
        self.arrives_later: m.Message | None = None
        self.step_s = 0.0
        self.lived: list[bool] = []  # whether the worker counted as live when a step was done
        self.hub = LateHub(self)
        self.link = self.hub.connect(b"draft")
        self.metrics = VerifyMetrics()
        self.engine = VerifyEngine(
            replace(identity(), cost_table=m.CostTable((1, 2), (row_us, 2 * row_us))),
            KvBlocks(64, 4),
            token_budget=64,
        )
        self.now = 0.0
        target = BrittleTarget(256, markov_logits(6, 1), self)
        self.worker = VerifyWorker(
            self.engine, target, self.hub, self.metrics, clock=lambda: self.now
        )

    def answers(self) -> list[m.Message]:
        self.worker.turn()
        received = [one.message for one in self.link.receive()]
        return [one for one in received if one is not None and not isinstance(one, m.Heartbeat)]

    def metric(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name)


def start(name: bytes, root: int) -> tuple[m.OpenSession, m.ProposeTree]:
    session_id = name * 16
    limits = DecodeLimits(5, ignore_eos=True)
    return (
        m.OpenSession(session_id, 0, (1, root), 2, Sampling(), limits),
        m.ProposeTree(session_id, 0, 0, TokenTree.root_only(root)),
    )


@pytest.mark.timeout(20)
def test_a_lost_target_ends_the_worker_and_its_channel():
    """No step of any session can be run again, so nothing is tried apart."""
    stage = Stage()
    stage.link.send(m.Hello(b"boot"), *start(b"a", 2), *start(b"b", DEADLY))
    with pytest.raises(TargetLost):
        stage.worker.run()
    assert not stage.hub.send(b"draft", m.GoAway("closed"))


def test_a_failed_step_is_run_apart_and_only_the_culprit_ends():
    stage = Stage()
    stage.link.send(m.Hello(b"boot"), *start(b"a", 2), *start(b"b", POISON), *start(b"c", 3))
    ack, *rest = stage.answers()
    assert isinstance(ack, m.HelloAck)
    verdicts = {one.session_id[:1] for one in rest if isinstance(one, m.Verdict)}
    faults = [one for one in rest if isinstance(one, m.Fault)]
    assert verdicts == {b"a", b"c"}
    assert [(one.session_id[:1], one.code) for one in faults] == [(b"b", m.FaultCode.INTERNAL)]
    assert "RuntimeError" in faults[0].message
    assert "kernel error" not in faults[0].message, "details stay in the log"
    assert len(stage.engine.sessions) == 2


def test_features_and_their_verdict_are_one_arrival():
    stage = Stage()
    opened, tree = start(b"a", 2)
    stage.link.send(m.Hello(b"boot", feature_layers=(1, 3)), replace(opened, features_from=0), tree)
    stage.worker.turn()
    arrivals = [decode(frames) for frames in stage.link.arrived]
    with_features = [
        [type(one) for one in arrival]
        for arrival in arrivals
        if any(isinstance(one, m.FeatureRows) for one in arrival)
    ]
    assert with_features == [[m.FeatureRows, m.Verdict]]


def test_metrics_tell_what_happened():
    stage = Stage()
    stage.link.send(m.Hello(b"boot"), *start(b"a", 2))
    stage.answers()
    assert stage.metric("outrider_sessions") == 1
    assert stage.metric("outrider_kv_blocks_in_use") == stage.engine.blocks.in_use == 1
    assert stage.metric("outrider_step_rows_sum") == 2
    stage.hub.push(b"draft", [b"garbage"])
    stage.link.send(m.CloseSession(b"a" * 16, 0))
    stage.answers()
    assert stage.metric("outrider_bad_frames_total") == 1
    assert stage.metric("outrider_kv_blocks_in_use") == 0


def test_the_age_of_the_turn_grows_while_the_loop_hangs():
    stage = Stage()
    stage.answers()
    assert stage.metric("outrider_turn_age_seconds") == 0
    stage.now += 40.0
    assert stage.metric("outrider_turn_age_seconds") == 40
    stage.answers()
    assert stage.metric("outrider_turn_age_seconds") == 0


def test_a_silent_peer_is_forgotten_only_after_its_mail_was_read():
    stage = Stage()
    stage.link.send(m.Hello(b"boot"), *start(b"a", 2))
    stage.answers()
    stage.now += 60.0  # one long step of somebody else
    stage.link.send(m.Heartbeat(b"boot", 1))
    stage.answers()
    assert len(stage.engine.sessions) == 1
    stage.now += 60.0
    stage.answers()
    assert not len(stage.engine.sessions)


def test_a_long_step_is_announced_so_that_its_silence_is_no_loss():
    for row_us, announced in ((90_000, []), (100_000, [800]), (150_000, [1200])):
        stage = Stage(row_us)
        stage.link.send(m.Hello(b"boot"), *start(b"a", 2))
        stage.worker.turn()
        beats = [
            one.message for one in stage.link.receive() if isinstance(one.message, m.Heartbeat)
        ]
        assert [beat.busy_ms for beat in beats if beat.busy_ms] == announced


def test_sessions_that_were_answered_together_stay_together():
    """Else two groups of sessions would take turns, each waiting for the other's whole step."""
    stage = Stage()
    stage.link.send(m.Hello(b"boot"), *start(b"a", 2))
    stage.step_s = 1.0
    (_, verdict) = stage.answers()
    assert isinstance(verdict, m.Verdict)
    stage.link.send(*start(b"b", 3))  # waits already when the first step ends
    second = m.ProposeTree(b"a" * 16, 0, 1, TokenTree.root_only(verdict.bonus_token or 0))
    stage.arrives_later = second
    assert {type(one) for one in stage.answers()} == {m.Verdict}
    assert stage.metric("outrider_step_rows_count") == 2
    assert stage.metric("outrider_step_rows_sum") == 2 + 3, "one row of a, two of b"


def test_draining_ends_the_loop_once_the_sessions_have():
    stage = Stage()
    stage.link.send(m.Hello(b"boot"), *start(b"a", 2))
    stage.answers()
    stage.link.send(m.CloseSession(b"a" * 16, 0))
    stage.worker.stop(drain_s=100.0)
    stage.worker.run()
    assert not len(stage.engine.sessions)


@pytest.mark.parametrize(
    ("row_us", "step_s", "is_live"),
    [(1000, 10.0, True), (1000, 10.1, False), (1_000_000, 17.9, True), (1_000_000, 18.1, False)],
)
def test_a_worker_is_live_while_a_step_takes_no_longer_than_it_may(row_us, step_s, is_live):
    """Ten seconds, and four times what its rows should take."""
    stage = Stage(row_us)
    stage.step_s = step_s
    stage.link.send(m.Hello(b"boot"), *start(b"a", 2))
    stage.worker.turn()
    assert stage.lived == [is_live]
    stage.worker.turn()
    assert stage.worker.is_live, "it turns again"


def test_a_worker_that_is_told_to_end_takes_no_sessions_and_is_live():
    stage = Stage()
    stage.worker.turn()
    seen = [(stage.worker.is_live, stage.worker.takes_sessions)]
    stage.worker.stop(drain_s=100.0)
    seen.append((stage.worker.is_live, stage.worker.takes_sessions))
    stage.now += 60.0  # nobody turns it
    seen.append((stage.worker.is_live, stage.worker.takes_sessions))
    assert seen == [(True, True), (True, False), (False, False)]
