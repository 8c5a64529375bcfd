"""The part of a draft worker that runs a head; with it, and only then, torch is imported."""
