"""Files that are made from others are as they would be made now."""

from pathlib import Path

import pytest

from tests.contract.generated.files import FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_file_is_fresh(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == FILES[path](), "stale; run `make generated`"
