from pathlib import Path

import pytest

from outrider.embedded_model import EMBEDDED_HEAD, embedded_model_folder
from outrider.settings import BadSettings
from outrider.supervision.child import describe_status
from outrider.supervision.service_plan import ServiceOptions
from outrider.supervision.up import Addresses, head_folder, ready_text, run_up


def test_the_ready_line_has_addresses_and_commands_that_work() -> None:
    text = ready_text(Addresses("127.0.0.1", 50051, "127.0.0.1", 8080), "Tiny", 2.04, "outrider")
    first, generate, curl = text.split("\n")
    assert (
        first
        == "Ready in 2.0 s: Tiny at gRPC 127.0.0.1:50051 and http://127.0.0.1:8080 (Ctrl-C stops)"
    )
    assert generate == '  outrider generate "Why is the sky blue?"'
    assert curl == (
        "  curl -X POST http://127.0.0.1:8080/generate -H 'Content-Type: application/json'"
        """ -d '{"prompt": "Hello, "}'"""
    )


def test_another_port_is_part_of_the_command() -> None:
    text = ready_text(
        Addresses("127.0.0.1", 7000, "127.0.0.1", 7001), "Tiny", 1, ".venv/bin/outrider"
    )
    assert '  .venv/bin/outrider generate --address 127.0.0.1:7000 "Why' in text


def test_with_tls_the_commands_say_whom_to_trust_and_health_is_asked_in_plain() -> None:
    addresses = Addresses("127.0.0.1", 50051, "0.0.0.0", 8443, "127.0.0.1", 8081)
    assert addresses.health == ("127.0.0.1", 8081)
    text = ready_text(addresses, "Tiny", 1, "outrider")
    assert "https://0.0.0.0:8443 " in text
    assert 'outrider generate --tls-ca ROOTS.pem "Why' in text
    assert "curl --cacert ROOTS.pem -X POST https://0.0.0.0:8443/generate" in text
    assert Addresses("127.0.0.1", 1, "127.0.0.1", 2).health == ("127.0.0.1", 2)


@pytest.mark.parametrize(
    ("grpc_port", "http_port", "reason"),
    [
        (0, 8080, r"--grpc-port: must be from 1 to 65535 \(got 0\)"),
        (50051, 70000, r"--http-port: must be from 1 to 65535 \(got 70000\)"),
    ],
)
def test_a_port_out_of_range_stops_before_anything_is_loaded(
    grpc_port: int, http_port: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.supervision.up.is_free", lambda host, port: True)
    with pytest.raises(BadSettings, match=reason):
        run_up("embedded", "auto", "", ServiceOptions(Path(), grpc_port, http_port), False, {})


def test_a_taken_public_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.supervision.up.is_free", lambda host, port: port != 8080)
    with pytest.raises(BadSettings, match=r"--http-port 8080: in use on 127\.0\.0\.1"):
        run_up("embedded", "auto", "", ServiceOptions(Path()), False, {})


def test_one_port_cannot_be_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.supervision.up.is_free", lambda host, port: True)
    with pytest.raises(BadSettings, match="are both 7000"):
        run_up("embedded", "auto", "", ServiceOptions(Path(), 7000, 7000), False, {})


def test_a_missing_model_without_pull_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("outrider.supervision.up.is_free", lambda host, port: True)
    environ = {"OUTRIDER_CACHE": str(tmp_path)}
    with pytest.raises(BadSettings, match="run `outrider pull`"):
        run_up("embedded", "auto", "", ServiceOptions(Path()), False, environ)


def test_a_draft_model_that_is_not_there_is_named_by_its_flag(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("outrider.supervision.up.is_free", lambda host, port: True)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadSettings, match="--draft-model /no/such/folder: no such folder"):
        run_up(str(tmp_path), "none", "/no/such/folder", ServiceOptions(Path()), False, {})


def test_a_status_in_words() -> None:
    assert describe_status(3) == "ended with status 3"
    assert describe_status(-9) == "was ended by SIGKILL"
    assert describe_status(-250) == "was ended by signal 250"


def test_the_embedded_model_comes_with_its_head_and_others_come_without(tmp_path: Path) -> None:
    environ = {"OUTRIDER_CACHE": str(tmp_path)}
    embedded = embedded_model_folder(environ)
    assert head_folder("auto", embedded, environ) == EMBEDDED_HEAD
    assert head_folder("none", embedded, environ) is None
    assert head_folder("auto", tmp_path, environ) is None
    assert head_folder("auto", embedded, environ | {"OUTRIDER_DRAFT_HEAD": "/own"}) is None
    assert head_folder(str(tmp_path), embedded, environ) == tmp_path
    with pytest.raises(BadSettings, match="--head nowhere"):
        head_folder("nowhere", embedded, environ)
