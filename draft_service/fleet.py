"""The verify workers behind one draft worker: greeted, kept alive, chosen for new sessions.

They join and leave while it runs. Each has a link with a number, which is never used again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from draft_service.verify_link import LinkState, VerifyLink
from outrider.protocol import messages as m
from outrider.protocol.affinity import choose_worker
from outrider.protocol.features import FeatureLayout

HEARTBEAT_S = 0.2

Outbox = list[tuple[int, m.ToVerify]]


class VerifyFleet:
    """All links, none at first; what is to be sent goes to `outbox`.

    Args:
        hello: Greets verify workers.
        timeout_s: Silence after which one counts as lost.
        outbox: Shared with the engine.
        layout: Features that the loaded heads read; None where no head is loaded.
    """

    def __init__(
        self,
        hello: m.Hello,
        timeout_s: float,
        outbox: Outbox,
        layout: FeatureLayout | None = None,
    ) -> None:
        self.links: dict[int, VerifyLink] = {}
        self._numbers = count()
        self._timeout_s = timeout_s
        self._hello = replace(hello, feature_layers=layout.feature_layers) if layout else hello
        self._layout = layout
        self._outbox = outbox
        self._progress = 0
        self._last_heartbeat = float("-inf")

    @property
    def target(self) -> m.TargetDescription | None:
        """What the greeted workers serve; None while there is none."""
        for link in self.links.values():
            if link.identity is not None:
                return link.identity.target
        return None

    @property
    def ready_count(self) -> int:
        """Links that take sessions."""
        return sum(link.is_ready for link in self.links.values())

    @property
    def listed_count(self) -> int:
        """Links that are to be used, whether their workers answer or not."""
        return sum(link.is_listed for link in self.links.values())

    def problem(self) -> str:
        """Why there is no verify worker now, for a client to read."""
        if not self.links:
            return "no verify worker is known yet"
        refusals = [link.refusal for link in self.links.values() if link.refusal]
        if refusals:
            return f"the verify worker refused this draft worker: {refusals[0]}"
        if self.target is not None:
            return "all verify workers that answer are about to end"
        return "no verify worker answers; it may still be loading its model"

    def follow(self, names: Sequence[str]) -> None:
        """From now on these are the verify workers to be used.

        One that is new is greeted. One that is none of them any more keeps its sessions; it may
        come back meanwhile.

        Args:
            names: Where they are, each once.
        """
        for link in self.links.values():
            link.is_listed = link.name in names
        known = {link.name for link in self.links.values()}
        for name in names:
            if name not in known:
                self.links[next(self._numbers)] = VerifyLink(name, self._timeout_s)

    def part(self, in_use: Collection[int | None]) -> None:
        """Forgets the workers that are not to be used and hold no sessions any more.

        Args:
            in_use: Links with sessions.
        """
        for number, link in list(self.links.items()):
            if not link.is_listed and number not in in_use:
                del self.links[number]

    @property
    def is_parting(self) -> bool:
        """True where a worker that is not to be used has not been forgotten yet."""
        return not all(link.is_listed for link in self.links.values())

    def choose(self, session_counts: Mapping[int | None, int], key: bytes) -> int | None:
        """The link that a session goes to, or None where none is ready.

        Args:
            session_counts: Sessions of each link.
            key: See `affinity_key`.
        """
        ready = {link.name: number for number, link in self.links.items() if link.is_ready}
        loads = {name: session_counts.get(number, 0) for name, number in ready.items()}
        name = choose_worker(loads, key)
        return None if name is None else ready[name]

    def handle(self, number: int, message: m.Message, now: float) -> bool:
        """Takes what concerns the link itself.

        Returns:
            True where the sessions placed on it are gone.
        """
        link = self.links[number]
        link.heard(now, message.busy_ms if isinstance(message, m.Heartbeat) else 0)
        match message:
            case m.HelloAck():
                return self._greeted(link, message, now)
            case m.Heartbeat():
                # Another boot under the same address: what was placed there is gone.
                is_other = link.identity is not None and link.identity.boot_id != message.boot_id
                if is_other:
                    link.lost()
                return is_other
            case m.GoAway():
                link.leaving()
            case m.Fault(code=m.FaultCode.HELLO_REQUIRED):
                link.lost()
                return True
            case m.Fault(code=m.FaultCode.VERSION | m.FaultCode.FINGERPRINT_MISMATCH):
                link.refused(message.message)
                return True
        return False

    def cut(self, number: int) -> bool:
        """The connection broke; it is made again by itself, to whoever is there then.

        Returns:
            True where the sessions placed there must go elsewhere.
        """
        was_greeted = self.links[number].identity is not None
        self.links[number].lost()
        return was_greeted

    def tick(self, now: float) -> list[int]:
        """Greets, sends heartbeats, and names the links that have just been lost."""
        lost = [number for number, link in self.links.items() if link.is_silent(now)]
        for number in lost:
            self.links[number].lost()
        for number, link in self.links.items():
            if link.wants_hello(now):
                link.last_hello = now
                self._outbox.append((number, self._hello))
        if now - self._last_heartbeat >= HEARTBEAT_S:
            self._last_heartbeat = now
            self._progress += 1
            beat = m.Heartbeat(self._hello.boot_id, self._progress)
            greeted = (LinkState.READY, LinkState.LEAVING)
            self._outbox += [
                (number, beat) for number, link in self.links.items() if link.state in greeted
            ]
        return lost

    def _greeted(self, link: VerifyLink, ack: m.HelloAck, now: float) -> bool:
        problem = self._misfit(ack.target)
        if problem:
            link.refused(problem)
            return True
        return link.greeted(ack, now)

    def _misfit(self, target: m.TargetDescription) -> str:
        """Why a target cannot be used here, or ""."""
        served = self.target
        if served is not None and served.target_fingerprint != target.target_fingerprint:
            return f"it serves {target.model}, the others serve {served.model}"
        misfit = self._layout and self._layout.misfit(target.hidden_size, target.layer_count)
        return f"the draft head does not fit {target.model}: {misfit}" if misfit else ""
