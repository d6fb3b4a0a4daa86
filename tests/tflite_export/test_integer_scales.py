"""Scales: the grid itself, and which tensors share one."""

import numpy as np
import pytest
import tiny_graphs
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime
from keras_attention.tflite.integer import graph_writer
from keras_attention.tflite.integer import kernels
from keras_attention.tflite.integer import scales

ENDS = st.floats(-(2.0**100), 2.0**100, width=32)


def restored(scale, values):
    return (scale.quantize(values).astype(np.float64) - scale.zero_point) * scale.scale


@settings(deadline=None, max_examples=300)
@given(ENDS, ENDS, st.sampled_from([8, 16]), st.integers(0, 2**32 - 1))
def test_error_is_at_most_half_a_step_inside_the_range(first, second, bits, seed):
    low, high = sorted((first, second))
    scale = scales.from_range((low, high), bits)
    values = np.random.default_rng(seed).random(101) * (max(high, 0.0) - min(low, 0.0)) + min(low, 0.0)
    # The zero point is rounded, so that up to half a step falls off one end in 8 bits.
    allowed = 0.5 if bits == 16 else 1.0
    assert np.abs(restored(scale, values) - values).max() <= allowed * scale.scale[0] * (1 + 1e-6)
    inner = values[np.abs(values - (low + high) / 2) < 0.49 * (high - low)]
    if inner.size and bits == 8:
        assert np.abs(restored(scale, inner) - inner).max() <= 0.5 * scale.scale[0] * (1 + 1e-6) + 1e-30


@settings(deadline=None, max_examples=300)
@given(ENDS, ENDS, st.sampled_from([8, 16]))
def test_zero_is_met_exactly(first, second, bits):
    scale = scales.from_range((min(first, second), max(first, second)), bits)
    assert restored(scale, np.zeros(3)).tolist() == [0.0] * 3
    assert scale.zero_point == 0 or bits == 8
    assert -128 <= scale.zero_point <= 127 and np.isfinite(scale.scale).all() and scale.scale[0] > 0
    assert np.float32(scale.scale[0]) > 0, "the file holds float32"


@pytest.mark.parametrize("bits", [8, 16])
def test_nothing_but_zeros(bits):
    scale = scales.from_range((0.0, 0.0), bits)
    assert restored(scale, np.zeros(2)).tolist() == [0.0, 0.0]
    assert np.float32(scale.scale[0]) > 0


def test_the_type_bounds_what_is_stored():
    scale = scales.from_range((-1.0, 1.0), 8)
    assert scale.quantize(np.array([-9.0, 9.0])).tolist() == [-128, 127]
    wide = scales.from_range((-1.0, 1.0), 16)
    assert wide.quantize(np.array([-9.0, 1.0, 9.0])).tolist() == [-32768, 32767, 32767]


def test_weights_have_a_scale_for_each_channel():
    values = np.array([[1.0, -127.0], [0.0, 0.0], [0.127, 0.0]], np.float32)
    scale = scales.of_weights(values, 0)
    np.testing.assert_allclose(scale.scale, [1.0, scales._SMALLEST, 0.001], rtol=1e-6)
    assert scale.quantize(values).tolist() == [[1, -127], [0, 0], [127, 0]]
    across = scales.of_weights(values, 1)
    np.testing.assert_allclose(across.scale, [1 / 127, 1.0], rtol=1e-6)
    bias = scales.of_bias(scales.from_range((0.0, 255.0), 8), across)
    np.testing.assert_allclose(bias.scale, across.scale)
    assert (bias.bits, scales.of_bias(scales.from_range((0.0, 1.0), 16), across).bits) == (32, 64)


def assigned(build, ranges, bits=8):
    """Scales of a graph all of whose operators become integer, and what must be converted."""
    tiny = tiny_graphs.TinyGraph()
    tensors = build(tiny)
    everything = frozenset(range(len(tiny.subgraph.operators)))
    bounds = dict(zip(tensors, ranges, strict=True))
    found, asked = scales.assign(tiny.graph, everything, bounds, bits)
    operators = tiny.subgraph.operators
    converted = {
        (index, position): scale
        for (index, position), scale in asked.items()
        if not graph_writer._equal(scale, found[operators[index].inputs[position]])
    }
    return [found[tensor] for tensor in tensors], converted


def view(g):
    x = g.input(1, 7)
    return [x, g.op("RESHAPE", x, g.constant([7, 1]), shape=(7, 1), newShape=[7, 1])]


def test_a_view_keeps_the_scale_of_what_it_shows():
    (source, result), asked = assigned(view, [(-1.0, 3.0), (0.0, 100.0)])
    assert result is source and not asked
    assert source.scale[0] == pytest.approx(4 / 255)


def join(g):
    x, y = g.input(1, 7), g.input(1, 7)
    return [x, y, g.op("CONCATENATION", x, y, shape=(1, 14), axis=1)]


def test_joined_tensors_of_like_ranges_share_one_scale():
    found, asked = assigned(join, [(-1.0, 1.0), (-0.6, 0.9), (-1.0, 1.0)])
    assert not asked, "no conversion"
    assert len({(float(scale.scale[0]), scale.zero_point) for scale in found}) == 1


def test_a_joined_tensor_of_small_range_keeps_its_own():
    (wide, narrow, result), asked = assigned(join, [(-1.0, 1.0), (-0.01, 0.02), (-1.0, 1.0)])
    assert list(asked) == [(0, 1)] and asked[0, 1] is result
    assert narrow.scale[0] == pytest.approx(0.03 / 255) and wide.scale[0] == pytest.approx(2 / 255)


def test_tiny_ranges_are_not_taken_for_equal():
    (_, narrow, result), asked = assigned(join, [(-1e-9, 1e-9), (-1e-11, 1e-11), (-1e-9, 1e-9)], 16)
    assert list(asked) == [(0, 1)]
    assert narrow.scale[0] == pytest.approx(1e-11 / 32767) and result.scale[0] == pytest.approx(1e-9 / 32767)


def chain_of_joins(g):
    x, y, z = g.input(1, 7), g.input(1, 7), g.input(1, 7)
    first = g.op("CONCATENATION", x, y, shape=(1, 14), axis=1)
    return [x, y, z, first, g.op("CONCATENATION", first, z, shape=(1, 21), axis=1)]


def test_a_chain_of_joins_shares_the_scale_of_its_end():
    found, asked = assigned(chain_of_joins, [(-1.0, 1.0), (-1.2, 1.0), (-2.0, 2.0), (-1.2, 1.0), (-2.0, 2.0)])
    assert not asked
    assert {float(scale.scale[0]) for scale in found} == {4 / 255}


@pytest.mark.parametrize("bits", [8, 16])
def test_fixed_outputs(bits):
    def build(g):
        x = g.input(1, 7)
        return [x, g.op("LOGISTIC", x, shape=(1, 7)), g.op("TANH", x, shape=(1, 7))]

    (_, unit, signed), _ = assigned(build, [(-3.0, 3.0)] * 3, bits)
    for scale, kernel in ((unit, "LOGISTIC"), (signed, "TANH")):
        assert (float(scale.scale[0]), scale.zero_point) == kernels.KERNELS[kernel].fixed(bits)


def written(tiny, outputs, ranges, bits, io_dtype="float32", operators=None):
    content = tiny.finish(*outputs)
    everything = frozenset(range(len(tiny.subgraph.operators)))
    chosen = everything if operators is None else operators
    return content, graph_writer.write_integer(
        graphs.read_graph(content), chosen, ranges, bits, io_dtype=io_dtype
    )


def test_a_constant_that_is_only_shown():
    """GATHER of a stored table: the table gets the scale of its values."""
    tiny = tiny_graphs.TinyGraph()
    table = np.random.default_rng(1).uniform(-0.03, 0.05, (101, 7)).astype(np.float32)
    ids = tiny.input(1, 5, kind="int32")
    rows = tiny.op("GATHER", tiny.constant(table), ids, shape=(1, 5, 7))
    _, new = written(tiny, [rows], {rows: (-9.0, 9.0)}, 8)
    samples = {"i0": np.arange(100).reshape(20, 5).astype(np.int32)}
    (got,) = runtime.run_samples(new, samples)
    assert np.abs(got - table[:100].reshape(20, 5, 7)).max() <= 0.08 / 255


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6, 1e12])
def test_tiny_and_huge_numbers(bits, size):
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    weights = np.random.default_rng(2).normal(size=(5, 7)).astype(np.float32)
    y = tiny.op(
        "FULLY_CONNECTED", x, tiny.constant(weights), tiny.constant(size * weights[:, 0]), shape=(1, 5)
    )
    samples = tiny_graphs.normal(tiny.graph, scale=size)
    wanted = samples["i0"] @ weights.T + size * weights[:, 0]
    ranges = {x: (samples["i0"].min(), samples["i0"].max()), y: (wanted.min(), wanted.max())}
    (got,) = runtime.run_samples(written(tiny, [y], ranges, bits)[1], samples)
    assert np.abs(got - wanted).max() < 0.03 * np.abs(wanted).max()


def test_a_large_bias_beside_tiny_weights_fits():
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    weights = np.full((5, 7), 1e-9, np.float32)
    y = tiny.op("FULLY_CONNECTED", x, tiny.constant(weights), tiny.constant(np.full(5, 3.0)), shape=(1, 5))
    _, new = written(tiny, [y], {x: (-1.0, 1.0), y: (0.0, 3.0)}, 8)
    (got,) = runtime.run_samples(new, {"i0": np.ones((2, 7), np.float32)})
    np.testing.assert_allclose(got, 3.0, rtol=0.01)


@pytest.mark.parametrize(("bits", "io_dtype"), [(8, "int8"), (8, "uint8"), (16, "int16")])
def test_inputs_and_outputs_in_integers(bits, io_dtype):
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    y = tiny.op("MUL", x, tiny.constant(2.0), shape=(1, 7))
    z = tiny.op("LOGISTIC", y, shape=(1, 7))
    ranges = {x: (-4.0, 4.0), y: (-8.0, 8.0), z: (0.0, 1.0)}
    content, new = written(tiny, [z, y], ranges, bits, io_dtype)  # y is read inside as well
    graph = graphs.read_graph(new)
    sides = graphs.interface(graph)
    assert [e["dtype"] for e in (*sides["inputs"], *sides["outputs"])] == [io_dtype] * 3
    assert "float32" not in graphs.count_tensor_types(graph)
    samples = tiny_graphs.normal(tiny.graph)
    for got, wanted in zip(
        runtime.run_samples(new, samples), runtime.run_samples(content, samples), strict=True
    ):
        assert np.abs(got - wanted).max() <= (0.06 if bits == 8 else 0.001)


@pytest.mark.parametrize("io_dtype", ["float32", "int8", "uint8"])
def test_an_output_that_is_an_input(io_dtype):
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    y = tiny.op("MUL", x, tiny.constant(2.0), shape=(1, 7))
    content, new = written(tiny, [y, x, y], {x: (-4.0, 4.0), y: (-8.0, 8.0)}, 8, io_dtype)
    sides = graphs.interface(graphs.read_graph(new))
    assert [e["dtype"] for e in sides["outputs"]] == [io_dtype] * 3
    samples = tiny_graphs.normal(tiny.graph)
    for got, wanted in zip(
        runtime.run_samples(new, samples), runtime.run_samples(content, samples), strict=True
    ):
        assert np.abs(got - wanted).max() <= 0.06


def test_one_conversion_serves_all_readers():
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    a, b = (tiny.op("MUL", x, tiny.constant(k), shape=(1, 7)) for k in (2.0, 3.0))
    c = tiny.op("SIN", a, shape=(1, 7))
    d = tiny.op("SIN", a, shape=(1, 7))
    ranges = {x: (-4.0, 4.0), a: (-8.0, 8.0), b: (-12.0, 12.0)}
    _, new = written(tiny, [b, c, d], ranges, 8, operators=frozenset({0, 1}))
    names = tiny_graphs.operator_names(graphs.read_graph(new))
    assert names.count("QUANTIZE") == 1 and names.count("DEQUANTIZE") == 2


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("relu", ["NONE", "RELU", "RELU6"])
@pytest.mark.parametrize("name", ["ADD", "SUB", "FULLY_CONNECTED"])
def test_a_result_of_nothing_but_zeros(name, relu, bits):
    """Its own range would ask for steps of 1e-30, which the runtime refuses or crashes on."""
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 7)
    options = {"fusedActivationFunction": getattr(schema.ActivationFunctionType, relu)}
    if name == "FULLY_CONNECTED":
        weights, shift = np.random.default_rng(3).normal(size=(5, 7)), np.full(5, -100.0)
        if relu == "NONE":
            weights, shift = 0.0 * weights, 0.0 * shift
        y = tiny.op(name, x, tiny.constant(weights), tiny.constant(shift), shape=(1, 5), **options)
    elif relu == "NONE":
        y = tiny.op("SUB", x, x, shape=(1, 7))
    else:
        y = tiny.op(name, x, tiny.constant(-100.0 if name == "ADD" else 100.0), shape=(1, 7), **options)
    samples = tiny_graphs.normal(tiny.graph)
    _, new = written(tiny, [y], {x: (-4.0, 4.0), y: (0.0, 0.0)}, bits)
    assert np.abs(runtime.run_samples(new, samples)[0]).max() <= 0.05


def test_a_sum_is_no_finer_than_its_terms():
    """What is left where two terms cancel out has no steps of its own."""

    def build(g):
        x, y = g.input(1, 7), g.input(1, 7)
        return [x, y, g.op("SUB", x, y, shape=(1, 7))]

    (x, _, result), _ = assigned(build, [(-4.0, 4.0), (-4.0, 4.0), (-1e-6, 1e-6)])
    assert result.scale[0] == pytest.approx(x.scale[0] / scales.FINER)
