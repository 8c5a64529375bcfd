"""The public door: text, limits, admission and the journal of each stream. Never torch."""
