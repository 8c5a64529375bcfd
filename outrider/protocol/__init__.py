"""What the processes agree on: trees, messages, sampling noise, sessions and channels. Never torch."""
