"""Attention over memories: learned slots, given facts, several passes."""

import keras  # noqa: F401  # first: its import registers all layers, and none of them may be half imported then
