"""Convolutions of few channels, such as the 7 x 7 one behind CBAM's maps, in forms that run fast.

XNNPACK multiplies eight channels and more at a time; with one or two it does little else than fetch them. On
a map that has no more places than the kernel, the convolution becomes one product with a matrix; on larger
ones, blocks of columns become channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs

FEW_CHANNELS = 4
"""Convolutions with more channels, read or written, stay."""
MOST_COLUMNS = 16
"""Columns of a block: more multiply by ever more zeros."""
LEAST_PRODUCTS = 2_000
"""Products below which the two views cost more than is gained."""


def widen(graph: Any) -> None:
    """Write narrow convolutions as matrices or with columns as channels; the same sums, in another order."""
    subgraph = graph.subgraphs[0]
    operators = []
    for operator in subgraph.operators:
        operators += (
            _as_matrix(graph, subgraph, operator) or _widened(graph, subgraph, operator) or [operator]
        )
    subgraph.operators = operators


def _is_narrow(graph: Any, subgraph: Any, operator: Any) -> bool:
    """Tell whether an operator is a convolution of few channels, one place after the other, with padding."""
    if graphs.operator_name(graph, operator) != "CONV_2D":
        return False
    options = operator.builtinOptions
    steps = (options.strideH, options.strideW, options.dilationHFactor, options.dilationWFactor)
    source, kernel = (subgraph.tensors[index] for index in operator.inputs[:2])
    if steps != (1, 1, 1, 1) or options.padding != schema.Padding.SAME or min(source.shape) < 1:
        return False
    if not graphs.is_constant(graph, kernel) or graphs.tensor_type(kernel) != "float32":
        return False
    return max(kernel.shape[0], kernel.shape[3]) <= FEW_CHANNELS


def _bias(graph: Any, subgraph: Any, operator: Any, repeats: int) -> list[np.ndarray]:
    """Return the bias of a convolution for so many places, or nothing where it has none."""
    if len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return []
    return [np.tile(graphs.constant_value(graph, subgraph.tensors[operator.inputs[2]]), repeats)]


def _as_matrix(graph: Any, subgraph: Any, operator: Any) -> list[Any] | None:
    """Return a convolution over a map of few places as a dense layer, or None where it stays."""
    if not _is_narrow(graph, subgraph, operator):
        return None
    source, kernel = (subgraph.tensors[index] for index in operator.inputs[:2])
    batch, rows, columns = (int(size) for size in source.shape[:3])
    height, width = (int(size) for size in kernel.shape[1:3])
    if not 1 < rows * columns <= height * width:
        return None
    matrix = _matrix_of_map(graphs.constant_value(graph, kernel), rows, columns)
    arrays = [matrix, *_bias(graph, subgraph, operator, rows * columns)]
    constants = [editing.add_constant(graph, subgraph, array) for array in arrays]
    flat = editing.add_tensor(subgraph, [batch, matrix.shape[1]], source.type)
    result = editing.add_tensor(subgraph, [batch, matrix.shape[0]], source.type)
    dense = editing.new_operator(
        graph,
        "FULLY_CONNECTED",
        [flat, *constants],
        [result],
        version=4,
        fusedActivationFunction=operator.builtinOptions.fusedActivationFunction,
    )
    return [
        editing.new_reshape(graph, subgraph, int(operator.inputs[0]), flat),
        dense,
        editing.new_reshape(graph, subgraph, result, int(operator.outputs[0])),
    ]


def _widened(graph: Any, subgraph: Any, operator: Any) -> list[Any] | None:
    """Return a convolution with blocks of columns as channels, or None where it stays."""
    if not _is_narrow(graph, subgraph, operator):
        return None
    source, kernel = (subgraph.tensors[index] for index in operator.inputs[:2])
    shape = [int(size) for size in source.shape]
    outputs, height, width, inputs = (int(size) for size in kernel.shape)
    if width % 2 == 0 or width == 1:
        return None
    num_blocks, columns = _blocks(shape[2])
    if columns < 2 or np.prod(shape[:3]) * kernel.shape[0] * height * width * inputs < LEAST_PRODUCTS:
        return None
    weights = _kernel_of_blocks(graphs.constant_value(graph, kernel), columns, num_blocks)
    viewed = [*shape[:2], num_blocks, columns * inputs]
    filled = [*shape[:2], num_blocks * columns]
    blocks = editing.add_tensor(subgraph, viewed, source.type)
    results = editing.add_tensor(subgraph, [*viewed[:3], columns * outputs], source.type)
    arrays = [weights, *_bias(graph, subgraph, operator, columns)]
    (target,), first = operator.outputs, int(operator.inputs[0])
    operator.inputs = [blocks, *(editing.add_constant(graph, subgraph, array) for array in arrays)]
    operator.outputs = [results]
    before, after, last = [], [], int(target)
    if filled[2] > shape[2]:  # zeros to the right, which the convolution takes there in any case
        wider = editing.add_tensor(subgraph, [*filled, inputs], source.type)
        last = editing.add_tensor(subgraph, [*filled, outputs], source.type)
        widths = np.array([[0, 0], [0, 0], [0, filled[2] - shape[2]], [0, 0]], np.int32)
        corner, sizes = np.zeros(4, np.int32), np.array([*shape[:3], outputs], np.int32)
        constants = [editing.add_constant(graph, subgraph, array) for array in (widths, corner, sizes)]
        before = [editing.new_operator(graph, "PAD", [first, constants[0]], [wider])]
        after = [editing.new_operator(graph, "SLICE", [last, *constants[1:]], [int(target)])]
        first = wider
    return [
        *before,
        editing.new_reshape(graph, subgraph, first, blocks),
        operator,
        editing.new_reshape(graph, subgraph, results, last),
        *after,
    ]


def _matrix_of_map(kernel: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return the matrix `(places * outputs, places * inputs)` of a convolution over a whole map.

    Args:
        kernel: `(outputs, height, width, inputs)`; an even side reaches one place further down or right.
        rows: rows of the map.
        columns: columns of the map.
    """
    outputs, height, width, inputs = kernel.shape
    matrix = np.zeros((rows, columns, outputs, rows, columns, inputs), kernel.dtype)
    for row, column, down, right in np.ndindex(rows, columns, height, width):
        read = (row + down - (height - 1) // 2, column + right - (width - 1) // 2)
        if 0 <= read[0] < rows and 0 <= read[1] < columns:
            matrix[row, column, :, read[0], read[1]] = kernel[:, down, right]
    return matrix.reshape(rows * columns * outputs, rows * columns * inputs)


def _blocks(width: int) -> tuple[int, int]:
    """Return the number of blocks of a row and the columns of each; the last may go beyond the row."""
    count = -(-width // MOST_COLUMNS)
    return count, -(-width // count)


def _kernel_of_blocks(kernel: np.ndarray, columns: int, num_blocks: int) -> np.ndarray:
    """Return the kernel that maps blocks of columns to such blocks, from one that maps columns.

    Args:
        kernel: `(outputs, height, width, inputs)`.
        columns: columns of a block.
        num_blocks: blocks of a row; where there is one, its neighbours need no weights.
    """
    outputs, height, width, inputs = kernel.shape
    reach = width // 2
    blocks = 0 if num_blocks == 1 else -(-reach // columns)
    wide = np.zeros((columns, outputs, height, 2 * blocks + 1, columns, inputs), kernel.dtype)
    for written in range(columns):
        for offset in range(-reach, reach + 1):
            block, read = divmod(written + offset, columns)
            if abs(block) <= blocks:
                wide[written, :, :, block + blocks, read] = kernel[:, :, offset + reach]
    return wide.reshape(columns * outputs, height, 2 * blocks + 1, columns * inputs)
