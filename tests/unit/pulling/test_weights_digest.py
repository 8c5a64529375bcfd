import json
from pathlib import Path

import pytest

from outrider.pulling.weights_digest import weights_digest


def _write(path: Path, order: list[str], tensors: dict[str, bytes], extra: dict[str, str]) -> Path:
    header: dict[str, object] = {"__metadata__": extra} if extra else {}
    body = b""
    for name in order:
        data = tensors[name]
        header[name] = {
            "dtype": "U8",
            "shape": [len(data)],
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


def test_the_order_and_the_header_do_not_matter_but_every_bit_does(tmp_path: Path) -> None:
    tensors = {"a": b"123", "b": b"45"}
    one = weights_digest(_write(tmp_path / "1", ["a", "b"], tensors, {}))
    assert weights_digest(_write(tmp_path / "2", ["b", "a"], tensors, {"format": "pt"})) == one
    for other in ({"a": b"123", "b": b"44"}, {"a": b"1234", "b": b"5"}):
        assert weights_digest(_write(tmp_path / "3", ["a", "b"], other, {})) != one


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, (2).to_bytes(8, "little") + b"{"])
def test_another_file_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(ValueError, match="not a safetensors file"):
        weights_digest(tmp_path / "f")


def test_a_file_cut_inside_a_tensor_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "f", ["a"], {"a": b"123"}, {})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="ends inside a"):
        weights_digest(path)
