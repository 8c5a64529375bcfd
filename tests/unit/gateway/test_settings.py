"""Settings of the gateway: defaults, ranges, and the name of what is wrong."""

from pathlib import Path

import pytest

from gateway.draft_tls import DraftTlsFiles
from gateway.settings import GatewaySettings
from outrider.api_keys import make_key
from outrider.key_file import key_line
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
        ("--max-queued-bytes", "-1"),
        ("--max-messages", "0"),
        ("--max-prompt-chars", "0"),
        ("--read-timeout-s", "0"),
        ("--key-requests-per-minute", "-1"),
        ("--address-tokens-per-minute", "many"),
        ("--probe-port", "65536"),
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


KEY_LINE = key_line("alice", make_key())


@pytest.mark.parametrize(
    ("flags", "is_warned"),
    [
        (["--api-keys", "keys"], True),
        (["--api-key-lines", KEY_LINE], True),
        (["--open-to-all", "true"], True),
        (["--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "ca"], False),
        (["--tls-cert", "c", "--tls-key", "k", "--api-keys", "keys"], False),
    ],
    ids=("keys", "lines", "open", "mtls", "both"),
)
def test_beyond_this_machine_somebody_must_guard(flags: list[str], is_warned: bool) -> None:
    for host in ("--http-host", "--grpc-host"):
        assert load(host, "0.0.0.0", *flags).warnings != [] or not is_warned
        assert load(host, "127.0.0.1", *flags).warnings == []
    with pytest.raises(BadSettings, match="name --api-keys or --tls-client-ca"):
        load("--grpc-host", "0.0.0.0", "--tls-cert", "c", "--tls-key", "k")


def test_a_warning_says_what_can_be_read_on_the_way() -> None:
    (with_keys,) = load("--http-host", "0.0.0.0", "--api-key-lines", KEY_LINE).warnings
    assert "--http-host 0.0.0.0 is beyond this machine and there is no TLS" in with_keys
    assert "reads keys, prompts and answers" in with_keys


def test_probes_from_elsewhere_read_metrics_with_a_token_only(tmp_path: Path) -> None:
    elsewhere = ("--probe-host", "0.0.0.0", "--probe-port", "8081")
    assert load("--probe-host", "0.0.0.0").warnings == []  # there is no such listener
    assert load("--probe-port", "8081").probe_readers() is None, "everybody on this machine"
    closed = load(*elsewhere)
    (warning,) = closed.warnings
    assert warning.startswith("--probe-host 0.0.0.0 is beyond this machine")
    assert "--metrics-token-file" in warning
    readers = closed.probe_readers()
    assert readers is not None
    assert not readers("")
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    guarded = load(*elsewhere, "--metrics-token-file", str(file))
    assert guarded.warnings == []
    readers = guarded.probe_readers()
    assert readers is not None
    assert readers("Bearer 0123456789abcdef")
    file.write_text("short")
    with pytest.raises(BadSettings, match=r"--metrics-token-file .*: must hold one token"):
        guarded.probe_readers()


def test_draft_workers_elsewhere_without_tls_are_warned_of() -> None:
    tls = ("--draft-tls-ca", "ca", "--draft-tls-cert", "c", "--draft-tls-key", "k")
    for here in ("127.0.0.1:1,[::1]:2", "dns:localhost:3"):
        assert load("--draft-addresses", here).warnings == []
    for elsewhere in ("127.0.0.1:1,10.0.0.1:1", "dns:draft.svc:1", "[fd00::1]:1"):
        (warning,) = load("--draft-addresses", elsewhere).warnings
        assert "there is no TLS to them" in warning
        assert load("--draft-addresses", elsewhere, *tls).warnings == []


def test_certificates_towards_draft_workers_go_together() -> None:
    assert load().draft_tls_files() is None
    parts = ["--draft-tls-ca", "ca", "--draft-tls-cert", "c", "--draft-tls-key", "k"]
    files = load(*parts).draft_tls_files()
    assert files == DraftTlsFiles(Path("ca"), Path("c"), Path("k"), "draft")
    named = load(*parts, "--draft-tls-name", "draft.svc").draft_tls_files()
    assert named is not None
    assert named.name == "draft.svc"
    for some in (parts[:2], parts[2:], parts[:2] + parts[4:]):
        with pytest.raises(BadSettings, match="set all three or none"):
            load(*some)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--tls-cert", "c"], "--tls-cert and --tls-key go together"),
        (["--tls-key", "k"], "--tls-cert and --tls-key go together"),
        (["--tls-client-ca", "c"], "--tls-client-ca needs --tls-cert"),
        (["--api-keys", "a", "--api-key-lines", KEY_LINE], "two sources; set one"),
        (["--trusted-proxies", "10.0.0.1/8"], "--trusted-proxies.*host bits"),
        (["--trusted-proxies", "proxy"], "--trusted-proxies"),
    ],
    ids=range(6),
)
def test_settings_that_contradict_one_another(flags: list[str], words: str) -> None:
    with pytest.raises(BadSettings, match=words):
        load(*flags)


def test_keys_come_from_a_file_or_from_lines(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(KEY_LINE + "\n")
    (key,) = load("--api-keys", str(tmp_path / "keys")).read_keys()
    assert key.name == "alice"
    lines = KEY_LINE + ";" + key_line("bob", make_key())
    assert [key.name for key in load(API_KEY_LINES=lines).read_keys()] == ["alice", "bob"]
    assert load().read_keys() == []


def test_keys_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("alice:secret\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, words in (
        ("keys", "line 1"),
        ("missing", "No such file"),
        ("binary", "is not text in UTF-8"),
    ):
        with pytest.raises(BadSettings, match=f"--api-keys .*{name}: .*{words}") as caught:
            load("--api-keys", str(tmp_path / name)).read_keys()
        assert "secret" not in str(caught.value)
    with pytest.raises(BadSettings, match="--api-key-lines: line 2"):
        load("--api-key-lines", KEY_LINE + ";" + KEY_LINE).read_keys()


def test_a_total_needs_a_file_that_remembers_it(tmp_path: Path) -> None:
    line = key_line("alice", make_key(), ["tokens_total=5"])
    with pytest.raises(BadSettings, match="alice has tokens_total, which needs --usage-file"):
        load("--api-key-lines", line).read_keys()
    usage = tmp_path / "usage.json"
    settings = load("--api-key-lines", line, "--usage-file", str(usage))
    assert len(settings.read_keys()) == 1
    quotas, file = settings.open_usage()
    assert (quotas.usage, file is not None, usage.exists()) == ({}, True, True)
    usage.write_text("nonsense")
    with pytest.raises(BadSettings, match=r"usage\.json: is no record of usage"):
        settings.open_usage()
