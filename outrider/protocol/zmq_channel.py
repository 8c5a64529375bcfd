"""The ZeroMQ pair of the channel seam: verify binds a ROUTER, draft opens a DEALER to each one.

libzmq's defaults lose messages silently, ignore a restarted peer and never notice a stopped one, so
each option below answers a measured failure. Each end is owned by one thread.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import zmq
from zmq.auth import load_certificate
from zmq.auth.thread import ThreadAuthenticator

from outrider.protocol.channel import PeerId, Received, read_frames
from outrider.protocol.codec import MAX_FRAME_BYTES, encode
from outrider.protocol.messages import Message
from outrider.settings import LOOPBACK_HOSTS

HEARTBEAT_INTERVAL_MS = 200
HEARTBEAT_TIMEOUT_MS = 600
LINGER_MS = 200
HIGH_WATER_MARK = 4096  # messages; what a session has on the way is bounded by its one tree
RECONNECT_MS = 50
RECONNECT_MAX_MS = 1000
MAX_DRAINED = 1024  # arrivals taken at once, so that one peer's flood cannot hold the loop
ROUTING_ID_BYTES = 12
ZAP_DOMAIN = "outrider"


class UnsafeEndpoint(ValueError):
    """An endpoint that strangers could reach, or key files that others could read."""


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """Keys of one end.

    Args:
        public: Z85 public key of this end.
        secret: Z85 secret key of this end.
        peers: On the verify end, a folder of public keys that may connect; on the draft end, the
            file of the verify worker's public key.
    """

    public: bytes
    secret: bytes
    peers: Path


def load_curve_keys(secret_file: Path, peers: Path) -> CurveKeys:
    """Reads the keys of one end.

    Args:
        secret_file: Certificate file with public and secret key, readable by its owner only.
        peers: See `CurveKeys`.

    Raises:
        UnsafeEndpoint: A file is missing, has no secret key, or is readable by others.
    """
    try:
        status = secret_file.stat()
        public, secret = load_certificate(secret_file)
    except (OSError, ValueError) as error:
        raise UnsafeEndpoint(f"CURVE key file {secret_file}: {error}") from error
    if secret is None:
        raise UnsafeEndpoint(f"CURVE key file {secret_file} has no secret key")
    if os.name == "posix" and not _is_private(status):
        raise UnsafeEndpoint(f"CURVE key file {secret_file} is readable by others; chmod 600 it")
    if not peers.exists():
        raise UnsafeEndpoint(f"CURVE peers {peers} do not exist")
    return CurveKeys(public, secret, peers)


def load_server_key(peers: Path) -> bytes:
    """Reads the public key that the verify workers share, Z85.

    Raises:
        UnsafeEndpoint: The file holds none.
    """
    try:
        return load_certificate(peers)[0]
    except (OSError, ValueError) as error:
        text = "must be the file of the verify workers' public key"
        raise UnsafeEndpoint(f"CURVE peers {peers} {text}: {error}") from error


def check_endpoint(endpoint: str, has_keys: bool) -> None:
    """Refuses an endpoint that is neither local nor encrypted.

    Args:
        endpoint: `ipc://PATH` or `tcp://HOST:PORT`.
        has_keys: CURVE keys are set.

    Raises:
        UnsafeEndpoint: Says what is wrong and what to do.
    """
    parts = urlsplit(endpoint)
    if parts.scheme == "ipc":
        path = endpoint.removeprefix("ipc://")
        if not path:
            raise UnsafeEndpoint(f"{endpoint} names no path")
        if len(os.fsencode(path)) > zmq.IPC_PATH_MAX_LEN:
            raise UnsafeEndpoint(
                f"{endpoint} is too long: a socket's path has {zmq.IPC_PATH_MAX_LEN} bytes at most"
            )
        return
    if parts.scheme != "tcp":
        raise UnsafeEndpoint(f"{endpoint} must start with ipc:// or tcp://")
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UnsafeEndpoint(f"{endpoint}: {error}") from error
    if not host or not port or parts.path:
        raise UnsafeEndpoint(f"{endpoint} must be tcp://HOST:PORT")
    if host not in LOOPBACK_HOSTS and not has_keys:
        raise UnsafeEndpoint(
            f"{endpoint} can be reached by strangers and no CURVE keys are set; "
            "set the curve_key and curve_peers settings or use a loopback address"
        )


class ZmqVerifyChannel:
    """The verify worker's end, a bound ROUTER. The thread that makes it owns and closes it.

    Raises:
        UnsafeEndpoint: See `check_endpoint`.
        zmq.ZMQError: The endpoint cannot be bound.
    """

    def __init__(self, endpoint: str, keys: CurveKeys | None = None) -> None:
        check_endpoint(endpoint, keys is not None)
        _make_private_folder(endpoint)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        _set_common(self._socket, endpoint)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a lost peer is an error, not a drop
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a restarted peer takes its name over
        self._authenticator: ThreadAuthenticator | None = None
        if keys is not None:
            self._authenticator = ThreadAuthenticator(self._context)
            self._authenticator.start()
            # The domain in full: pyzmq's "*" does not match a socket that names one.
            self._authenticator.configure_curve(domain=ZAP_DOMAIN, location=keys.peers)
            self._socket.setsockopt_string(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
            self._socket.curve_server = True
            self._socket.curve_publickey = keys.public
            self._socket.curve_secretkey = keys.secret
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError:
            self.close()
            raise

    @property
    def endpoint(self) -> str:
        """Where it is bound; the port is filled in where it was a wildcard."""
        return self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def send(self, peer: PeerId, *messages: Message) -> bool:
        """As `VerifyChannel.send`."""
        return _try_send(self._socket, [peer, *encode(*messages)])

    def receive(self, timeout_ms: int) -> list[Received]:
        """As `VerifyChannel.receive`."""
        if not self._socket.poll(timeout_ms):
            return []
        arrivals = _drain(self._socket)
        return [one for frames in arrivals for one in read_frames(frames[0], frames[1:])]

    def close(self) -> None:
        """As `VerifyChannel.close`."""
        self._socket.close()
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.term()


class ZmqDraftChannel:
    """The draft worker's end, a DEALER connected to one verify worker under a name new each boot.

    Poll `socket` for messages and `monitor` for a broken connection.

    Args:
        context: The draft worker's ZeroMQ context; not closed here.
        endpoint: Where the verify worker is bound.
        keys: CURVE keys, needed beyond loopback.

    Raises:
        UnsafeEndpoint: See `check_endpoint`; or the keys' `peers` cannot be used.
        zmq.ZMQError: libzmq does not take the endpoint.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        endpoint: str,
        keys: CurveKeys | None = None,
    ) -> None:
        check_endpoint(endpoint, keys is not None)
        server_key = load_server_key(keys.peers) if keys is not None else b""
        self.socket = context.socket(zmq.DEALER)
        _set_common(self.socket, endpoint)
        # A first byte of 0 is libzmq's own; a new name each boot can never meet its old self.
        self.socket.setsockopt(zmq.ROUTING_ID, b"\x01" + os.urandom(ROUTING_ID_BYTES))
        self.socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
        if keys is not None:
            self.socket.curve_publickey = keys.public
            self.socket.curve_secretkey = keys.secret
            self.socket.curve_serverkey = server_key
        self.monitor = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            self.socket.connect(endpoint)
        except zmq.ZMQError:
            self.close()
            raise

    def send(self, *messages: Message) -> bool:
        """As `DraftChannel.send`."""
        return _try_send(self.socket, encode(*messages))

    def receive(self) -> list[Received]:
        """As `DraftChannel.receive`."""
        return [one for frames in _drain(self.socket) for one in read_frames(b"", frames)]

    def was_cut(self) -> bool:
        """As `DraftChannel.was_cut`: the peer died, or its pings stayed away."""
        return bool(_drain(self.monitor))

    def close(self) -> None:
        """As `DraftChannel.close`."""
        self.socket.disable_monitor()
        self.monitor.close()
        self.socket.close()


def _is_private(status: os.stat_result) -> bool:
    """True for a file that its owner alone can read, or root's that our group may read too.

    The latter is how Kubernetes and systemd hand a secret to a process that is not root.
    """
    allowed = stat.S_IRGRP if status.st_uid == 0 else 0
    return not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) & ~allowed


def _set_common(socket: "zmq.Socket[bytes]", endpoint: str) -> None:
    socket.setsockopt(zmq.IPV6, int("[" in endpoint))
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
    socket.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
    socket.setsockopt(zmq.RCVHWM, HIGH_WATER_MARK)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_INTERVAL_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TTL, HEARTBEAT_TIMEOUT_MS)


def _try_send(socket: "zmq.Socket[bytes]", frames: Sequence[bytes]) -> bool:
    try:
        socket.send_multipart(frames, flags=zmq.DONTWAIT)
    except zmq.ZMQError as error:
        if error.errno in (zmq.EAGAIN, zmq.EHOSTUNREACH):
            return False
        raise
    return True


def _drain(socket: "zmq.Socket[bytes]") -> list[list[bytes]]:
    drained: list[list[bytes]] = []
    while len(drained) < MAX_DRAINED:
        try:
            drained.append(socket.recv_multipart(flags=zmq.DONTWAIT))
        except zmq.Again:
            break
    return drained


def _make_private_folder(endpoint: str) -> None:
    if endpoint.startswith("ipc://") and os.name == "posix":
        folder = Path(endpoint.removeprefix("ipc://")).parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UnsafeEndpoint(f"{folder} is open to others; an ipc endpoint needs a 0700 folder")
