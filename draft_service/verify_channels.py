"""The connections to verify workers: opened and closed as the fleet's links come and go.

Shell: owns the sockets, in one thread. Takes no decisions: who is connected is said by the links.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import zmq

from draft_service.verify_link import VerifyLink
from outrider.protocol.channel import batched
from outrider.protocol.messages import ToVerify
from outrider.protocol.zmq_channel import UnsafeEndpoint, ZmqDraftChannel

logger = logging.getLogger(__name__)

OpenChannel = Callable[[str], ZmqDraftChannel]


class VerifyChannels:
    """One channel for each link, by the link's number.

    Args:
        open_channel: Connects to an endpoint.
        wake: Another socket that ends a poll.
    """

    def __init__(self, open_channel: OpenChannel, wake: "zmq.Socket[bytes]") -> None:
        self._open_channel = open_channel
        self._channels: dict[int, ZmqDraftChannel] = {}
        self._unusable: set[int] = set()
        self._poller = zmq.Poller()
        self._poller.register(wake, zmq.POLLIN)

    def __iter__(self) -> Iterator[tuple[int, ZmqDraftChannel]]:
        return iter(self._channels.items())

    def poll(self, timeout_ms: int) -> None:
        """Waits until anything has arrived."""
        self._poller.poll(timeout_ms)

    def open(self, links: Mapping[int, VerifyLink]) -> None:
        """Connects the links that have no channel; one that cannot be connected stays silent."""
        for number in links.keys() - self._channels.keys() - self._unusable:
            name = links[number].name
            try:
                channel = self._open_channel(name)
            except (OSError, UnsafeEndpoint, zmq.ZMQError) as error:
                self._unusable.add(number)
                logger.error("no connection can be made to a verify worker at %s: %s", name, error)
                continue
            logger.info("verify worker %d is looked for at %s", number, name)
            self._channels[number] = channel
            self._poller.register(channel.socket, zmq.POLLIN)
            self._poller.register(channel.monitor, zmq.POLLIN)

    def close(self, links: Mapping[int, VerifyLink]) -> None:
        """Closes the channels whose links are gone, behind what was sent there."""
        self._unusable &= links.keys()
        for number in self._channels.keys() - links.keys():
            logger.info("verify worker %d has left", number)
            self._close(number)

    def close_all(self) -> None:
        """At the end."""
        for number in list(self._channels):
            self._close(number)

    def send(self, number: int, messages: Sequence[ToVerify]) -> None:
        """Sends without waiting; what is lost is repeated by the engine."""
        channel = self._channels.get(number)
        if channel is not None:
            for batch in batched(messages):
                channel.send(*batch)

    def _close(self, number: int) -> None:
        channel = self._channels.pop(number)
        self._poller.unregister(channel.socket)
        self._poller.unregister(channel.monitor)
        channel.close()
