"""The same graph with FULLY_CONNECTED written as a convolution, to compare tflite-micro with."""

from __future__ import annotations

from keras_attention.tflite import file_structure
from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer import convolutions


def with_convolutions(content: bytes) -> tuple[bytes, int]:
    """Return the file with each integer FULLY_CONNECTED of stored weights as CONV_2D, and their number.

    The tensors of the file keep their numbers.
    """
    graph = file_structure.read(content)
    count = convolutions.replace_products(graph)
    return (graphs.write_graph(graph) if count else content), count
