"""The ZeroMQ pair on real sockets: what libzmq's defaults would lose, confuse or let in."""

import os
import socket
import stat
import time
from pathlib import Path

import pytest
import zmq
from zmq.auth import create_certificates

from outrider.protocol import messages as m
from outrider.protocol.channel import Received
from outrider.protocol.features import MAX_TENSOR_BYTES, TensorType
from outrider.protocol.zmq_channel import (
    CurveKeys,
    UnsafeEndpoint,
    ZmqDraftChannel,
    ZmqVerifyChannel,
    check_endpoint,
    load_curve_keys,
    load_server_key,
)

HELLO = m.Hello(b"boot")
DEADLINE_S = 5.0


class Dialler:
    """Makes draft ends and raw sockets, and closes them."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._opened: list[ZmqDraftChannel | zmq.Socket[bytes]] = []

    def draft(self, endpoint: str, keys: CurveKeys | None = None) -> ZmqDraftChannel:
        channel = ZmqDraftChannel(self._context, endpoint, keys)
        self._opened.append(channel)
        return channel

    def dealer(self, endpoint: str, name: bytes = b"raw") -> "zmq.Socket[bytes]":
        dealer = self._context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.ROUTING_ID, name)
        dealer.connect(endpoint)
        self._opened.append(dealer)
        return dealer

    def close(self) -> None:
        for one in self._opened:
            if isinstance(one, ZmqDraftChannel) and one.socket.closed:
                continue  # the test has done it
            one.close()
        self._context.destroy(linger=0)


@pytest.fixture
def dial():
    dialler = Dialler()
    yield dialler
    dialler.close()


@pytest.fixture
def verify():
    channel = bind()
    yield channel
    channel.close()


def bind(keys=None) -> ZmqVerifyChannel:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return ZmqVerifyChannel(f"tcp://127.0.0.1:{port}", keys)


def arrived(verify: ZmqVerifyChannel, count: int = 1) -> list[Received]:
    """Waits for `count` arrivals, or less where the deadline passes."""
    taken: list[Received] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(taken) < count and time.monotonic() < deadline:
        taken += verify.receive(50)
    return taken


def answer(draft: ZmqDraftChannel) -> list[Received]:
    draft.socket.poll(int(DEADLINE_S * 1000))
    return draft.receive()


def test_there_and_back(verify, dial):
    draft = dial.draft(verify.endpoint)
    assert draft.send(HELLO)
    (received,) = arrived(verify)
    assert received.message == HELLO
    assert verify.send(received.peer, m.GoAway("bye"))
    assert [one.message for one in answer(draft)] == [m.GoAway("bye")]


def test_a_broken_connection_is_seen_at_once_and_told_once(dial):
    verify = bind()
    draft = dial.draft(verify.endpoint)
    draft.send(HELLO)
    arrived(verify)
    assert not draft.was_cut()
    verify.close()
    assert draft.monitor.poll(int(DEADLINE_S * 1000))
    assert draft.was_cut()
    assert not draft.was_cut()


def test_the_largest_tensors_arrive_with_their_verdict(verify, dial):
    draft = dial.draft(verify.endpoint)
    draft.send(HELLO)
    (received,) = arrived(verify)
    tensor = bytes(range(256)) * (MAX_TENSOR_BYTES // 256)
    rows = m.FeatureRows(bytes(16), 0, 0, 256, 4096, TensorType.FLOAT32, tensor)
    verdict = m.Verdict(bytes(16), 0, 0, (), 5)
    assert verify.send(received.peer, rows, rows, verdict)
    assert [one.message for one in answer(draft)] == [rows, rows, verdict]


def test_a_restarted_draft_worker_is_reached_and_the_dead_one_is_not(verify, dial):
    """B45: a new name each boot; sending to the old one is an error instead of a silent drop."""
    first = dial.draft(verify.endpoint)
    first.send(HELLO)
    (old,) = arrived(verify)
    first.close()
    second = dial.draft(verify.endpoint)
    second.send(HELLO)
    (new,) = arrived(verify)
    assert new.peer != old.peer
    assert verify.send(new.peer, m.GoAway("new"))
    assert [one.message for one in answer(second)] == [m.GoAway("new")]
    deadline = time.monotonic() + DEADLINE_S
    while verify.send(old.peer, m.GoAway("old")) and time.monotonic() < deadline:
        verify.receive(20)
    assert not verify.send(old.peer, m.GoAway("old"))


def test_a_peer_that_never_said_anything_cannot_be_sent_to(verify):
    assert not verify.send(b"nobody", m.GoAway("?"))


def test_a_peer_with_a_taken_name_takes_it_over(verify, dial):
    """Without ROUTER_HANDOVER the second one would be ignored for ever."""
    sockets = []
    for text in (b"one", b"two"):
        dealer = dial.dealer(verify.endpoint, b"same-name")
        dealer.send_multipart([text])
        assert len(arrived(verify)) == 1
        sockets.append(dealer)
    assert verify.send(b"same-name", m.GoAway("hi"))
    assert sockets[1].poll(int(DEADLINE_S * 1000))


def test_a_verify_worker_may_be_bound_after_the_draft_worker_connects(dial):
    early = bind()
    endpoint = early.endpoint
    early.close()
    draft = dial.draft(endpoint)
    draft.send(HELLO)
    late = ZmqVerifyChannel(endpoint)
    assert [one.message for one in arrived(late)] == [HELLO]
    late.close()


def test_sending_to_nobody_ends_in_a_refusal_and_never_blocks(dial):
    draft = dial.draft("tcp://127.0.0.1:9")
    results = [draft.send(HELLO) for _ in range(5000)]
    assert results[0] is True
    assert results[-1] is False, "the queue is bounded"


@pytest.mark.parametrize(
    "frames", [[b""], [b"garbage"], [b"x"] * 20, [b"ORDR\x01", b"more"]], ids=str
)
def test_garbage_is_reported_and_the_channel_lives(verify, dial, frames):
    dealer = dial.dealer(verify.endpoint)
    dealer.send_multipart(frames)
    (received,) = arrived(verify)
    assert received.message is None
    assert received.problem
    draft = dial.draft(verify.endpoint)
    draft.send(HELLO)
    assert [one.message for one in arrived(verify)] == [HELLO]


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\xff\x00\x00", bytes(range(1, 250)) * 2],
    ids=["http", "tls", "half greeting", "noise"],
)
def test_raw_tcp_garbage_does_not_reach_anybody(verify, dial, data):
    host, port = verify.endpoint.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(data)
        draft = dial.draft(verify.endpoint)
        draft.send(HELLO)
        # Some bytes pass for a frame of the oldest ZMTP; they then end at the codec.
        messages: list[m.Message] = []
        while not messages:
            messages = [one.message for one in arrived(verify) if one.message is not None]
        assert messages == [HELLO]


def test_an_oversized_frame_costs_its_sender_the_connection(verify, dial):
    dealer = dial.dealer(verify.endpoint)
    dealer.send(b"x" * (5 * 2**20))
    draft = dial.draft(verify.endpoint)
    draft.send(HELLO)
    assert [one.message for one in arrived(verify)] == [HELLO]


def test_ipc_makes_a_private_folder_and_refuses_an_open_one(tmp_path, dial):
    folder = tmp_path / "run"
    channel = ZmqVerifyChannel(f"ipc://{folder}/verify.sock")
    assert folder.stat().st_mode & 0o777 == 0o700
    draft = dial.draft(channel.endpoint)
    draft.send(HELLO)
    assert len(arrived(channel)) == 1
    channel.close()
    folder.chmod(0o755)
    with pytest.raises(UnsafeEndpoint, match="0700"):
        ZmqVerifyChannel(f"ipc://{folder}/verify.sock")


# ---- beyond loopback


@pytest.mark.parametrize(
    "endpoint",
    ["tcp://0.0.0.0:5555", "tcp://10.0.0.1:5555", "tcp://*:5555", "tcp://example.org:5555"],
)
def test_strangers_endpoints_need_keys(endpoint):
    with pytest.raises(UnsafeEndpoint, match="CURVE"):
        check_endpoint(endpoint, has_keys=False)
    check_endpoint(endpoint, has_keys=True)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:1",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:99999",
        "ipc://",
        "ipc:///" + "x" * 108,
        "",
        "tcp://:5",
        "tcp://127.0.0.1:5/x",
    ],
)
def test_malformed_endpoints(endpoint):
    with pytest.raises(UnsafeEndpoint):
        check_endpoint(endpoint, has_keys=True)


@pytest.fixture
def certificates(tmp_path: Path):
    """Keys of verify, of a draft worker that may connect, and of a stranger."""
    for name in ("verify", "draft", "stranger"):
        create_certificates(tmp_path, name)
        (tmp_path / f"{name}.key_secret").chmod(0o600)
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (tmp_path / "draft.key").rename(allowed / "draft.key")
    return tmp_path


def test_curve_lets_in_known_keys_only(certificates, dial):
    verify = bind(load_curve_keys(certificates / "verify.key_secret", certificates / "allowed"))
    public = certificates / "verify.key"
    stranger_keys = load_curve_keys(certificates / "stranger.key_secret", public)
    stranger = dial.draft(verify.endpoint, stranger_keys)
    plain = dial.draft(verify.endpoint)
    known_keys = load_curve_keys(certificates / "draft.key_secret", public)
    known = dial.draft(verify.endpoint, known_keys)
    stranger.send(m.Hello(b"stranger"))
    plain.send(m.Hello(b"plain"))
    known.send(m.Hello(b"known"))
    (received,) = arrived(verify)
    assert received.message == m.Hello(b"known")
    assert verify.receive(300) == [], "nobody else gets in"
    verify.send(received.peer, m.GoAway("hi"))
    assert [one.message for one in answer(known)] == [m.GoAway("hi")]
    verify.close()


def test_key_files_must_be_secret_and_complete(certificates):
    secret = certificates / "verify.key_secret"
    with pytest.raises(UnsafeEndpoint, match="no secret key"):
        load_curve_keys(certificates / "verify.key", certificates)
    with pytest.raises(UnsafeEndpoint, match="do not exist"):
        load_curve_keys(secret, certificates / "nowhere")
    with pytest.raises(UnsafeEndpoint, match="missing"):
        load_curve_keys(certificates / "missing", certificates)
    secret.chmod(0o644)
    with pytest.raises(UnsafeEndpoint, match="chmod 600"):
        load_curve_keys(secret, certificates)


def test_a_draft_worker_needs_the_one_key_of_its_verify_workers(certificates):
    assert len(load_server_key(certificates / "verify.key")) == 40
    for peers in (certificates / "allowed", certificates / "missing"):
        with pytest.raises(UnsafeEndpoint, match="must be the file of the verify workers'"):
            load_server_key(peers)


def test_the_ends_meet_over_ipv6(dial):
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as bound:
        endpoint = f"tcp://[::1]:{bound.getsockname()[1]}"
    verify = ZmqVerifyChannel(endpoint)
    draft = dial.draft(endpoint)
    draft.send(HELLO)
    assert [one.message for one in arrived(verify)] == [HELLO]
    verify.close()


@pytest.mark.parametrize(
    ("owner", "mode", "is_allowed"),
    [
        (0, 0o440, True),  # a Secret of Kubernetes, or a credential of systemd
        (0, 0o460, False),
        (0, 0o444, False),
        (1000, 0o400, True),
        (1000, 0o440, False),
    ],
)
def test_a_key_of_root_may_be_read_by_our_group(certificates, monkeypatch, owner, mode, is_allowed):
    status = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, 10001, 1, 0, 0, 0))
    monkeypatch.setattr(Path, "stat", lambda path, **_: status)
    secret = certificates / "verify.key_secret"
    if is_allowed:
        assert load_curve_keys(secret, certificates).secret is not None
        return
    with pytest.raises(UnsafeEndpoint, match="chmod 600"):
        load_curve_keys(secret, certificates)
