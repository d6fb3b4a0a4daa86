"""Attention for images, and for sequences as images of one row: which channels count, and which places."""

import keras  # noqa: F401  # first: its import registers all layers, and none of them may be half imported then
