"""Settings of all tests."""

import os

from hypothesis import settings

# Read when torch is imported: test processes share the cores, so waiting threads must sleep.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# The same examples in every run: a test that fails by chance teaches people to run it again.
settings.register_profile("deterministic", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("deterministic")
