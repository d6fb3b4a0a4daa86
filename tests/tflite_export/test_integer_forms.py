"""Forms of operators that keep what is computed, run in float before and after."""

import numpy as np
import pytest
import tiny_graphs
from ai_edge_litert import schema_py_generated as schema
from tiny_graphs import compared

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import rewriting
from keras_attention.tflite import runtime
from keras_attention.tflite.integer import affine
from keras_attention.tflite.integer import forms

ROWS = (1, 11, 7)
RELU = schema.ActivationFunctionType.RELU


def unary(name, **options):
    return lambda g: g.op(name, g.input(*ROWS), shape=ROWS, **options)


def difference(g):
    return g.op("SQUARED_DIFFERENCE", g.input(*ROWS), g.input(1, 1, 7), shape=ROWS)


def cast(g):
    return g.op("CAST", g.op("GREATER", g.input(*ROWS), g.constant(0.3), shape=ROWS, kind="bool"), shape=ROWS)


def root(g):
    return g.op("SQRT", g.op("ABS", g.input(*ROWS), shape=ROWS), shape=ROWS)


def total(axes, shape, keep):
    return lambda g: g.op(
        "SUM", g.input(*ROWS), g.constant(axes), shape=shape, table="Reducer", keepDims=keep
    )


RANGES = {1: (0.0, 4.0)}
"""The input of the square root."""
FORMS = {
    "CAST": (cast, 8, {"GREATER", "SELECT_V2"}, 0.0),
    "NEG": (unary("NEG"), 8, {"MUL"}, 0.0),
    "RELU_N1_TO_1": (unary("RELU_N1_TO_1"), 8, {"MAXIMUM", "MINIMUM"}, 0.0),
    "SQRT": (root, 8, {"ABS", "MAXIMUM", "MUL", "RSQRT"}, 0.032),
    "SQRT 16": (root, 16, {"ABS", "MAXIMUM", "MUL", "RSQRT"}, 0.032),
    "SQUARE": (unary("SQUARE"), 8, {"MUL"}, 0.0),
    "GELU": (unary("GELU"), 16, {"ADD", "LOGISTIC", "MUL"}, 5e-4),
    "GELU tanh": (unary("GELU", approximate=True), 16, {"ADD", "LOGISTIC", "MUL"}, 2e-6),
    "HARD_SWISH": (unary("HARD_SWISH"), 16, {"ADD", "MUL"}, 1e-6),
    "SQUARED_DIFFERENCE": (difference, 16, {"MUL", "SUB"}, 1e-6),
    "SUM": (total([1], (1, 7), False), 16, {"MEAN", "MUL"}, 1e-5),
    "SUM from the end": (total([-1], (1, 11, 1), True), 16, {"MEAN", "MUL"}, 1e-5),
    "SUM of all": (total([1, 2], (1,), False), 16, {"MEAN", "MUL"}, 1e-5),
}


def test_each_form_has_a_case():
    assert {name.partition(" ")[0] for name in FORMS} == {*forms._FORMS, *forms._FORMS_16, "SQRT"}


@pytest.mark.parametrize("name", FORMS)
def test_form_computes_the_same(name):
    build, bits, operators, tolerance = FORMS[name]
    (old,), (new,), _, names = compared(build, lambda graph: forms.rewrite(graph, bits, RANGES))
    assert set(names) == operators
    np.testing.assert_allclose(new, old, atol=tolerance, rtol=1e-6)


def test_root_of_zero_is_zero():
    """0 * 1 / sqrt(0) is no number."""
    (old,), (new,), _, _ = compared(
        root, lambda graph: forms.rewrite(graph, 8, RANGES), {"i0": np.zeros((2, 11, 7), "f4")}
    )
    np.testing.assert_array_equal(old, 0.0)
    np.testing.assert_array_equal(new, 0.0)


def test_root_of_unknown_range_stays():
    assert compared(root, lambda graph: forms.rewrite(graph, 8, {}))[3] == ["ABS", "SQRT"]


def test_eight_bits_keep_what_they_have_a_kernel_for():
    for name in forms._FORMS_16:
        build = FORMS[name][0]
        assert name in compared(build, lambda graph: forms.rewrite(graph, 8, RANGES))[3]


def casted(kinds, also_float=False):
    def build(g):
        x = g.input(1, 5)
        table = g.constant(np.arange(101.0))
        rows = []
        for kind in kinds:
            ids = g.op("CAST", x, shape=(1, 5), kind=kind)
            rows.append(g.op("GATHER", table, ids, shape=(1, 5)))
        return [*rows, g.op("MUL", x, g.constant(2.0), shape=(1, 5))] if also_float else rows

    return build


def test_float_ids_become_integer_inputs():
    samples = {"i0": np.arange(100).reshape(20, 5).astype(np.float32)}
    old, new, changed, names = compared(casted(["int32", "int32"]), forms.take_integer_ids, samples)
    assert names == ["GATHER", "GATHER"] and len(changed) == 1
    for a, b in zip(old, new, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("build", [casted(["int32"], also_float=True), casted(["int32", "int64"])])
def test_floats_that_are_read_as_floats_too_stay(build):
    samples = {"i0": np.arange(100).reshape(20, 5).astype(np.float32)}
    _, _, changed, names = compared(build, forms.take_integer_ids, samples)
    assert changed == [] and "CAST" in names


def test_a_cast_input_that_is_an_output_as_well_stays():
    samples = {"i0": np.arange(100).reshape(20, 5).astype(np.float32)}

    def build(g):
        (rows,) = casted(["int32"])(g)
        return [rows, g.subgraph.inputs[0]]

    old, new, changed, _ = compared(build, forms.take_integer_ids, samples)
    assert changed == [] and new[1].dtype == old[1].dtype == np.float32


def test_ids_that_are_an_output():
    samples = {"i0": np.arange(100).reshape(20, 5).astype(np.float32)}

    def build(g):
        return [g.op("CAST", g.input(1, 5), shape=(1, 5), kind="int32")]

    old, new, _, _ = compared(build, forms.take_integer_ids, samples)
    np.testing.assert_array_equal(old[0], new[0])


# --- affine.gather


def steps(*chain, then=None, activation=0):
    """A chain of (name, constant, constant first) on one input."""

    def build(g):
        x = g.input(*ROWS)
        for number, (name, value, first) in enumerate(chain):
            constant = g.constant(value)
            both = (constant, x) if first else (x, constant)
            last = number == len(chain) - 1
            options = {"fusedActivationFunction": activation} if last else {}
            x = g.op(name, *both, shape=ROWS, **options)
        return then(g, x) if then else x

    return build


RNG = np.random.default_rng(20240603)
FACTOR = RNG.uniform(0.5, 2.0, 7).astype(np.float32)
SHIFT = RNG.normal(size=7).astype(np.float32)
UNEVEN = np.array([1e-3, 1.0, 5.0, -2.0, 100.0, 0.5, 3.0], np.float32)
ZERO = np.array([0.0, 1.0, -1.0, 2.0, 0.0, 0.5, 3.0], np.float32)


def product(g, x):
    weights = np.random.default_rng(5).normal(size=(5, 7)).astype(np.float32)
    bias = np.random.default_rng(6).normal(size=5).astype(np.float32)
    return g.op(
        "FULLY_CONNECTED", x, g.constant(weights), g.constant(bias), shape=(1, 11, 5), keepNumDims=True
    )


def product_without_bias(g, x):
    weights = np.random.default_rng(5).normal(size=(5, 7)).astype(np.float32)
    return g.op("FULLY_CONNECTED", x, g.constant(weights), shape=(1, 11, 5), keepNumDims=True)


def two_products(g, x):
    return [product(g, x), product_without_bias(g, x)]


def product_and_sine(g, x):
    return [product(g, x), g.op("SIN", x, shape=ROWS)]


def own_output(g, x):
    return [product(g, x), x]


NORMALIZE = (("SUB", SHIFT, False), ("MUL", FACTOR, False))
GATHERED = {
    "sub and mul": (steps(*NORMALIZE), {"RESHAPE", "DEPTHWISE_CONV_2D"}),
    "reversed": (steps(("SUB", SHIFT, True), ("MUL", FACTOR, True)), {"RESHAPE", "DEPTHWISE_CONV_2D"}),
    "div and add": (steps(("DIV", FACTOR, False), ("ADD", SHIFT, False)), {"RESHAPE", "DEPTHWISE_CONV_2D"}),
    "four": (steps(*NORMALIZE, ("ADD", 2.0, False), ("MUL", -3.0, False)), {"RESHAPE", "DEPTHWISE_CONV_2D"}),
    "with zeros": (steps(("MUL", ZERO, False), ("ADD", SHIFT, False)), {"RESHAPE", "DEPTHWISE_CONV_2D"}),
    "activation": (steps(*NORMALIZE, activation=RELU), {"RESHAPE", "DEPTHWISE_CONV_2D"}),
    "folded": (steps(*NORMALIZE, then=product), {"FULLY_CONNECTED"}),
    "folded alone": (steps(("MUL", -FACTOR, False), then=product), {"FULLY_CONNECTED"}),
    "folded without bias": (steps(*NORMALIZE, then=product_without_bias), {"FULLY_CONNECTED"}),
    "folded twice": (steps(*NORMALIZE, then=two_products), {"FULLY_CONNECTED"}),
    "uneven": (
        steps(("ADD", SHIFT, False), ("MUL", UNEVEN, False), then=product),
        {"RESHAPE", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"},
    ),
    "zero before a product": (
        steps(("ADD", SHIFT, False), ("MUL", ZERO, False), then=product),
        {"RESHAPE", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"},
    ),
    "read by others": (
        steps(*NORMALIZE, then=product_and_sine),
        {"RESHAPE", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "SIN"},
    ),
    "an output": (steps(*NORMALIZE, then=own_output), {"RESHAPE", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}),
    "activation before a product": (
        steps(*NORMALIZE, activation=RELU, then=product),
        {"RESHAPE", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GATHERED)
def test_gathered_chains_compute_the_same(name):
    build, operators = GATHERED[name]
    old, new, count, names = compared(build, affine.gather)
    assert count == 1 and set(names) == operators
    for a, b in zip(old, new, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)


def two_activations(g):
    x, y = g.input(*ROWS), g.input(*ROWS)
    return g.op("MUL", g.op("ADD", x, y, shape=ROWS), y, shape=ROWS)


def broadcasting(g):
    x = g.op("MUL", g.input(1, 1, 7), g.constant(RNG.normal(size=ROWS).astype(np.float32)), shape=ROWS)
    return g.op("ADD", x, g.constant(RNG.normal(size=(1, 11, 1)).astype(np.float32)), shape=ROWS)


def wider(g):
    x = g.op("MUL", g.input(1, 11, 1), g.constant(FACTOR), shape=ROWS)
    return g.op("ADD", x, g.constant(SHIFT), shape=ROWS)


def shared(g):
    x = g.op("MUL", g.input(*ROWS), g.constant(FACTOR), shape=ROWS)
    return [g.op("ADD", x, g.constant(SHIFT), shape=ROWS), g.op("SIN", x, shape=ROWS)]


def inner_output(g):
    x = g.op("MUL", g.input(*ROWS), g.constant(FACTOR), shape=ROWS)
    return [g.op("ADD", x, g.constant(SHIFT), shape=ROWS), x]


def reciprocal(g):
    positive = g.op("ABS", g.input(*ROWS), shape=ROWS)
    more = g.op("ADD", positive, g.constant(1.0), shape=ROWS)
    return g.op("DIV", g.constant(FACTOR), more, shape=ROWS)


def activation_inside(g):
    x = g.op("MUL", g.input(*ROWS), g.constant(FACTOR), shape=ROWS, fusedActivationFunction=RELU)
    return g.op("ADD", x, g.constant(SHIFT), shape=ROWS)


def outer_axis(g):
    """Seven numbers that stand along the first of the data's axes, not along the channels."""
    x = g.input(1, 7, 7)
    x = g.op("MUL", x, g.constant(FACTOR.reshape(7, 1)), shape=(1, 7, 7))
    return g.op("ADD", x, g.constant(SHIFT.reshape(1, 7, 1)), shape=(1, 7, 7))


@pytest.mark.parametrize(
    "build",
    [two_activations, broadcasting, wider, shared, inner_output, reciprocal, activation_inside, outer_axis],
)
def test_other_operators_are_left_alone(build):
    old, new, count, _ = compared(build, affine.gather)
    assert count == 0
    for a, b in zip(old, new, strict=True):
        np.testing.assert_array_equal(a, b)


# --- rewriting.pool_maxima and the removal of what is unused


@pytest.mark.parametrize(
    ("axes", "shape", "keep"),
    [
        ([1], (1, 7), False),
        ([2], (1, 11, 1), True),
        ([-1], (1, 11), False),
        ([1, 2], (1,), False),
        ([2, 1], (1, 1, 1), True),
    ],
)
def test_maxima_are_pooled(axes, shape, keep):
    def build(g):
        x = g.op("ADD", g.input(*ROWS), g.constant(-5.0), shape=ROWS)
        return g.op("REDUCE_MAX", x, g.constant(axes), shape=shape, table="Reducer", keepDims=keep)

    (old,), (new,), _, names = compared(build, rewriting.pool_maxima)
    is_turned = axes in ([2], [-1])  # one channel at a time is slow
    assert names == ["ADD", *["TRANSPOSE"] * is_turned, "RESHAPE", "MAX_POOL_2D", "RESHAPE"]
    np.testing.assert_array_equal(old, new)
    assert old.max() < 0, "a window padded with zeros would show"


@pytest.mark.parametrize(
    ("source", "axes", "shape"), [((1, 5, 7, 3), [1, 3], (1, 7)), ((1, 11, 1), [2], (1, 11))]
)
def test_other_maxima_stay(source, axes, shape):
    def build(g):
        return g.op("REDUCE_MAX", g.input(*source), g.constant(axes), shape=shape, table="Reducer")

    (old,), (new,), _, names = compared(build, rewriting.pool_maxima)
    assert names == ["REDUCE_MAX"]
    np.testing.assert_array_equal(old, new)


def test_what_nothing_reads_is_removed():
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    unread = tiny.op("MUL", x, tiny.constant(np.full(7, 3.0)), shape=(1, 7))
    tiny.op("SIN", unread, shape=(1, 7))
    y = tiny.op("ADD", x, tiny.constant(np.arange(7.0)), shape=(1, 7))
    content = tiny.finish(y)
    graph = graphs.read_graph(content)
    graphs.set_metadata(graph, "note", b"kept")
    graphs.remove_dead(graph)
    place = graphs.remove_unused(graph)
    smaller = graphs.write_graph(graph)
    graph = graphs.read_graph(smaller)
    assert tiny_graphs.operator_names(graph) == ["ADD"] and len(graph.operatorCodes) == 1
    assert len(graph.subgraphs[0].tensors) == 3 and len(graph.buffers) == 3  # empty, ADD's constant, the note
    assert {x, y} < set(place) and unread not in place
    assert graphs.metadata(graph, "note") == b"kept"
    samples = tiny_graphs.normal(tiny.graph)
    np.testing.assert_array_equal(
        *runtime.run_samples(content, samples), *runtime.run_samples(smaller, samples)
    )
