"""`outrider pull`: brings the embedded model into the user's cache, once. Torch only to convert."""
