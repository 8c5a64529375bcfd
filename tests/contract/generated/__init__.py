"""Files that are made from others; `python -m tests.contract.generated` writes them anew."""
