"""The processes that promise to run without torch import none of it, in a fresh interpreter."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["gateway.__main__", "draft_service.__main__", "outrider.cli", "outrider.client"]
)
def test_no_torch_is_imported(module: str) -> None:
    program = (
        f"import sys, {module}; "
        "print(sorted({'torch', 'transformers', 'accelerate'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
