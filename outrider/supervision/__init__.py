"""`outrider up`: the three services on one machine, as children of one process. Never torch."""
