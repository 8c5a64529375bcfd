"""Settings of the gateway: defaults, ranges, and the name of what is wrong."""

from pathlib import Path

import pytest

from gateway.settings import GatewaySettings
from outrider.api_keys import key_line, make_key
from outrider.protocol.errors import Unauthenticated
from outrider.settings import BadSettings, load_settings


def load(*flags: str, **environ: str) -> GatewaySettings:
    variables = {f"OUTRIDER_GATEWAY_{name}": value for name, value in environ.items()}
    return load_settings(GatewaySettings, ["--model", "m", *flags], variables)


def test_the_defaults_are_those_of_the_contract() -> None:
    settings = load()
    assert (settings.grpc_host, settings.grpc_port) == ("127.0.0.1", 50051)
    assert (settings.http_host, settings.http_port) == ("127.0.0.1", 8080)
    assert settings.draft_addresses == "127.0.0.1:50052"
    assert settings.reflection
    assert settings.max_request_bytes == 4 * 1024 * 1024
    assert settings.max_deadline_s == 600


def test_flags_and_environment_are_read() -> None:
    settings = load("--http-port", "9000", REFLECTION="false", LOG_LEVEL="DEBUG")
    assert (settings.http_port, settings.reflection, settings.log_level) == (9000, False, "debug")


@pytest.mark.parametrize("address", ["localhost:1", "[::1]:50052", "draft-0.draft.svc:50052"])
def test_a_draft_worker_may_be_anywhere(address: str) -> None:
    assert load("--draft-addresses", address).draft_addresses == address


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--grpc-host", "0.0.0.0"),
        ("--http-host", "10.0.0.1"),
        ("--grpc-port", "0"),
        ("--http-port", "70000"),
        ("--draft-addresses", "127.0.0.1"),
        ("--draft-addresses", "host:0"),
        ("--draft-addresses", "host:99999"),
        ("--max-running-requests", "0"),
        ("--max-queued-requests", "-1"),
        ("--default-max-new-tokens", "0"),
        ("--max-deadline-s", "0"),
        ("--max-request-bytes", "1"),
        ("--reflection", "perhaps"),
        ("--log-level", "loud"),
    ],
)
def test_a_bad_value_names_its_setting(flag: str, value: str) -> None:
    with pytest.raises(BadSettings, match=flag):
        load(flag, value)


def test_the_model_is_needed() -> None:
    with pytest.raises(BadSettings, match="--model"):
        load_settings(GatewaySettings, [], {})


def test_beyond_this_machine_somebody_must_guard(tmp_path: Path) -> None:
    line = key_line("alice", make_key())
    (tmp_path / "keys").write_text(line + "\n")
    settings = load("--http-host", "0.0.0.0", "--api-keys", str(tmp_path / "keys"))
    assert settings.http_host == "0.0.0.0"
    with pytest.raises(Unauthenticated):
        settings.access().tenant_of("")
    assert load("--grpc-host", "10.0.0.1", "--open-to-all", "true").access().tenant_of("") == ""


def test_a_file_of_keys_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("alice:secret\n")
    for name, words in (("keys", "line 1"), ("missing", "No such file")):
        with pytest.raises(BadSettings, match=f"--api-keys .*{name}: .*{words}"):
            load("--api-keys", str(tmp_path / name)).access()
