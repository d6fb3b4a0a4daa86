"""Which TensorFlow Lite (LiteRT) runtime a file needs: the first release that knows each operator version.

The facts are those of TensorFlow's and LiteRT's own table, `runtime_version.cc` (google-ai-edge/LiteRT,
tflite/converter/tools/versioning, Apache-2.0), which the converter uses for its metadata; it is not
exposed to Python, and the quantizer doesn't bring the metadata up to date.
"""

from __future__ import annotations

from typing import Any

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import operator_versions

_RELEASES = {
    "ABS": "1.13 2.4 2.5 2.6 2.12",
    "ADD": "1.5 1.14 2.4 2.6 2.13 2.23",
    "ADD_N": "1.14",
    "ARG_MAX": "1.9 1.14 2.9",
    "ARG_MIN": "1.9 1.14 2.9",
    "ASSIGN_VARIABLE": "2.6",
    "ATAN2": "2.10",
    "AVERAGE_POOL_2D": "1.5 1.14 2.3",
    "BATCH_MATMUL": "2.3 2.3 2.4 2.5",
    "BATCH_TO_SPACE_ND": "1.6 1.14 2.3 2.12",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "1.14 1.14 1.14",
    "BIDIRECTIONAL_SEQUENCE_RNN": "1.14 1.14 2.3",
    "BITCAST": "2.13",
    "BITWISE_XOR": "2.13",
    "BROADCAST_ARGS": "2.6",
    "BROADCAST_TO": "- 2.5 2.5",
    "BUCKETIZE": "2.8",
    "CALL_ONCE": "2.5",
    "CAST": "1.5 2.7 2.8 2.9 2.12 2.15 2.17 2.21",
    "CEIL": "1.14",
    "COMPLEX_ABS": "2.5",
    "CONCATENATION": "1.5 1.14 2.3 2.14 2.21 2.23",
    "CONV_2D": "1.5 1.14 1.14 2.3 2.4 2.9 2.11 2.15",
    "CONV_3D": "2.5",
    "CONV_3D_TRANSPOSE": "2.6",
    "COS": "1.14 2.23",
    "CUMSUM": "2.4",
    "DENSIFY": "2.2",
    "DEPTHWISE_CONV_2D": "1.5 1.12 1.14 2.2 2.3 2.3 2.11",
    "DEPTH_TO_SPACE": "2.1 2.5",
    "DEQUANTIZE": "1.13.1 1.14 1.15 2.2 2.7 2.18 2.21 2.22",
    "DILATE": "2.15",
    "DIV": "1.6 2.3",
    "DYNAMIC_UPDATE_SLICE": "2.9 2.17 2.19 2.20 2.21 2.22",
    "ELU": "1.14",
    "EMBEDDING_LOOKUP": "1.13 1.14 1.14 2.18 2.21",
    "EQUAL": "1.14 1.14 2.3 2.13 2.21",
    "EXP": "1.7 2.12",
    "EXPAND_DIMS": "1.10",
    "FAKE_QUANT": "1.5 1.10",
    "FILL": "1.13 2.3 2.5 2.12",
    "FLOOR": "1.9",
    "FLOOR_DIV": "1.14 1.14 2.13",
    "FLOOR_MOD": "1.13 2.13",
    "FULLY_CONNECTED": "1.5 1.10 1.14 1.14 2.0 2.1 2.3 2.3 2.3 2.11 2.15 2.17 2.18 2.21",
    "GATHER": "1.6 1.14 1.15 2.4 2.5 2.13 2.15",
    "GATHER_ND": "1.14 2.3 2.5 2.13 2.16",
    "GELU": "2.9 2.9",
    "GREATER": "1.14 1.14",
    "GREATER_EQUAL": "1.14 1.14 2.13",
    "HARD_SWISH": "1.15",
    "HASHTABLE": "2.5",
    "HASHTABLE_FIND": "2.5",
    "HASHTABLE_IMPORT": "2.5",
    "HASHTABLE_LOOKUP": "1.5",
    "HASHTABLE_SIZE": "2.5",
    "IF": "1.15",
    "IMAG": "2.5",
    "L2_NORMALIZATION": "1.5 1.14",
    "L2_POOL_2D": "1.5",
    "LEAKY_RELU": "1.13.1 2.3",
    "LESS": "1.14 1.14 2.13",
    "LESS_EQUAL": "1.14 1.14",
    "LOCAL_RESPONSE_NORMALIZATION": "1.5",
    "LOG": "1.14 2.15",
    "LOGICAL_AND": "1.11",
    "LOGICAL_NOT": "1.11",
    "LOGICAL_OR": "1.11",
    "LOGISTIC": "1.14 1.14 2.3",
    "LOG_SOFTMAX": "1.14 1.14",
    "LSTM": "1.7 1.10 1.14 2.3",
    "MATRIX_DIAG": "1.14",
    "MATRIX_SET_DIAG": "1.14",
    "MAXIMUM": "1.14 1.14 2.3 2.3",
    "MAX_POOL_2D": "1.5 1.14 2.3",
    "MEAN": "1.6 1.14 2.4",
    "MINIMUM": "1.14 1.14 2.3 2.3",
    "MIRROR_PAD": "1.13.1 2.3 2.12",
    "MUL": "1.5 1.14 1.15 2.3 2.6 2.11 2.13 2.23",
    "MULTINOMIAL": "2.8",
    "NEG": "1.9",
    "NON_MAX_SUPPRESSION_V4": "2.1",
    "NON_MAX_SUPPRESSION_V5": "2.1",
    "NOT_EQUAL": "1.14 1.14 2.3 2.21",
    "ONE_HOT": "1.11",
    "PACK": "1.11 1.14 2.3 2.13",
    "PAD": "1.5 1.14 2.4 2.6 2.20",
    "PADV2": "1.9 1.14 2.4 2.6 2.20",
    "POW": "1.10",
    "PRELU": "1.8",
    "QUANTIZE": "1.14 1.15 2.7 2.21 2.21 2.21",
    "RANDOM_STANDARD_NORMAL": "2.8",
    "RANDOM_UNIFORM": "2.8",
    "RANGE": "1.13 2.14",
    "RANK": "1.14",
    "READ_VARIABLE": "2.6",
    "REAL": "2.5",
    "REDUCE_ALL": "2.6",
    "REDUCE_ANY": "1.11",
    "REDUCE_MAX": "1.11 1.14 2.5",
    "REDUCE_MIN": "1.11 1.14 2.5",
    "REDUCE_PROD": "1.11 2.6",
    "REDUCE_WINDOW": "2.15",
    "RELU": "1.5 2.1 2.5",
    "RELU6": "1.5 1.14 2.5",
    "RELU_0_TO_1": "2.10",
    "RELU_N1_TO_1": "1.5",
    "RESHAPE": "1.5",
    "RESIZE_BILINEAR": "1.7 1.14 2.2 2.5",
    "RESIZE_NEAREST_NEIGHBOR": "1.13.1 1.14 2.3 2.4",
    "REVERSE_SEQUENCE": "1.14",
    "REVERSE_V2": "1.14 2.2 2.5",
    "RFFT2D": "2.5",
    "RIGHT_SHIFT": "2.13",
    "RNN": "1.5 1.14 2.3",
    "ROUND": "1.14",
    "RSQRT": "1.10 2.5 2.15",
    "SCATTER_ND": "2.1",
    "SEGMENT_SUM": "2.2",
    "SELECT": "1.14 1.14 2.12 2.12",
    "SELECT_V2": "2.2 2.12",
    "SHAPE": "1.10",
    "SIGN": "2.11 2.12",
    "SIN": "1.9 2.23",
    "SLICE": "1.14 1.14 1.14 2.4 2.5 2.14 2.21 2.23",
    "SOFTMAX": "1.5 1.14 2.3 2.23",
    "SPACE_TO_BATCH_ND": "1.6 1.14 2.3 2.12",
    "SPACE_TO_DEPTH": "1.5 1.14",
    "SPARSE_TO_DENSE": "1.9 1.14 1.15",
    "SPLIT": "1.5 1.14 1.14 2.3",
    "SPLIT_V": "1.13.1 2.3",
    "SQRT": "1.10 2.21",
    "SQUARE": "1.12",
    "SQUARED_DIFFERENCE": "1.13.1 2.5",
    "SQUEEZE": "1.6 2.5",
    "STABLEHLO_COMPOSITE": "2.17",
    "STRIDED_SLICE": "1.6 1.14 2.1 2.2 2.5 2.6 2.14 2.14",
    "SUB": "1.6 1.14 2.3 2.4 2.4",
    "SUM": "1.10 1.15",
    "SVDF": "1.5 1.14 2.2 2.3",
    "TANH": "1.14 1.14 2.3",
    "TILE": "1.10.1 2.2 2.8",
    "TOPK_V2": "1.7 1.14 2.13",
    "TRANSPOSE": "1.6 1.14 1.15 2.3 2.4 2.12 2.14.4 2.22 2.23",
    "TRANSPOSE_CONV": "1.9 2.2 2.3 2.13 2.15",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "1.13.1 1.14 2.3 2.12",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "1.14 1.14 2.3",
    "UNIQUE": "1.14",
    "UNPACK": "1.11 1.14 2.2 2.3 2.22",
    "UNSORTED_SEGMENT_MAX": "2.10",
    "UNSORTED_SEGMENT_MIN": "2.11",
    "UNSORTED_SEGMENT_PROD": "2.10",
    "UNSORTED_SEGMENT_SUM": "2.10",
    "VAR_HANDLE": "2.6",
    "WHERE": "1.14 2.8",
    "WHILE": "1.15",
    "ZEROS_LIKE": "1.12",
}
"""Operator -> first release for its versions 1, 2, 3, ...; "-" where there never was one."""


def first_release(operator: str, version: int) -> str | None:
    """Return the first release that runs this version of an operator, such as "2.17"; None if not known."""
    releases = _RELEASES.get(operator, "").split()
    if not 1 <= version <= len(releases) or releases[version - 1] == "-":
        return None
    return releases[version - 1]


def minimum_runtime(graph: Any) -> str:
    """Return the oldest runtime release that knows every operator of a file, such as "2.17".

    An operator counts in the version that it declares or that its types call for, whichever is higher, for
    quantizers don't bring the declared one up to date. Operators whose release is not known, custom ones
    among them, are named behind it and not guessed:
    "2.3 (unknown for STABLEHLO_ADD 1)", or "unknown (...)" where nothing is known.

    Args:
        graph: the flatbuffer object of `graph.read_graph`.
    """
    used = set()
    for subgraph in graph.subgraphs:
        for operator in subgraph.operators if subgraph.operators is not None else []:
            name = graphs.operator_name(graph, operator)
            inputs = [subgraph.tensors[index] for index in graphs.indices(operator.inputs)]
            declared = int(graph.operatorCodes[operator.opcodeIndex].version)
            used.add((name, max(declared, operator_versions.by_types(name, inputs, operator.builtinOptions))))
    releases, unknown = [], []
    for name, version in sorted(used):
        release = first_release(name, version)
        if release is None:
            unknown.append(f"{name} {version}")
        else:
            releases.append(release)
    newest = max(releases, key=_as_numbers, default="unknown")
    return f"{newest} (unknown for {', '.join(unknown)})" if unknown else newest


def _as_numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
