"""The commands of `keras-attention`, one a file; `command_line.py` gathers them."""
