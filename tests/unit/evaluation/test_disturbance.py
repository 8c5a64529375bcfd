"""What a disturbed run says of its streams."""

from collections import Counter

from rich.table import Table

from outrider.evaluation.cancelling import Remains
from outrider.evaluation.disturb_report import outcome_lines, remains_lines
from outrider.evaluation.disturbance import (
    GRACE_S,
    LONGEST_DELAY_S,
    Blow,
    Ending,
    StreamRecord,
    Strike,
    longest_silence,
    outcome_of,
    plan_blows,
    plan_drains,
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


def test_in_each_round_of_drains_one_process_of_each_role_is_told_to_end() -> None:
    victims = ["verify", "gateway", "draft-2", "draft", "gateway-2"]
    blows = plan_drains(victims, 3, seed=1)
    assert [blow.victim for blow in blows] == [
        *("draft", "gateway", "verify"),
        *("draft-2", "gateway-2", "verify"),
        *("draft", "gateway", "verify"),
    ]
    assert {blow.kind for blow in blows} == {
        "draft worker, term",
        "gateway, term",
        "verify worker, term",
    }
    assert blows == plan_drains(victims, 3, seed=1)


def test_a_process_that_ends_late_or_badly_or_not_at_all_is_noticed() -> None:
    well = Ending("draft", 0, 1.0)
    assert outcome_of([], [], [], [well]).passed
    for bad in (
        Ending("draft", 1, 1.0),
        Ending("draft", -9, 1.0),
        Ending("draft", None, 60.0),
        Ending("draft", 0, GRACE_S + 1),
    ):
        assert not outcome_of([], [], [], [well, bad]).passed


def test_what_is_kept_when_all_streams_have_ended_is_noticed() -> None:
    outcome = outcome_of([], [], [], left={"outrider_sessions": 1.0, "other": 0.0})
    assert not outcome.passed
    assert "  still in use at the end: outrider_sessions 1" in outcome_lines(outcome)
    assert outcome_of([], [], [], left={"outrider_sessions": 0.0}).passed


def test_the_endings_are_shown_by_process() -> None:
    endings = [Ending("draft", 0, 1.0), Ending("draft", 1, 3.0), Ending("verify", None, 60.0)]
    (_, table, *_) = outcome_lines(outcome_of([], [], [], endings))
    assert isinstance(table, Table)
    cells = [list(column.cells) for column in table.columns]
    assert cells == [
        ["draft", "verify"],
        ["2", "1"],
        ["1 x 0, 1 x 1", "1 x none"],
        ["1.00", "60.00"],
        ["3.00", "60.00"],
    ]


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
    table, *lines = outcome_lines(outcome_of([(KILL, 1.0)], records, [(1, 2)]))
    assert isinstance(table, Table)
    assert table.row_count == 2
    assert str(lines[0]).startswith("3 streams, 3 tokens; 2 streams went on elsewhere; 1 equal")
    assert lines[1:] == ["  1 x gone"]


def test_what_clients_left_behind_is_said() -> None:
    clean = Remains(9, 1, 0.25, {"outrider_sessions": 0.0}, {"gateway": 1.25})
    assert remains_lines(clean) == [
        "9 streams cancelled, 1 had ended before",
        "  nothing in use 0.25 s later",
        "  gateway grew by 1.2 MiB",
    ]
    left = Remains(9, 1, None, {"outrider_sessions": 2.0, "outrider_kv_blocks_in_use": 0.0}, {})
    assert remains_lines(left)[1:] == ["  still in use 1 s later: outrider_sessions 2"]
