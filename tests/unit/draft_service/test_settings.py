"""Settings of a draft worker: what is beyond this machine, and behind which keys."""

from pathlib import Path

import pytest

from draft_service.settings import DraftSettings
from outrider.discovery import DnsName
from outrider.settings import BadSettings, load_settings
from outrider.tls import TlsFiles

TLS = ("--tls-cert", "c.pem", "--tls-key", "k.pem", "--tls-client-ca", "ca.pem")
CURVE = ("--curve-key", "k", "--curve-peers", "p")


def load(*flags: str) -> DraftSettings:
    return load_settings(DraftSettings, flags, {})


def test_everything_stays_on_this_machine_by_default() -> None:
    settings = load()
    assert (settings.grpc_host, settings.metrics_host) == ("127.0.0.1", "127.0.0.1")
    assert (settings.health_host, settings.health_port) == ("127.0.0.1", 0)
    assert settings.tls_files() is None
    assert settings.verify_sources == ["tcp://127.0.0.1:50053"]


def test_beyond_it_gateways_are_known_by_their_certificates() -> None:
    settings = load("--grpc-host", "0.0.0.0", *TLS)
    assert settings.tls_files() == TlsFiles(Path("c.pem"), Path("k.pem"), Path("ca.pem"))
    assert load(*TLS).tls_files() is not None


@pytest.mark.parametrize("flags", [(), TLS[:2], TLS[:4], TLS[2:]])
def test_without_all_three_files_the_start_stops(flags: tuple[str, ...]) -> None:
    with pytest.raises(BadSettings, match="--tls-cert, --tls-key and --tls-client-ca"):
        load("--grpc-host", "0.0.0.0", *flags)
    if flags:
        with pytest.raises(BadSettings, match="set all three or none"):
            load(*flags)


def test_verify_workers_are_at_endpoints_or_behind_names() -> None:
    text = "ipc:///x, dns:verify.svc:50053 ,tcp://[::1]:5"
    assert load("--verify-endpoints", text, *CURVE).verify_sources == [
        "ipc:///x",
        DnsName("verify.svc", 50053, "tcp://"),
        "tcp://[::1]:5",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (",", "--verify-endpoints: names no verify worker"),
        ("dns:verify.svc", "--verify-endpoints: 'dns:verify.svc' must be dns:host:port"),
        ("dns:verify.svc:0", "with a port from 1 to 65535"),
        ("verify.svc:5", "must start with ipc:// or tcp://"),
        ("dns:verify.svc:5", "tcp://verify.svc:5 .* no CURVE keys are set; set the curve_key"),
        ("tcp://10.0.0.1:5", "no CURVE keys are set"),
    ],
)
def test_what_is_no_verify_worker_or_a_strangers_is_refused(text: str, words: str) -> None:
    with pytest.raises(BadSettings, match=words):
        load("--verify-endpoints", text)


@pytest.mark.parametrize("name", ["dns:localhost:5", "dns:[::1]:5", "dns:127.0.0.1:5"])
def test_a_name_of_this_machine_needs_no_keys(name: str) -> None:
    assert load("--verify-endpoints", name).verify_sources


def test_metrics_beyond_this_machine_are_behind_a_token() -> None:
    with pytest.raises(BadSettings, match="--metrics-token-file"):
        load("--metrics-host", "0.0.0.0")
    assert load("--metrics-host", "0.0.0.0", "--metrics-port", "0").metrics_port == 0
    settings = load("--metrics-host", "0.0.0.0", "--metrics-token-file", "token")
    assert settings.metrics_token_file == Path("token")
