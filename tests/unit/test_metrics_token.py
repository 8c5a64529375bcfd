"""The token of whoever reads metrics, and files that hold none."""

from pathlib import Path

import pytest

from outrider.metrics_token import BadMetricsToken, MetricsToken

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("text", [TOKEN, f"{TOKEN}\n", f"  {TOKEN} \r\n", "x" * 1024])
def test_a_file_holds_one_token(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    token = MetricsToken.read(file)
    assert token.admits(f"Bearer {text.strip()}")
    assert token.admits(f"bearer  {text.strip()}")
    for other in ("", text.strip(), f"Bearer {text.strip()[:-1]}", "Bearer", "Bearer é"):
        assert not token.admits(other)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "No such file"),
        (b"", "16 to 1024 characters, not 0; `openssl rand -hex 32` makes one"),
        (b"fifteen-letters", "not 15"),
        (b"x" * 1025, "16 to 1024 characters, not 1025"),
        (b"two words, which is one too many", "without blanks"),
        (b"one\x07-with-a-bell-in-it", "printable ASCII"),
        ("a-word-with-an-umlaut-ü".encode(), "printable ASCII"),
        (b"\xff" * 20, "not text in UTF-8"),
    ],
)
def test_what_is_no_token_is_refused_and_not_quoted(
    tmp_path: Path, data: bytes | None, words: str
) -> None:
    file = tmp_path / "token"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(BadMetricsToken, match=words) as caught:
        MetricsToken.read(file)
    assert "fifteen" not in str(caught.value)
