"""Each operator that `kernels.KERNELS` lists, in int8 and int16, against its float form on the runtime."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_graphs
from ai_edge_litert import schema_py_generated as schema

from keras_attention import tflite
from keras_attention.tflite import graph as graphs
from keras_attention.tflite.integer import kernels

FLOORS_DB = {8: 28.0, 16: 45.0}
EQUAL_SHARE = {8: 0.94, 16: 0.995}
ROWS = (1, 11, 7)
IMAGE = (1, 12, 10, 3)
RNG = np.random.default_rng(20240601)
SAME, VALID = schema.Padding.SAME, schema.Padding.VALID
RELU, RELU6 = schema.ActivationFunctionType.RELU, schema.ActivationFunctionType.RELU6
STRIDES = {"padding": SAME, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
POOL = {"table": "Pool2D", "padding": SAME, "strideW": 2, "strideH": 2, "filterWidth": 2, "filterHeight": 2}


def weights(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def unary(name, shape=ROWS, **options):
    return lambda g: g.op(name, g.input(*shape), shape=shape, **options)


def binary(name, kind="float32", **options):
    return lambda g: g.op(name, g.input(*ROWS), g.input(*ROWS), shape=ROWS, kind=kind, **options)


def with_constant(name, values, **options):
    return lambda g: g.op(name, g.input(*ROWS), g.constant(values), shape=ROWS, **options)


def moved(name, result, *numbers, source=ROWS, **options):
    """An operator that moves values about, as lists of numbers say."""
    return lambda g: g.op(name, g.input(*source), *map(g.constant, numbers), shape=result, **options)


def positive(name, **options):
    """An operator on numbers above zero."""

    def build(g):
        size = g.op("ADD", g.op("ABS", g.input(*ROWS), shape=ROWS), g.constant(0.5), shape=ROWS)
        return g.op(name, size, shape=ROWS, **options)

    return build


def compared(name):
    """A comparison with values about which half lie on either side; as numbers, since noise is counted."""
    return binary(name, "bool")


def equal(name):
    """After RELU half of all values are exactly 0."""

    def build(g):
        positive = g.op("RELU", g.input(*ROWS), shape=ROWS)
        return g.op(name, positive, g.constant(0.0), shape=ROWS, kind="bool")

    return build


def selected(name):
    def build(g):
        condition = g.input(*ROWS, kind="bool")
        return g.op(name, condition, g.input(*ROWS), g.input(*ROWS), shape=ROWS)

    return build


def broadcast_selection(g):
    """Whole rows are replaced by one number, as masks do."""
    return g.op("SELECT_V2", g.input(1, 11, 1, kind="bool"), g.input(*ROWS), g.constant(-3.0), shape=ROWS)


def product(bias=True, shape=ROWS, **options):
    def build(g):
        extra = [g.constant(weights(5))] if bias else []
        result = (*shape[:-1], 5)
        options.setdefault("keepNumDims", True)
        return g.op(
            "FULLY_CONNECTED", g.input(*shape), g.constant(weights(5, 7)), *extra, shape=result, **options
        )

    return build


def convolution(**options):
    def build(g):
        kernel = g.constant(weights(5, 3, 3, 3))
        return g.op(
            "CONV_2D", g.input(*IMAGE), kernel, g.constant(weights(5)), shape=(*IMAGE[:-1], 5), table="Conv2D",
            **{**STRIDES, **options},
        )  # fmt: skip

    return build


def depthwise(g):
    kernel, bias = g.constant(weights(1, 3, 3, 6)), g.constant(weights(6))
    return g.op(
        "DEPTHWISE_CONV_2D",
        g.input(*IMAGE),
        kernel,
        bias,
        shape=(*IMAGE[:-1], 6),
        depthMultiplier=2,
        **STRIDES,
    )


def transposed(bias):
    def build(g):
        shape = (1, 24, 20, 5)
        extra = [g.constant(weights(5))] if bias else []
        return g.op(
            "TRANSPOSE_CONV", g.constant(list(shape)), g.constant(weights(5, 3, 3, 3)), g.input(*IMAGE), *extra,
            shape=shape, version=3 if bias else 1, padding=SAME, strideW=2, strideH=2,
        )  # fmt: skip

    return build


def joined(g):
    wide = g.op("MUL", g.input(*ROWS), g.constant(3.0), shape=ROWS)
    return g.op("CONCATENATION", g.input(*ROWS), wide, shape=(1, 22, 7), axis=1)


def packed(g):
    return g.op("PACK", g.input(*ROWS), g.input(*ROWS), shape=(1, 2, 11, 7), valuesCount=2, axis=1)


def split(g):
    shapes = [(1, 11, 1)] * 7
    return g.op("SPLIT", g.constant(np.int32(2)), g.input(*ROWS), shape=shapes, numSplits=7)[3]


def split_sizes(g):
    sizes, axis = g.constant([2, 5]), g.constant(np.int32(2))
    return g.op("SPLIT_V", g.input(*ROWS), sizes, axis, shape=[(1, 11, 2), (1, 11, 5)], numSplits=2)[1]


def unpacked(g):
    return g.op("UNPACK", g.input(*ROWS), shape=[(1, 7)] * 11, num=11, axis=1)[2]


def two_products(g):
    left, right = g.input(1, 3, 11, 7), g.input(1, 3, 13, 7)
    return g.op("BATCH_MATMUL", left, right, shape=(1, 3, 11, 13), adjY=True)


def stored_product(g):
    return g.op("BATCH_MATMUL", g.input(1, 3, 11, 7), g.constant(weights(1, 3, 7, 5)), shape=(1, 3, 11, 5))


def cast_bytes(g):
    real = g.op("CAST", g.input(*ROWS, kind="uint8"), shape=ROWS)
    return g.op("MUL", real, g.constant(0.01), shape=ROWS)


def cast_integers(g):
    real = g.op("CAST", g.input(*ROWS, kind="int32"), shape=ROWS)
    return g.op("MUL", real, g.constant(0.01), shape=ROWS)


def stored_rows(g):
    return g.op(
        "GATHER", g.constant(weights(101, 7)), g.input(1, 5, kind="int32"), shape=(1, 5, 7), table="Gather"
    )


def reduced(name, axes, shape, source=ROWS, keep=False):
    return lambda g: g.op(
        name, g.input(*source), g.constant(axes), shape=shape, table="Reducer", keepDims=keep
    )


SLICE = {"beginMask": 5, "endMask": 5}
CASES = {
    "ABS": unary("ABS"),
    "ADD": binary("ADD"),
    "ADD relu": binary("ADD", fusedActivationFunction=RELU),
    "ADD per channel": with_constant("ADD", weights(7)),
    "ADD zero": with_constant("ADD", 0.0),
    "ARG_MAX": moved("ARG_MAX", (1, 11), np.int32(2), kind="int32", outputType=schema.TensorType.INT32),
    "ARG_MIN": moved("ARG_MIN", (1, 11), np.int32(2), kind="int32", outputType=schema.TensorType.INT32),
    "AVERAGE_POOL_2D": lambda g: g.op("AVERAGE_POOL_2D", g.input(*IMAGE), shape=(1, 6, 5, 3), **POOL),
    "BATCH_MATMUL": two_products,
    "BATCH_MATMUL stored": stored_product,
    "BATCH_TO_SPACE_ND": moved("BATCH_TO_SPACE_ND", (1, 22, 7), [2], [[0, 0]], source=(2, 11, 7)),
    "BROADCAST_TO": moved("BROADCAST_TO", ROWS, [1, 11, 7], source=(1, 1, 7), version=2),
    "CAST bytes": cast_bytes,
    "CAST integers": cast_integers,
    "CONCATENATION": joined,
    "CONV_2D": convolution(),
    "CONV_2D relu6": convolution(fusedActivationFunction=RELU6),
    "CONV_2D dilated": convolution(dilationWFactor=2, dilationHFactor=2),
    "DEPTH_TO_SPACE": lambda g: g.op(
        "DEPTH_TO_SPACE", g.input(1, 6, 5, 8), shape=(1, 12, 10, 2), blockSize=2
    ),
    "DEPTHWISE_CONV_2D": depthwise,
    "ELU": unary("ELU"),
    "EQUAL": equal("EQUAL"),
    "EQUAL tiny": equal("EQUAL"),
    "EXP": unary("EXP"),
    "EXPAND_DIMS": moved("EXPAND_DIMS", (1, 1, 11, 7), np.int32(1)),
    "FULLY_CONNECTED": product(),
    "FULLY_CONNECTED flat": product(shape=(1, 7), keepNumDims=False),
    "FULLY_CONNECTED no bias": product(bias=False),
    "FULLY_CONNECTED relu": product(fusedActivationFunction=RELU),
    "GATHER": stored_rows,
    "GATHER data": moved("GATHER", (1, 3, 7), [3, 1, 2], axis=1),
    "GATHER_ND": moved("GATHER_ND", (2, 7), [[0, 3], [0, 1]], table="GatherNd"),
    "GELU": unary("GELU"),
    "GREATER": compared("GREATER"),
    "GREATER tiny": compared("GREATER"),
    "GREATER huge": compared("GREATER"),
    "GREATER_EQUAL": compared("GREATER_EQUAL"),
    "HARD_SWISH": unary("HARD_SWISH"),
    "L2_NORMALIZATION": unary("L2_NORMALIZATION", table="L2Norm"),
    "LEAKY_RELU": unary("LEAKY_RELU", alpha=0.1),
    "LESS": compared("LESS"),
    "LESS_EQUAL": compared("LESS_EQUAL"),
    "LOG": positive("LOG"),
    "LOGISTIC": unary("LOGISTIC"),
    "MAXIMUM": binary("MAXIMUM"),
    "MAXIMUM constant": with_constant("MAXIMUM", -0.3),
    "MAX_POOL_2D": lambda g: g.op("MAX_POOL_2D", g.input(*IMAGE), shape=(1, 6, 5, 3), **POOL),
    "MEAN": reduced("MEAN", [1], (1, 7)),
    "MEAN channels": reduced("MEAN", [2], (1, 11, 1), keep=True),
    "MEAN image": reduced("MEAN", [1, 2], (1, 3), IMAGE),
    "MINIMUM": binary("MINIMUM"),
    "MINIMUM of unequal": lambda g: g.op(
        "MINIMUM", g.input(*ROWS), g.op("MUL", g.input(*ROWS), g.constant(2.0), shape=ROWS), shape=ROWS
    ),
    "MINIMUM constant": with_constant("MINIMUM", 1.0),
    "MIRROR_PAD": moved("MIRROR_PAD", (1, 14, 7), [[0, 0], [1, 2], [0, 0]]),
    "MUL": binary("MUL"),
    "MUL tiny": with_constant("MUL", 1e-3),
    "NOT_EQUAL": equal("NOT_EQUAL"),
    "PACK": packed,
    "PAD": moved("PAD", (1, 14, 7), [[0, 0], [1, 2], [0, 0]]),
    "PADV2": moved("PADV2", (1, 14, 7), [[0, 0], [1, 2], [0, 0]], -2.0, table="PadV2"),
    "PRELU": lambda g: g.op("PRELU", g.input(*ROWS), g.constant(abs(weights(1, 1, 7))), shape=ROWS),
    "REDUCE_MAX": reduced("REDUCE_MAX", [1], (1, 7)),
    "REDUCE_MIN": reduced("REDUCE_MIN", [1], (1, 7)),
    "RELU": unary("RELU"),
    "RELU6": unary("RELU6"),
    "RESHAPE": moved("RESHAPE", (1, 7, 11), [1, 7, 11], newShape=[1, 7, 11]),
    "RESIZE_BILINEAR": moved(
        "RESIZE_BILINEAR", (1, 24, 17, 3), [24, 17], source=IMAGE, halfPixelCenters=True
    ),
    "RESIZE_NEAREST_NEIGHBOR": moved("RESIZE_NEAREST_NEIGHBOR", (1, 24, 17, 3), [24, 17], source=IMAGE),
    "REVERSE_V2": moved("REVERSE_V2", ROWS, [1]),
    "RSQRT": positive("RSQRT"),
    "SELECT": selected("SELECT"),
    "SELECT_V2": selected("SELECT_V2"),
    "SELECT_V2 mask": broadcast_selection,
    "SLICE": moved("SLICE", (1, 5, 3), [0, 2, 1], [1, 5, 3]),
    "SOFTMAX": unary("SOFTMAX", beta=1.0),
    "SPACE_TO_BATCH_ND": moved("SPACE_TO_BATCH_ND", (2, 11, 7), [2], [[0, 0]], source=(1, 22, 7)),
    "SPACE_TO_DEPTH": lambda g: g.op("SPACE_TO_DEPTH", g.input(*IMAGE), shape=(1, 6, 5, 12), blockSize=2),
    "SPLIT": split,
    "SPLIT_V": split_sizes,
    "SQUARED_DIFFERENCE": binary("SQUARED_DIFFERENCE"),
    "SQUEEZE": lambda g: g.op("SQUEEZE", g.input(1, 11, 1, 7), shape=ROWS, squeezeDims=[2]),
    "STRIDED_SLICE": moved("STRIDED_SLICE", (1, 4, 7), [0, 2, 0], [1, 9, 7], [1, 2, 1], **SLICE),
    "SUB": binary("SUB"),
    "SUM": reduced("SUM", [1], (1, 7)),
    "TANH": unary("TANH"),
    "TILE": moved("TILE", (1, 22, 7), [1, 2, 1]),
    "TRANSPOSE": moved("TRANSPOSE", (1, 7, 11), [0, 2, 1]),
    "TRANSPOSE_CONV": transposed(bias=True),
    "TRANSPOSE_CONV no bias": transposed(bias=False),
    "UNPACK": unpacked,
}
SIZES = {"EQUAL tiny": 1e-4, "GREATER tiny": 1e-4, "GREATER huge": 1e4}
"""Size of the numbers that a case gets, where it is not 1."""
FLOAT_CASES = {
    "CUMSUM": moved("CUMSUM", ROWS, np.int32(1)),
    "DIV": lambda g: g.op("DIV", g.input(*ROWS), g.constant(2.0 + abs(weights(7))), shape=ROWS),
    "FLOOR": unary("FLOOR"),
    "LOG_SOFTMAX": unary("LOG_SOFTMAX"),
    "POW": with_constant("POW", 2.0),
    "SIN": unary("SIN"),
    "SIGN": unary("SIGN"),
}
"""Operators without an integer kernel: they stay float, whatever surrounds them."""


def between_integers(build):
    """The operator between two products, which become integer."""

    def wrapped(g):
        inner = build(g)
        return g.op("FULLY_CONNECTED", inner, g.constant(weights(5, 7)), shape=(1, 11, 5), keepNumDims=True)

    return wrapped


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Case and bits -> what came of it."""
    folder = tmp_path_factory.mktemp("kernels")
    cases = {**CASES, **{name: between_integers(build) for name, build in FLOAT_CASES.items()}}
    for name, build in cases.items():
        tiny = tiny_graphs.TinyGraph()
        content = tiny.finish(build(tiny))
        (folder / f"{name}.tflite").write_bytes(content)
        samples = tiny_graphs.normal(graphs.read_graph(content), scale=SIZES.get(name, 1.0))
        np.savez(folder / f"{name}.npz", **samples)
    program = Path(tiny_graphs.__file__).with_name("integer_runs.py")
    command = [sys.executable, str(program), str(Path(tflite.__file__).parent), str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return json.loads((folder / "results.json").read_text())


def test_every_kernel_has_a_case():
    assert {name.partition(" ")[0] for name in CASES} == set(kernels.KERNELS)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("case_name", CASES)
def test_kernel_computes_what_the_float_one_does(results, case_name, bits):
    name = case_name.partition(" ")[0]
    result = results[f"{case_name} {bits}"]
    assert "error" not in result, result["error"]
    kernel = kernels.KERNELS[name]
    kinds = result["kinds"].get(name, [])
    if kernel.version(bits) is None or (case_name, bits) == ("CAST bytes", 16):
        assert not any(f"int{bits}" in found for found in kinds), "no kernel, so it stays float"
    elif kernel.rule == kernels.CAST:
        assert "float32" not in [kind for found in kinds for kind in found]
    else:
        assert all(f"int{bits}" in found and "float32" not in found for found in kinds) and kinds
    if kernel.rule == kernels.COMPARE:
        assert min(result["equal"]) >= EQUAL_SHARE[bits]
    else:
        assert min(result["sqnr_db"]) >= FLOORS_DB[bits]


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("name", FLOAT_CASES)
def test_other_operators_stay_float(results, name, bits):
    result = results[f"{name} {bits}"]
    assert "error" not in result, result["error"]
    assert name not in kernels.KERNELS
    assert set(sum(result["kinds"][name], [])) <= {"float32", "int32"}
    assert result["kinds"]["FULLY_CONNECTED"][0][0] == f"int{bits}"
    assert result["kinds"]["DEQUANTIZE"] == [[f"int{bits}", "float32"]], "the answer"
    assert min(result["sqnr_db"]) >= FLOORS_DB[bits]
