"""Where a position is: encodings of inputs, rotations of queries and keys, biases of scores."""
