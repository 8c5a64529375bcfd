"""A supervised process notices the end of its standard input."""

import os
import sys
import threading
from collections.abc import Iterator

import pytest

from outrider.supervised import watch_parent


@pytest.fixture
def parents_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The write end of what stands for this process's standard input."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield write_end


def test_the_parents_end_calls_back_once(parents_end: int) -> None:
    lost = threading.Event()
    watch_parent(lost.set, {"OUTRIDER_SUPERVISED": "1"})
    os.write(parents_end, b"ignored")
    assert not lost.is_set()
    os.close(parents_end)
    assert lost.wait(5)


@pytest.mark.parametrize("environ", [{}, {"OUTRIDER_SUPERVISED": "0"}])
def test_others_are_not_watched(parents_end: int, environ: dict[str, str]) -> None:
    before = threading.active_count()
    watch_parent(pytest.fail, environ)
    assert threading.active_count() == before
    os.close(parents_end)
