"""The verify worker: runs the target over candidate trees, decides tokens, keeps the KV cache."""

import os

# Read by OpenMP when torch is imported. Threads that spin for long while they wait starve the other
# two processes of a small machine (a forward pass of 0.1 s took 5 s); threads that sleep at once
# are woken some 200 times a pass (60 ms against 30). Libgomp counts turns: 2,000 are about 50 us.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "2000")
# Read by oneDNN. It keeps a kernel of some 100 KiB for each size of a batch and shape of a weight,
# 1,024 of them unless told otherwise. These are enough for the sizes that 16 streams have.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
# Read by torch's layer above it, which keeps as many again; that takes memory and saves no time.
os.environ.setdefault("LRU_CACHE_CAPACITY", "16")
