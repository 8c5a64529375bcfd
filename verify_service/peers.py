"""The draft workers a verify worker knows: who is welcome, who is still heard, who misbehaves."""

from dataclasses import dataclass

from outrider.protocol import messages as m
from outrider.protocol.channel import PeerId
from outrider.protocol.features import misfit

MAX_STRIKES = 3


@dataclass(slots=True)
class _Peer:
    last_heard: float
    is_welcome: bool = False
    strikes: int = 0
    feature_layers: tuple[int, ...] = ()


class Peers:
    """Leases and manners of all peers.

    Args:
        identity: What this worker serves; a `Hello` for anything else is refused.
    """

    def __init__(self, identity: m.HelloAck) -> None:
        self._identity = identity
        self._peers: dict[PeerId, _Peer] = {}

    def hear(self, peer: PeerId, message: m.Message, now: float) -> m.Fault | None:
        """Renews a peer's lease.

        Args:
            peer: Who sent it.
            message: What was sent.
            now: Seconds.

        Returns:
            A refusal, or None where the message may be acted on.
        """
        known = self._peers.setdefault(peer, _Peer(now))
        known.last_heard = now
        if isinstance(message, m.Hello):
            refusal = self._mismatch(message)
            known.is_welcome = refusal is None
            known.feature_layers = message.feature_layers
            return refusal
        if not known.is_welcome:
            return m.Fault(m.FaultCode.HELLO_REQUIRED, "say Hello first")
        if not isinstance(message, m.ToVerify):
            return m.Fault(m.FaultCode.BAD_FRAME, f"{type(message).__name__} is not for verify")
        return None

    def strike(self, peer: PeerId, problem: str) -> m.Fault | None:
        """Notes unreadable bytes; the answer is None from the third time on."""
        known = self._peers.get(peer)
        if known is None:
            return m.Fault(m.FaultCode.BAD_FRAME, problem)
        known.strikes += 1
        if known.strikes >= MAX_STRIKES:
            known.is_welcome = False
            return None
        return m.Fault(m.FaultCode.BAD_FRAME, problem)

    def expire(self, now: float) -> list[PeerId]:
        """Forgets the peers whose lease has run out and names them."""
        lease = self._identity.lease_ms / 1000
        gone = [peer for peer, known in self._peers.items() if now - known.last_heard > lease]
        for peer in gone:
            del self._peers[peer]
        return gone

    def feature_layers(self, peer: PeerId) -> tuple[int, ...]:
        """Layers whose features a peer's sessions may want, as its last Hello said."""
        return self._peers[peer].feature_layers

    def welcome_peers(self) -> list[PeerId]:
        """Peers that have said hello."""
        return [peer for peer, known in self._peers.items() if known.is_welcome]

    def _mismatch(self, hello: m.Hello) -> m.Fault | None:
        target = self._identity.target
        if hello.protocol_version != m.PROTOCOL_VERSION:
            text = f"protocol {hello.protocol_version}, this worker speaks {m.PROTOCOL_VERSION}"
            return m.Fault(m.FaultCode.VERSION, text)
        if hello.vocab_size not in (0, target.vocab_size):
            text = f"vocabulary of {hello.vocab_size}, the target has {target.vocab_size}"
            return m.Fault(m.FaultCode.FINGERPRINT_MISMATCH, text)
        wanted, served = hello.tokenizer_fingerprint, target.tokenizer_fingerprint
        if wanted and served and wanted != served:
            text = f"tokenizer {wanted[:12]}, the target has {served[:12]}"
            return m.Fault(m.FaultCode.FINGERPRINT_MISMATCH, text)
        layers = hello.feature_layers
        text = misfit(layers, target.hidden_size, target.layer_count) if layers else ""
        return m.Fault(m.FaultCode.FINGERPRINT_MISMATCH, text) if text else None
