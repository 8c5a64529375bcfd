"""Measures a served model from outside: is it exact, and how fast is it."""
