"""Writes every generated file anew: `python -m tests.contract.generated`."""

from tests.contract.generated.files import FILES

for path, make in FILES.items():
    path.write_text(make(), encoding="utf-8")
    print(path)
