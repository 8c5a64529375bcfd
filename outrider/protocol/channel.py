"""The seam between a worker and its peers: send a message, take what has arrived.

Two pairs implement it: ZeroMQ (`zmq_channel.py`) and the in-memory pair here, which ships with the
package so that whole conversations can be tested without sockets. Both carry *frames*, so the
codec is always part of the way.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from outrider.protocol.codec import MAX_FRAMES, decode, encode, frame_count
from outrider.protocol.errors import BadFrame
from outrider.protocol.messages import Message

PeerId = bytes
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Received:
    """One arrival: a message, or what was wrong with the bytes.

    Args:
        peer: Who sent it; b"" on the side that has a single peer.
        message: What was sent, or None where it could not be read.
        problem: Why it could not be read, or "".
    """

    peer: PeerId
    message: Message | None
    problem: str = ""


class DraftChannel(Protocol):
    """The draft worker's end: one verify worker."""

    def send(self, *messages: Message) -> bool:
        """Sends together, without waiting; False where the peer cannot take them now."""

    def receive(self) -> list[Received]:
        """Takes all that has arrived, without waiting."""

    def was_cut(self) -> bool:
        """True where the connection broke since this was asked last."""

    def close(self) -> None:
        """Closes the channel; unsent messages may be lost. The owner calls it once."""


class VerifyChannel(Protocol):
    """The verify worker's end: many draft workers."""

    def send(self, peer: PeerId, *messages: Message) -> bool:
        """Sends together, without waiting; False where the peer is gone or does not read."""

    def receive(self, timeout_ms: int) -> list[Received]:
        """Takes all that has arrived, waiting up to `timeout_ms` for the first."""

    def close(self) -> None:
        """Closes the channel. The owner calls it once."""


def batched(messages: Sequence[M]) -> Iterator[Sequence[M]]:
    """Cuts a turn's messages into parts that one arrival may carry."""
    start, frames = 0, 0
    for place, message in enumerate(messages):
        if frames + frame_count(message) > MAX_FRAMES:
            yield messages[start:place]
            start, frames = place, 0
        frames += frame_count(message)
    if frames:
        yield messages[start:]


def read_frames(peer: PeerId, frames: list[bytes]) -> list[Received]:
    """Decodes one arrival; unreadable bytes become a `problem`, never an exception."""
    try:
        return [Received(peer, message) for message in decode(frames)]
    except BadFrame as error:
        return [Received(peer, None, str(error))]


class MemoryHub:
    """The verify end of an in-memory channel; `connect` makes draft ends."""

    def __init__(self) -> None:
        self._arrived: deque[tuple[PeerId, list[bytes]]] = deque()
        self._peers: dict[PeerId, MemoryLink] = {}

    def connect(self, peer: PeerId) -> "MemoryLink":
        """A new draft end that this hub knows as `peer`."""
        self._peers[peer] = MemoryLink(self, peer)
        return self._peers[peer]

    def send(self, peer: PeerId, *messages: Message) -> bool:
        """As `VerifyChannel.send`."""
        link = self._peers.get(peer)
        if link is None:
            return False
        link.arrived.append(encode(*messages))
        return True

    def receive(self, timeout_ms: int = 0) -> list[Received]:
        """As `VerifyChannel.receive`, never waiting."""
        arrived = [one for peer, frames in self._arrived for one in read_frames(peer, frames)]
        self._arrived.clear()
        return arrived

    def close(self) -> None:
        """Forgets all peers."""
        self._peers.clear()

    def push(self, peer: PeerId, frames: list[bytes]) -> None:
        """Delivers raw frames as if `peer` had sent them."""
        self._arrived.append((peer, frames))

    def forget(self, peer: PeerId) -> None:
        """Drops a peer, as when its process dies."""
        self._peers.pop(peer, None)


class MemoryLink:
    """The draft end of an in-memory channel."""

    def __init__(self, hub: MemoryHub, peer: PeerId) -> None:
        self.arrived: deque[list[bytes]] = deque()
        self._hub = hub
        self._peer = peer

    def send(self, *messages: Message) -> bool:
        """As `DraftChannel.send`."""
        self._hub.push(self._peer, encode(*messages))
        return True

    def receive(self) -> list[Received]:
        """As `DraftChannel.receive`."""
        arrived = [one for frames in self.arrived for one in read_frames(b"", frames)]
        self.arrived.clear()
        return arrived

    def was_cut(self) -> bool:
        """As `DraftChannel.was_cut`; never here."""
        return False

    def close(self) -> None:
        """As when the draft worker's process dies."""
        self._hub.forget(self._peer)
