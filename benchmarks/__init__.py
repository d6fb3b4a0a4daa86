"""Measurements side by side: `python -m benchmarks.NAME` from the root of the checkout."""
