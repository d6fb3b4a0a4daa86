"""Mutated .tflite and .keras files through `inspect`, `check` and `verify`."""
