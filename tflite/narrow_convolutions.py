"""Convolutions of few channels, such as the 7 x 7 one behind CBAM's maps, with blocks of columns as channels.

XNNPACK multiplies eight channels and more at a time; with one or two it does little else than fetch them.
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
    """View blocks of neighbouring columns as channels; the sums are the same, in another order."""
    subgraph = graph.subgraphs[0]
    operators = []
    for operator in subgraph.operators:
        operators += _widened(graph, subgraph, operator) or [operator]
    subgraph.operators = operators


def _widened(graph: Any, subgraph: Any, operator: Any) -> list[Any] | None:
    """Return the operators that stand for a convolution, or None where it stays."""
    if graphs.operator_name(graph, operator) != "CONV_2D":
        return None
    options = operator.builtinOptions
    steps = (options.strideH, options.strideW, options.dilationHFactor, options.dilationWFactor)
    source, kernel = (subgraph.tensors[index] for index in operator.inputs[:2])
    if steps != (1, 1, 1, 1) or options.padding != schema.Padding.SAME:
        return None
    if not graphs.is_constant(graph, kernel) or graphs.tensor_type(kernel) != "float32":
        return None
    shape = [int(size) for size in source.shape]
    outputs, height, width, inputs = (int(size) for size in kernel.shape)
    if max(inputs, outputs) > FEW_CHANNELS or width % 2 == 0 or width == 1 or min(shape) < 1:
        return None
    num_blocks, columns = _blocks(shape[2])
    if columns < 2 or np.prod(shape[:3]) * kernel.shape[0] * height * width * inputs < LEAST_PRODUCTS:
        return None
    weights = _kernel_of_blocks(graphs.constant_value(graph, kernel), columns, num_blocks)
    viewed = [*shape[:2], num_blocks, columns * inputs]
    filled = [*shape[:2], num_blocks * columns]
    blocks = editing.add_tensor(subgraph, viewed, source.type)
    results = editing.add_tensor(subgraph, [*viewed[:3], columns * outputs], source.type)
    arrays = [weights]
    if len(operator.inputs) > 2 and operator.inputs[2] >= 0:
        bias = graphs.constant_value(graph, subgraph.tensors[operator.inputs[2]])
        arrays.append(np.tile(bias, columns))
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
