"""What `outrider check` makes of its flags."""

from pathlib import Path

import pytest

from outrider.going_live.settings import CheckOptions, parse_options
from outrider.settings import BadSettings


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTRIDER_API_KEY", raising=False)


def options(*flags: str) -> CheckOptions:
    return parse_options(flags, "")[0]


@pytest.mark.parametrize(
    ("target", "address", "url", "is_public"),
    [
        ("127.0.0.1", "127.0.0.1:50051", "http://127.0.0.1:8080", False),
        ("localhost:1234", "localhost:1234", "http://localhost:8080", False),
        ("host.example", "host.example:50051", "http://host.example:8080", True),
        ("[::1]:5", "[::1]:5", "http://[::1]:8080", False),
        ("[2001:db8::1]", "[2001:db8::1]:50051", "http://[2001:db8::1]:8080", True),
    ],
)
def test_a_port_that_is_not_given_is_the_usual_one(
    target: str, address: str, url: str, is_public: bool
) -> None:
    found = options("--target", target)
    assert (found.address, found.http_url, found.is_public) == (address, url, is_public)
    assert found.is_http_guess


def test_http_may_be_named_or_left_out() -> None:
    assert not options("--http", "https://h").is_http_guess
    assert options("--http", "none").http_url == ""


def test_tls_makes_the_guess_https_and_needs_a_root() -> None:
    assert options("--tls-ca", "ca.pem").http_url.startswith("https://")
    with pytest.raises(BadSettings, match="--tls-ca"):
        options("--tls-cert", "a", "--tls-key", "b")


def test_pages_are_addresses_or_ports_and_the_token_is_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    pages = "h:9101,https://h/own/page"
    found = options("--metrics", pages, "--metrics-token-file", str(token))
    assert found.pages == ("http://h:9101/metrics", "https://h/own/page")
    assert found.metrics_token == "secret"
    with pytest.raises(BadSettings, match="--metrics-token-file"):
        options("--metrics-token-file", str(tmp_path / "none"))


@pytest.mark.parametrize("flags", [["--rate", "0"], ["--seconds", "inf"], ["--prompts", "0"]])
def test_figures_that_are_none_are_refused(flags: list[str]) -> None:
    with pytest.raises(SystemExit):
        options(*flags)
