"""What a draft worker knows of one verify worker: greeted, alive, taking sessions. No sockets."""

from dataclasses import dataclass
from enum import Enum, auto

from outrider.protocol import messages as m

HELLO_INTERVAL_S = 0.5


class LinkState(Enum):
    """Where a link stands."""

    GREETING = auto()  # Hello is sent again and again
    READY = auto()
    LEAVING = auto()  # running sessions go on, new ones go elsewhere
    REFUSED = auto()  # another model or protocol; greeted again, in case it is replaced


@dataclass(slots=True)
class VerifyLink:
    """One verify worker.

    Args:
        name: Where it is; the same for every draft worker.
        timeout_s: Silence after which it counts as lost.
        last_heard: When anything arrived last, seconds.
        busy_s: How much longer it may be silent now, because it said so, seconds.
        last_hello: When it was greeted last, seconds.
        identity: What it answered, once it has.
        refusal: Why it cannot be used, or "".
        is_listed: False where it is no longer one of those that are to be used: running sessions go
            on there, new ones go elsewhere.
    """

    name: str
    timeout_s: float
    last_heard: float = 0.0
    busy_s: float = 0.0
    last_hello: float = float("-inf")
    state: LinkState = LinkState.GREETING
    identity: m.HelloAck | None = None
    refusal: str = ""
    is_listed: bool = True

    @property
    def is_ready(self) -> bool:
        """True where new sessions may be placed."""
        return self.state is LinkState.READY and self.is_listed

    def greeted(self, ack: m.HelloAck, now: float) -> bool:
        """Takes a HelloAck.

        Returns:
            True where the sessions placed here are gone: it is another boot than before.
        """
        is_new = self.identity is None or self.identity.boot_id != ack.boot_id
        self.identity, self.last_heard, self.refusal = ack, now, ""
        self.state = LinkState.READY
        return is_new

    def refused(self, reason: str) -> None:
        """Takes a refusal of the Hello."""
        self.state, self.refusal, self.identity = LinkState.REFUSED, reason, None

    def heard(self, now: float, busy_ms: int = 0) -> None:
        """Takes any sign of life.

        Args:
            now: Seconds.
            busy_ms: How much longer than usual it may be silent after it, milliseconds.
        """
        self.last_heard, self.busy_s = now, busy_ms / 1000

    def leaving(self) -> None:
        """Takes a GoAway."""
        if self.state is LinkState.READY:
            self.state = LinkState.LEAVING

    def lost(self) -> None:
        """Starts over: greets until it answers."""
        self.state, self.identity = LinkState.GREETING, None
        self.last_hello = float("-inf")

    def is_silent(self, now: float) -> bool:
        """True where a greeted worker has not been heard for too long."""
        return self.identity is not None and now - self.last_heard > self.timeout_s + self.busy_s

    def wants_hello(self, now: float) -> bool:
        """True where it is time to greet."""
        is_greeting = self.state in (LinkState.GREETING, LinkState.REFUSED)
        return is_greeting and now - self.last_hello >= HELLO_INTERVAL_S
