"""Bytes on the wire between draft and verify workers, as an earlier version wrote them.

A change here is a change of the protocol: give the field a new number, or raise PROTOCOL_VERSION.
"""

from pathlib import Path

import pytest

from outrider.protocol.codec import decode, encode
from tests.unit.protocol.test_codec import MESSAGES

FILE = Path(__file__).with_name("golden_frames.txt")


def golden() -> list[list[str]]:
    """For each message its name, then its frames."""
    return [line.split(" ") for line in FILE.read_text().splitlines()]


@pytest.mark.parametrize("place", range(len(MESSAGES)))
def test_old_frames_are_read_and_written_the_same(place):
    name, *texts = golden()[place]
    frames = [bytes.fromhex(text) for text in texts]
    message = MESSAGES[place]
    assert name == type(message).__name__
    assert decode(frames) == [message]
    assert encode(message) == frames


def test_every_message_has_its_golden_frame():
    assert len(golden()) == len(MESSAGES)
