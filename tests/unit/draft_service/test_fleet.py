import pytest

from draft_service.fleet import Outbox, VerifyFleet
from draft_service.verify_link import LinkState, VerifyLink
from outrider.protocol import messages as m
from outrider.protocol.features import FINAL_NORM, FeatureLayout
from tests.fakes.conversation import identity
from tests.fakes.table_target import HIDDEN_SIZE, LAYER_COUNT

HELLO = m.Hello(b"d" * 16)
KEY = b"k"


@pytest.fixture
def outbox() -> Outbox:
    return []


@pytest.fixture
def fleet(outbox) -> VerifyFleet:
    return VerifyFleet(HELLO, [VerifyLink(10.0), VerifyLink(10.0)], outbox)


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
    fleet = VerifyFleet(HELLO, [VerifyLink(10.0)], outbox, layout)
    assert fleet.handle(0, identity(), 0.0)
    assert fleet.links[0].is_ready is not bool(words)
    if words:
        assert words in fleet.problem()
        assert "the draft head does not fit table" in fleet.problem()
        assert fleet.target is None


def test_a_target_that_gives_no_features_does_not_do_for_a_head(outbox):
    fleet = VerifyFleet(HELLO, [VerifyLink(10.0)], outbox, FeatureLayout((1,), 4))
    ack = identity()
    silent = m.TargetDescription("old", "ff", "", 8, 64, (), 4, 4)
    fleet.handle(0, m.HelloAck(ack.boot_id, silent, 5000, ack.cost_table), 0.0)
    assert "gives none" in fleet.problem()
