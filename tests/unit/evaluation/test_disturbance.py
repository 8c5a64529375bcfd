"""What a disturbed run says of its streams."""

from collections import Counter

from outrider.evaluation.disturb_report import (
    disturbance_document,
    disturbance_table,
    verdict_lines,
)
from outrider.evaluation.disturbance import (
    LONGEST_DELAY_S,
    Blow,
    StreamRecord,
    Strike,
    longest_silence,
    outcome_of,
    plan_blows,
)

KILL = Blow("verify-2", Strike.KILL, 0.0)
STOP = Blow("draft", Strike.STOP, 0.0)


def stream(*message_s: float, ids: tuple[int, ...] = (1, 2), failovers: int = 1) -> StreamRecord:
    return StreamRecord(0, 0.0, message_s, ids, failovers)


def test_blows_are_the_same_for_a_seed_and_hit_everybody_in_every_way() -> None:
    victims = ["draft", "draft-2", "verify", "verify-2"]
    blows = plan_blows(victims, 200, seed=1)
    assert blows == plan_blows(victims, 200, seed=1)
    assert blows != plan_blows(victims, 200, seed=2)
    counts = Counter((blow.victim, blow.strike) for blow in blows)
    assert len(counts) == 8
    assert min(counts.values()) > 10
    assert all(0 <= blow.delay_s <= LONGEST_DELAY_S for blow in blows)
    assert {blow.kind for blow in blows} == {
        f"{role} worker, {strike}" for role in ("draft", "verify") for strike in ("kill", "stop")
    }


def test_the_longest_silence_is_that_around_the_blow() -> None:
    times = stream(1.0, 3.0, 3.5, 9.0, 30.0)
    assert longest_silence(times, 1.5) == 21.0
    assert longest_silence(stream(1.0, 3.0, 3.5, 4.0), 1.5) == 2.0
    assert longest_silence(stream(5.0, 6.0), 0.5) == 5.0, "before the first token too"
    assert longest_silence(stream(1.0, 2.0, 12.5, 40.0), 2.2) == 10.5, "later ones have a cause"


def test_a_stream_that_was_not_running_has_no_silence() -> None:
    assert longest_silence(stream(1.0, 2.0), 2.0) is None
    assert longest_silence(stream(1.0, 2.0), -0.1) is None
    assert longest_silence(StreamRecord(0, 0.0), 0.0) is None


def test_only_streams_that_moved_count_for_the_silence() -> None:
    outcome = outcome_of(
        [(KILL, 1.0), (STOP, 50.0)],
        [stream(0.5, 2.0), stream(0.5, 9.0, failovers=0), stream(0.5, 1.5, 2.0)],
        [(1, 2)],
    )
    assert [(gaps.kind, gaps.blows, gaps.longest_s) for gaps in outcome.gaps] == [
        ("draft worker, stop", 1, ()),
        ("verify worker, kill", 1, (1.0, 1.5)),
        ("all", 2, (1.0, 1.5)),
    ]
    assert (outcome.streams, outcome.moved, outcome.tokens) == (3, 2, 6)
    assert outcome.passed


def test_a_changed_id_or_a_failure_is_noticed() -> None:
    changed = outcome_of([], [stream(1.0, ids=(1, 3))], [(1, 2)])
    assert changed.differing == (0,)
    assert not changed.passed
    failed = outcome_of([], [StreamRecord(0, 0.0, problem="gone")], [(1, 2)])
    assert failed.problems == ("gone",)
    assert not failed.passed


def test_the_report_says_it_in_words_and_figures() -> None:
    records = [stream(0.5, 2.0), stream(1.0, ids=(9,)), StreamRecord(0, 0.0, problem="gone")]
    outcome = outcome_of([(KILL, 1.0)], records, [(1, 2)])
    lines = verdict_lines(outcome)
    assert lines[0].startswith("3 streams, 3 tokens; 2 streams went on elsewhere; 1 equal")
    assert lines[1] == "  1 x gone"
    assert disturbance_table(outcome).row_count == 2
    document = disturbance_document(outcome, {"seed": 0})
    assert document["passed"] is False
    assert document["outcome"]["gaps"][0]["longest_s"] == (1.5,)
