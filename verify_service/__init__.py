"""The verify worker: runs the target over candidate trees, decides tokens, keeps the KV cache."""
