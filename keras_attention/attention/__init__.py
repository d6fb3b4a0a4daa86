"""Attention over one sequence or between two: the scores of all pairs of positions."""

import keras  # noqa: F401  # first: its import registers all layers, and none of them may be half imported then
