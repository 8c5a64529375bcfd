"""The part of a draft worker that runs a head or a draft model; torch comes with it alone."""
