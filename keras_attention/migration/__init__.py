"""Layers and weights of other packages, turned into layers of this one, and back."""

import keras  # noqa: F401  # first: its import registers all layers, and none of them may be half imported then
