"""Convolutions of one or two channels, and means, in the forms that are fast and safe: the same numbers."""

import numpy as np
import pytest
import tiny_graphs
from ai_edge_litert import schema_py_generated as schema
from tiny_graphs import compared

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import means
from keras_attention.tflite import narrow_convolutions
from keras_attention.tflite import quantization
from keras_attention.tflite import runtime

SAME, VALID = schema.Padding.SAME, schema.Padding.VALID
RELU = schema.ActivationFunctionType.RELU


def convolution(shape, kernel, padding=SAME, stride=1, **more):
    """A graph of one convolution: `kernel` is (outputs, height, width, inputs)."""

    def build(g):
        rng = np.random.default_rng(3)
        weights = g.constant(rng.normal(size=kernel))
        bias = g.constant(rng.normal(size=kernel[0]))
        sizes = [
            -(-n // stride) if padding == SAME else n - k + 1 for n, k in zip(shape, kernel[1:3], strict=True)
        ]
        return g.op(
            "CONV_2D",
            g.input(1, *shape, kernel[3]),
            weights,
            bias,
            shape=(1, *sizes, kernel[0]),
            table="Conv2D",
            padding=padding,
            strideH=stride,
            strideW=stride,
            dilationHFactor=1,
            dilationWFactor=1,
            **more,
        )

    return build


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((13, 32), (1, 7, 7, 2)),  # two blocks of 16 columns, each of which sees its neighbour
        ((13, 31), (1, 7, 7, 2)),  # a prime number of columns: the second block goes one beyond the row
        ((13, 17), (3, 5, 7, 2)),  # blocks of 9
        ((17, 14), (3, 5, 3, 1)),  # one block
        ((31, 22), (2, 7, 7, 2)),  # blocks of 11
        ((19, 10), (1, 3, 9, 3)),
        ((61, 34), (1, 1, 7, 2)),  # blocks of 12, two columns beyond the row
        ((7, 17), (1, 1, 21, 2)),  # a kernel that reaches two blocks to either side
        ((1, 512), (1, 1, 7, 2)),  # a sequence
    ],
)
def test_columns_become_channels(shape, kernel):
    build = convolution(shape, kernel, fusedActivationFunction=RELU)
    (old,), (new,), _, names = compared(build, narrow_convolutions.widen)
    views = ["RESHAPE", "CONV_2D", "RESHAPE"]
    assert names == (views if shape[1] in (32, 14, 22, 10, 512) else ["PAD", *views, "SLICE"])
    assert np.ptp(old) > 1
    np.testing.assert_allclose(new, old, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((2, 2), (1, 7, 7, 2)),  # most of the kernel lies beyond the map
        ((7, 7), (3, 7, 7, 2)),  # as many places as the kernel has
        ((3, 5), (1, 5, 3, 4)),
        ((5, 2), (2, 4, 6, 1)),  # even sides, which reach further down and to the right
        ((1, 7), (1, 1, 7, 2)),
    ],
)
def test_a_map_no_larger_than_the_kernel_becomes_a_matrix(shape, kernel):
    build = convolution(shape, kernel, fusedActivationFunction=RELU)
    (old,), (new,), _, names = compared(build, narrow_convolutions.widen)
    assert names == ["RESHAPE", "FULLY_CONNECTED", "RESHAPE"]
    assert np.ptp(old) > 1
    np.testing.assert_allclose(new, old, atol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        convolution((16, 32), (1, 7, 7, 5)),
        convolution((3, 5), (8, 5, 5, 2)),
        convolution((1, 1), (3, 1, 1, 2)),
        convolution((16, 32), (8, 7, 7, 2)),
        convolution((16, 32), (1, 7, 7, 2), padding=VALID),
        convolution((16, 32), (1, 7, 7, 2), stride=2),
        convolution((16, 32), (1, 7, 1, 2)),
        convolution((64, 32), (1, 6, 6, 2)),
        convolution((4, 4), (1, 3, 3, 1)),
    ],
    ids=["inputs", "many_on_few", "one_place", "outputs", "padding", "stride", "one_column", "even", "small"],
)
def test_other_convolutions_stay(build):
    (old,), (new,), _, names = compared(build, narrow_convolutions.widen)
    assert names == ["CONV_2D"]
    np.testing.assert_array_equal(new, old)


def mean_of(shape, axes, result, keep):
    return lambda g: g.op(
        "MEAN", g.input(*shape), g.constant(axes), shape=result, table="Reducer", keepDims=keep
    )


@pytest.mark.parametrize(
    ("axes", "result", "keep"),
    [([1, 2], (1, 11), False), ([1, 2], (1, 1, 1, 11), True), ([2], (1, 5, 11), False)],
)
def test_places_are_divided_before_they_are_added(axes, result, keep):
    (old,), (new,), _, names = compared(mean_of((1, 5, 7, 11), axes, result, keep), means.scale_before_sums)
    assert names == ["MUL", "SUM"]
    np.testing.assert_allclose(new, old, atol=1e-6)


@pytest.mark.parametrize(("result", "keep"), [((1, 5, 7), False), ((1, 5, 7, 1), True)])
def test_channels_are_added_by_a_product(result, keep):
    (old,), (new,), _, names = compared(mean_of((1, 5, 7, 11), [3], result, keep), means.project_means)
    assert names == ["FULLY_CONNECTED", "RESHAPE"]
    np.testing.assert_allclose(new, old, atol=1e-6)


def norm(g):
    x = g.input(1, 5, 7)
    mean = g.op("MEAN", x, g.constant([2]), shape=(1, 5, 1), table="Reducer", keepDims=True)
    return g.op("SUB", x, mean, shape=(1, 5, 7))


@pytest.mark.parametrize("change", [means.scale_before_sums, means.project_means])
@pytest.mark.parametrize("build", [norm, mean_of((1, 5, 7), [1, 2], (1,), False)])
def test_other_means_stay(build, change):
    (old,), (new,), _, names = compared(build, change)
    assert names[0] == "MEAN"
    np.testing.assert_array_equal(new, old)


def test_no_sum_of_the_float16_file_is_beyond_float16():
    # every operator of the file computed in float16, sums one value after the other as a GPU may do
    tiny = tiny_graphs.TinyGraph()
    x = tiny.op("MUL", tiny.input(1, 13, 17, 4), tiny.constant(1.0), shape=(1, 13, 17, 4))
    places = tiny.op("MEAN", x, tiny.constant([1, 2]), shape=(1, 4), table="Reducer", keepDims=False)
    channels = tiny.op("MEAN", x, tiny.constant([3]), shape=(1, 13, 17), table="Reducer", keepDims=False)
    content = quantization.quantize(tiny.finish(places, channels), "float16", None).content
    graph = graphs.read_graph(content)
    names = tiny_graphs.operator_names(graph)
    assert "MEAN" not in names and {"MUL", "SUM", "FULLY_CONNECTED"} <= set(names)
    inputs = np.full((1, 13, 17, 4), 6e4, np.float16)
    shares = [
        graphs.constant_value(graph, graph.subgraphs[0].tensors[op.inputs[1]])
        for op, name in zip(graph.subgraphs[0].operators, names, strict=True)
        if name == "MUL"
    ]
    share = min(shares)  # the other one is the 1 above
    total = np.float16(0)
    for value in inputs.ravel()[::4]:
        total += np.float16(value * np.float16(share))
    assert np.isfinite(total) and abs(total / 6e4 - 1) < 0.15
    for answer in runtime.run_samples(content, {"i0": inputs.astype(np.float32)}):
        np.testing.assert_allclose(answer, 6e4, rtol=1e-3)
