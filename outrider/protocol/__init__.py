"""What the processes agree on: trees, messages, noise, sessions and channels. Never torch."""
