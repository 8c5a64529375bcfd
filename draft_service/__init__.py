"""The draft worker: guesses candidate trees and has them verified. Owns no truth; replaceable."""

import os

# Read by OpenMP when torch is imported, which a head or a draft model brings. As for the verify
# worker: threads that spin for long while they wait starve the other processes of a small machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "2000")
