"""How large a file with unrolled recurrent layers becomes, known before the long conversion.

A written-out step costs its operators and the constants that cut its row out of the input's product: the
counts below are those of `lowering/recurrent.py` after TensorFlow's converter joined what is equal. Weights
are stored once, whatever the number of steps. docs/benchmarks/recurrent.md compares with real files.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.tflite import embedding_tables
from keras_attention.tflite import regions

OPERATOR_BYTES = 94
"""One operator with its output tensor, without names (measured over 18 files: 1 % of error)."""
CONSTANT_BYTES = 52
"""One constant of a slice: tensor, buffer and eight bytes of values."""
JOINS = 1 / 3
"""CONCATENATIONs of four inputs per step, where all steps are returned."""
LAYER_BYTES = 350
"""Operators of any other layer."""
FILE_BYTES = 1_000
"""Signature, operator codes, metadata."""
INTEGER_SHARE = 0.37
"""What scale and zero point of every result add to the written-out steps of an integer file (LSTM 0.41, GRU
0.35, SimpleRNN 0.28)."""
SCALE_BYTES = 12
"""Scale and zero point of one output channel of int8 weights."""
_INTEGER = frozenset({"int8_full", "int16x8"})


def predict_unrolled_bytes(layer: Any, steps: int, *, is_masked: bool = False) -> int:
    """Return how many bytes the written-out steps of one recurrent layer take, without its weights.

    Args:
        layer: a `keras.layers.RNN`, or a `Bidirectional`, whose halves are added.
        steps: length of the sequence.
        is_masked: whether the layer gets a mask.
    """
    import keras

    if isinstance(layer, keras.layers.Bidirectional):
        halves = (layer.forward_layer, layer.backward_layer)
        return sum(predict_unrolled_bytes(half, steps, is_masked=is_masked) for half in halves)
    operators, constants = _step(layer.cell)
    if is_masked:  # cut the mask, turn it around; per state two products and a sum
        operators += 2 + 3 * len(keras.tree.flatten(layer.cell.state_size))
        constants += 1
    if layer.return_sequences:
        operators += JOINS
    return round(steps * (operators * OPERATOR_BYTES + constants * CONSTANT_BYTES))


def _step(cell: Any) -> tuple[float, float]:
    """Return the number of operators and of constants in one step of a cell."""
    import keras

    if isinstance(cell, keras.layers.StackedRNNCells):
        counts = [_step(part) for part in cell.cells]
        return sum(operators for operators, _ in counts), sum(constants for _, constants in counts)
    if isinstance(cell, keras.layers.SimpleRNNCell):
        return 4.0, 2.0
    return 13.0, 3.0 if isinstance(cell, keras.layers.GRUCell) else 2.0


def predict_file_bytes(model: Any, unrolled_bytes: int, precision: str) -> int:
    """Return the size of the whole file.

    Args:
        model: the Keras model.
        unrolled_bytes: sum of `predict_unrolled_bytes` over its recurrent layers.
        precision: as `convert` takes it.
    """
    kernels = sum(_size(variable) for variable in model.weights if _is_recurrent(variable))
    keeps_recurrence = precision not in _INTEGER and kernels < regions.RECURRENT_WEIGHTS
    if precision in _INTEGER:
        unrolled_bytes += round(unrolled_bytes * INTEGER_SHARE)
    weights = sum(_weight_bytes(variable, precision, keeps_recurrence) for variable in model.weights)
    return FILE_BYTES + LAYER_BYTES * len(model.layers) + unrolled_bytes + weights


def _weight_bytes(variable: Any, precision: str, keeps_recurrence: bool) -> int:
    """Return the bytes of one weight; a state of a stateful layer is no weight of the file."""
    if variable.name in ("rnn_state", "seed_generator_state"):
        return 0
    if precision == "float16":
        return 2 * _size(variable)
    is_vector = len(variable.shape) < 2 or "bias" in variable.name
    is_small_table = variable.name == "embeddings" and _size(variable) < embedding_tables.SMALLEST
    stays = is_vector or is_small_table or (keeps_recurrence and _is_recurrent(variable))
    if precision == "float32" or stays:
        return 4 * _size(variable)
    channels = 1 if variable.name == "embeddings" else int(variable.shape[-1])
    return _size(variable) + SCALE_BYTES * channels


def _is_recurrent(variable: Any) -> bool:
    return bool(variable.name == "recurrent_kernel")


def _size(variable: Any) -> int:
    return int(np.prod(variable.shape))
