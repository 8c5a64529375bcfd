"""Commands over the files of draft heads: `outrider convert` and `outrider inspect`."""
