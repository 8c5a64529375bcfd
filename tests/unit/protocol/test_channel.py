from outrider.protocol import messages as m
from outrider.protocol.channel import batched
from outrider.protocol.codec import MAX_FRAMES, decode, encode
from outrider.protocol.features import TensorType

ROWS = m.FeatureRows(bytes(16), 0, 0, 1, 1, TensorType.FLOAT16, b"ab")
BEAT = m.Heartbeat(b"boot", 1)


def test_few_messages_are_one_part():
    assert list(batched([])) == []
    assert list(batched([BEAT])) == [[BEAT]]
    both: list[m.Message] = [ROWS, BEAT]
    assert list(batched(both)) == [both]


def test_a_part_carries_as_many_messages_as_it_may():
    assert [len(part) for part in batched([BEAT] * (2 * MAX_FRAMES + 1))] == [512, 512, 1]


def test_a_tensor_stays_with_its_header():
    messages: list[m.Message] = [BEAT, *[ROWS] * MAX_FRAMES, BEAT]
    parts = list(batched(messages))
    assert [message for part in parts for message in part] == messages
    for part in parts:
        frames = encode(*part)
        assert len(frames) <= MAX_FRAMES
        assert decode(frames) == part
    assert len(parts) == 3
