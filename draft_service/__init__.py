"""The draft worker: guesses candidate trees and has them verified. Owns no truth; replaceable."""

import os

# Read by OpenMP when torch is imported, which a head or a draft model brings. As for the verify
# worker: threads that spin for long while they wait starve the other processes of a small machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "2000")
# Kernels that oneDNN, and torch's layer above it, keep for sizes of a batch: 1,024 unless told
# otherwise. Over 2,000 prompts a head made the worker grow by 700 MiB with so many, by 45 with
# these, and took as long.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
os.environ.setdefault("LRU_CACHE_CAPACITY", "16")
