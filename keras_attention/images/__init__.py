"""Attention for images: gates of channels and places, windows, patches."""

import keras  # noqa: F401  # first: its import registers all layers, and none of them may be half imported then
