"""Attention over long sequences: fewer pairs of positions than all."""

import keras  # noqa: F401  # first: its import registers all layers, and none of them may be half imported then
