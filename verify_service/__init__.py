"""The verify worker: runs the target over candidate trees, decides tokens, keeps the KV cache."""

import os

# Read when torch is imported. Threads that spin while they wait starve the other two processes of a
# small machine: measured there, a forward pass of 110 ms took 5 s. Large pages spare a pass over all
# weights most of its address translation.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
