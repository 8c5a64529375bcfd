"""The verify worker: runs the target over candidate trees, decides tokens, keeps the KV cache."""

import os

# Read by OpenMP when torch is imported. Threads that spin while they wait starve the other two
# processes of a small machine: measured there, a forward pass of 110 ms took 5 s.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
