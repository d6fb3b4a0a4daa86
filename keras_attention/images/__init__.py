"""Attention for images: windows, patches and gates."""

import keras  # noqa: F401  # first: its import registers all layers, and none of them may be half imported then
