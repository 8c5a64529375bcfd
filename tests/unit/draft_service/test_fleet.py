import pytest

from draft_service.fleet import Outbox, VerifyFleet
from draft_service.verify_link import LinkState
from outrider.protocol import messages as m
from outrider.protocol.features import FINAL_NORM, FeatureLayout
from tests.fakes.conversation import identity
from tests.fakes.table_target import HIDDEN_SIZE, LAYER_COUNT

HELLO = m.Hello(b"d" * 16)
KEY = b"k"


def fleet_of(*names: str, outbox: Outbox, layout: FeatureLayout | None = None) -> VerifyFleet:
    fleet = VerifyFleet(HELLO, 10.0, outbox, layout)
    fleet.follow(names)
    return fleet


@pytest.fixture
def outbox() -> Outbox:
    return []


@pytest.fixture
def fleet(outbox) -> VerifyFleet:
    return fleet_of("a", "b", outbox=outbox)


def greet(fleet: VerifyFleet, index: int, **options) -> bool:
    boot = options.pop("boot", bytes([index]) * 16)
    return fleet.handle(index, identity(boot=boot, **options), 0.0)


def test_everybody_is_greeted_until_they_answer(fleet, outbox):
    fleet.tick(0.0)
    assert outbox == [(0, HELLO), (1, HELLO)]
    outbox.clear()
    greet(fleet, 0)
    fleet.tick(0.6)
    assert (1, HELLO) in outbox
    assert (0, HELLO) not in outbox
    assert [index for index, message in outbox if isinstance(message, m.Heartbeat)] == [0]


def test_sessions_go_to_a_ready_link_that_has_not_more_than_its_share(fleet):
    assert fleet.choose({}, KEY) is None
    greet(fleet, 1)
    assert fleet.choose({1: 99}, KEY) == 1
    greet(fleet, 0)
    assert fleet.choose({0: 9, 1: 2}, KEY) == 1
    fleet.handle(1, m.GoAway("upgrade"), 0.0)
    assert fleet.links[1].state is LinkState.LEAVING
    assert fleet.choose({0: 9, 1: 2}, KEY) == 0


def test_sessions_with_the_same_beginning_meet_where_load_allows(fleet):
    greet(fleet, 0)
    greet(fleet, 1)
    chosen = {key: fleet.choose({}, bytes([key])) for key in range(20)}
    assert set(chosen.values()) == {0, 1}
    for key, link in chosen.items():
        assert fleet.choose({link: 2}, bytes([key])) == link
        assert fleet.choose({link: 3}, bytes([key])) == 1 - link


def test_a_broken_connection_is_a_loss_and_everybody_is_greeted_anew(fleet, outbox):
    assert not fleet.cut(0), "nothing was placed there yet"
    greet(fleet, 0)
    fleet.tick(0.0)
    outbox.clear()
    assert fleet.cut(0)
    assert not fleet.links[0].is_ready
    fleet.tick(0.01)
    assert (0, HELLO) in outbox
    assert greet(fleet, 0), "what was placed there is gone, though it is the same boot"


def test_silence_is_borne_for_as_long_as_it_was_announced(fleet):
    greet(fleet, 0)
    fleet.handle(0, m.Heartbeat(bytes(16), 1, busy_ms=3000), 1.0)
    assert fleet.tick(13.9) == []
    assert fleet.tick(14.1) == [0]
    greet(fleet, 0)
    fleet.handle(0, m.Heartbeat(bytes(16), 2, busy_ms=3000), 20.0)
    fleet.handle(0, m.Heartbeat(bytes(16), 3), 21.0)
    assert fleet.tick(31.1) == [0]


def test_another_boot_under_the_same_address_loses_its_sessions(fleet):
    assert greet(fleet, 0)
    assert not greet(fleet, 0), "the same boot said it again"
    assert fleet.handle(0, m.Heartbeat(b"x" * 16, 1), 0.0)
    assert not fleet.links[0].is_ready
    assert greet(fleet, 0, boot=b"x" * 16)
    assert fleet.links[0].is_ready


def test_a_worker_with_another_model_is_refused_in_words(fleet):
    greet(fleet, 0)
    ack = identity(boot=b"1" * 16)
    other = m.TargetDescription("other", "ff", "", 8, 64, (), 4, 4)
    assert fleet.handle(1, m.HelloAck(ack.boot_id, other, 5000, ack.cost_table), 0.0)
    assert fleet.links[1].state is LinkState.REFUSED
    assert "other" in fleet.problem()
    assert fleet.choose({}, KEY) == 0


def test_a_refusal_by_the_worker_is_told_and_tried_again(fleet, outbox):
    fault = m.Fault(m.FaultCode.FINGERPRINT_MISMATCH, "tokenizer abc, the target has def")
    assert fleet.handle(0, fault, 0.0)
    assert "tokenizer abc" in fleet.problem()
    fleet.tick(5.0)
    assert (0, HELLO) in outbox


def test_silence_is_noticed_and_any_message_is_a_sign_of_life(fleet):
    greet(fleet, 0)
    assert fleet.tick(9.0) == []
    fleet.handle(0, m.Heartbeat(bytes(16), 1), 9.5)
    assert fleet.tick(19.0) == []
    assert fleet.tick(20.0) == [0]
    assert fleet.target is None


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (FeatureLayout((1, LAYER_COUNT, FINAL_NORM), HIDDEN_SIZE), ""),
        (FeatureLayout((1, LAYER_COUNT + 1), HIDDEN_SIZE), "layer 7, the target has 6 layers"),
        (FeatureLayout((1,), HIDDEN_SIZE + 1), "5 values a layer, the target has 4"),
    ],
)
def test_a_target_that_the_head_does_not_fit_is_refused_in_words(outbox, layout, words):
    fleet = fleet_of("a", outbox=outbox, layout=layout)
    assert fleet.handle(0, identity(), 0.0)
    assert fleet.links[0].is_ready is not bool(words)
    if words:
        assert words in fleet.problem()
        assert "the draft head does not fit table" in fleet.problem()
        assert fleet.target is None


def test_a_target_that_gives_no_features_does_not_do_for_a_head(outbox):
    fleet = fleet_of("a", outbox=outbox, layout=FeatureLayout((1,), 4))
    ack = identity()
    silent = m.TargetDescription("old", "ff", "", 8, 64, (), 4, 4)
    fleet.handle(0, m.HelloAck(ack.boot_id, silent, 5000, ack.cost_table), 0.0)
    assert "gives none" in fleet.problem()


def test_before_anybody_is_known_there_is_nobody_to_choose(outbox):
    fleet = fleet_of(outbox=outbox)
    fleet.tick(0.0)
    assert outbox == []
    assert fleet.choose({}, KEY) is None
    assert fleet.problem() == "no verify worker is known yet"
    fleet.follow(["a"])
    fleet.tick(1.0)
    assert outbox == [(0, HELLO)]


def test_who_joins_has_a_number_of_its_own_and_who_stays_keeps_his(fleet, outbox):
    greet(fleet, 0)
    greet(fleet, 1)
    fleet.follow(["b", "c"])
    fleet.part({1})
    assert list(fleet.links) == [1, 2]
    assert fleet.links[1].is_ready
    fleet.follow(["c", "a"])
    fleet.part(set())
    assert list(fleet.links) == [2, 3], "a is greeted as a stranger: what it knew of us is gone"
    outbox.clear()
    fleet.tick(1.0)
    assert outbox[:2] == [(2, HELLO), (3, HELLO)]


def test_who_leaves_keeps_its_sessions_and_gets_no_new_ones(fleet, outbox):
    greet(fleet, 0)
    greet(fleet, 1)
    fleet.follow(["b"])
    assert {fleet.choose({}, bytes([key])) for key in range(20)} == {1}
    fleet.part({0, None})
    outbox.clear()
    fleet.tick(1.0)
    assert [number for number, _ in outbox] == [0, 1], "it is still told that we are alive"
    assert fleet.is_parting
    assert fleet.listed_count == 1, "one that parts is not missed"
    assert fleet.tick(20.0) == [0, 1], "and its silence is still a loss"
    fleet.part({None})
    assert list(fleet.links) == [1]
    assert not fleet.is_parting


def test_workers_that_are_about_to_end_are_none_to_wait_for(fleet):
    greet(fleet, 0)
    greet(fleet, 1)
    fleet.handle(0, m.GoAway("upgrade"), 0.0)
    fleet.follow(["a"])
    assert fleet.choose({}, KEY) is None
    assert fleet.ready_count == 0
    assert fleet.problem() == "all verify workers that answer are about to end"


def test_who_comes_back_before_its_sessions_ended_is_used_as_before(fleet):
    greet(fleet, 0)
    greet(fleet, 1)
    fleet.follow(["b"])
    fleet.part({0})
    fleet.follow(["a", "b"])
    fleet.part(set())
    assert fleet.links[0].is_ready
    assert fleet.choose({1: 9}, KEY) == 0


def test_all_draft_workers_prefer_the_same_verify_worker_for_a_beginning(outbox):
    """However each of them came to know of the workers."""
    names = ["tcp://10.0.0.1:5", "tcp://10.0.0.2:5", "tcp://10.0.0.3:5"]
    fleets = [fleet_of(*names, outbox=outbox), fleet_of(names[2], outbox=outbox)]
    fleets[1].follow(names)
    for fleet in fleets:
        for number in fleet.links:
            greet(fleet, number)
    chosen = []
    for key in range(20):
        numbers = [fleet.choose({}, bytes([key])) or 0 for fleet in fleets]
        first, second = (
            fleet.links[number].name for fleet, number in zip(fleets, numbers, strict=True)
        )
        assert first == second
        chosen.append(first)
    assert set(chosen) == set(names)
