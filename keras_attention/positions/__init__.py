"""Where a position is: encodings of inputs, rotations of queries and keys, biases of scores."""

import keras  # noqa: F401  # first: its import registers all layers, and none of them may be half imported then
