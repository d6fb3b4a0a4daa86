"""Attention of one query and norms of few vectors in the int8 operators of the delegate."""

import keras
import keras_files
import numpy as np
import pytest
import tiny_graphs
from tiny_graphs import compared

from keras_attention import AttentionPooling
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import quantization
from keras_attention.tflite import runtime
from keras_attention.tflite.integer import curves
from keras_attention.tflite.integer import forms
from keras_attention.tflite.integer import single_rows

LENGTH, CHANNELS = 17, 5


def pooling(g, sharpness=1.0, length=LENGTH):
    """A softmax of one row over the places of an image, and the mean that it weighs."""
    x = g.op("MUL", g.input(1, length, CHANNELS), g.constant(1.0), shape=(1, length, CHANNELS))
    weights = g.constant(sharpness * np.linspace(-0.5, 0.7, CHANNELS)[None])
    logits = g.op("FULLY_CONNECTED", x, weights, -1, shape=(1, length, 1), version=4, keepNumDims=True)
    row = g.op("RESHAPE", logits, g.constant([1, 1, length]), shape=(1, 1, length))
    scores = g.op("SOFTMAX", row, shape=(1, 1, length), beta=1.0)
    return g.op("BATCH_MATMUL", scores, x, shape=(1, 1, CHANNELS), table="BatchMatMul")


def ranges_of(graph, bounds):
    """Every float tensor of the graph with the same range."""
    return dict.fromkeys(range(len(graph.subgraphs[0].tensors)), bounds)


def test_softmax_becomes_a_quotient():
    (old,), (new,), sums, names = compared(pooling, single_rows.split_softmax)
    assert len(sums) == 1
    assert names == "MUL FULLY_CONNECTED RESHAPE REDUCE_MAX SUB EXP SUM DIV BATCH_MATMUL".split()
    np.testing.assert_allclose(new, old, atol=1e-5)


def classifier(g):
    x = g.op("FULLY_CONNECTED", g.input(1, 7), g.constant(np.eye(3, 7)), -1, shape=(1, 3))
    return g.op("SOFTMAX", x, shape=(1, 3), beta=1.0)


def many_rows(g):
    x = g.op("FULLY_CONNECTED", g.input(1, 3, 7), g.constant(np.eye(5, 7)), -1, shape=(1, 3, 5), version=4)
    scores = g.op("SOFTMAX", x, shape=(1, 3, 5), beta=1.0)
    return g.op("BATCH_MATMUL", scores, g.input(1, 5, 2), shape=(1, 3, 2), table="BatchMatMul")


def masked(g):
    x = g.op("FULLY_CONNECTED", g.input(1, 7), g.constant(np.eye(5, 7)), -1, shape=(1, 5))
    x = g.op("ADD", x, g.constant([0.0, -9.0, 0.0, -9.0, 0.0]), shape=(1, 5))
    scores = g.op("SOFTMAX", x, shape=(1, 5), beta=1.0)
    return g.op("BATCH_MATMUL", scores, g.input(5, 2), shape=(1, 2), table="BatchMatMul")


@pytest.mark.parametrize("build", [classifier, many_rows, masked])
def test_other_softmaxes_stay(build):
    (old,), (new,), sums, names = compared(build, single_rows.split_softmax)
    assert not sums and "SOFTMAX" in names
    np.testing.assert_array_equal(old, new)


def test_exponentials_and_quotients():
    def build(g):
        x = g.op("MINIMUM", g.input(1, 11), g.constant(0.0), shape=(1, 11))
        return g.op("DIV", g.op("EXP", x, shape=(1, 11)), g.input(1, 1), shape=(1, 11))

    def change(graph):
        single_rows.rewrite(graph, {**ranges_of(graph, (1.0, 8.0)), 2: (-9.0, 0.0)})

    rng = np.random.default_rng(3)
    samples = {
        "i0": rng.normal(size=(61, 11)).astype("float32"),
        "i1": rng.uniform(1, 8, (61, 1)).astype("float32"),
    }
    (old,), (new,), _, names = compared(build, change, samples)
    assert "ELU" in names and not {"EXP", "DIV"} & set(names)
    np.testing.assert_allclose(new, old, rtol=0.01)


def test_what_no_range_allows_stays():
    def build(g):
        return g.op("DIV", g.op("EXP", g.input(1, 11), shape=(1, 11)), g.input(1, 1), shape=(1, 11))

    for bounds in ((-1.0, 1.0), (0.01, 1.0)):
        *_, names = compared(build, lambda graph, b=bounds: single_rows.rewrite(graph, ranges_of(graph, b)))
        assert names == ["EXP", "DIV"]


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize(
    ("low", "high", "shift"), [(3.0, 3.0, 0.0), (0.2, 0.9, 0.0), (5.0, 50.0, 1.0), (0.01, 0.3, 0.0)]
)
def test_curves(power, low, high, shift):
    assert curves.spans((low, high), shift)

    def build(g):
        return g.op("ADD", g.input(1, 1), g.constant(0.0), shape=(1, 1))

    def change(graph):
        tensor = int(graph.subgraphs[0].outputs[0])
        chain = forms.Chain(graph, tensor)
        result = curves.add_power(chain, tensor, (low, high), power, shift)
        graph.subgraphs[0].operators += chain.operators
        graph.subgraphs[0].outputs = [result]
        graph.signatureDefs[0].outputs[0].tensorIndex = result

    x = np.linspace(low, high, 61, dtype="float32")[:, None]
    _, (new,), _, names = compared(build, change, {"i0": x})
    assert names.count("ELU") <= curves.MOST_TERMS
    np.testing.assert_allclose(new, (x + shift) ** -power, rtol=0.03 if high > 10 * low else 0.01)


def test_ranges_too_wide_for_int8():
    assert not curves.spans((0.0, 1.0)) and not curves.spans((-1.0, 1.0)) and not curves.spans((0.01, 1.0))
    assert curves.spans((0.0, 1.0), 0.1)


def of_different_sharpness(length, count, most):
    """Samples of which some attend to one place and some to all alike."""
    rng = np.random.default_rng(11)
    samples = rng.normal(size=(count, length, CHANNELS)) + 1.0
    samples *= np.geomspace(0.02, most, count)[:, None, None]
    return {"i0": rng.permutation(samples).astype("float32")}


@pytest.mark.parametrize(
    ("length", "most", "num_sums"),
    [
        (LENGTH, 6.0, 1),
        (LENGTH, 12.0, 1),
        (67, 12.0, 2),  # sums from 1 to 67: divided by twice
        (199, 12.0, 2),
        (401, 12.0, 0),  # from 1 to 401, more than int8 has steps for
    ],
)
def test_int8_file(length, most, num_sums):
    """In one piece, unless int8 has no steps for the sums of the exponentials."""
    tiny = tiny_graphs.TinyGraph()
    content = tiny.finish(pooling(tiny, 2.0, length))
    samples = of_different_sharpness(length, 128, most)
    made = quantization.quantize(content, "int8_full", samples, io_dtype="int8").content
    names = tiny_graphs.operator_names(graphs.read_graph(made))
    assert ("SOFTMAX" in names) != ("ELU" in names)
    assert names.count("SUM") == num_sums + 1  # and that of the weighted places
    assert runtime.is_fully_delegated(made) == ("ELU" in names)
    if num_sums:
        assert runtime.partitions_and_operators(made)[0] == 1
    expected = runtime.run_samples(content, samples)[0]
    noise = runtime.run_samples(made, samples)[0] - expected
    assert 10 * np.log10(np.square(expected).sum() / np.square(noise).sum()) > (25 if num_sums else 20)


def test_a_second_quotient_corrects_coarse_sums():
    """In int8 the largest weights of a sharp sample, whose sum is the smallest, come out as they should."""
    tiny = tiny_graphs.TinyGraph()
    content = tiny.finish(pooling(tiny, 2.0, 67))
    samples = of_different_sharpness(67, 128, 12.0)
    made = quantization.quantize(content, "int8_full", samples, io_dtype="int8").content
    expected, found = (runtime.run_samples(file, samples)[0] for file in (content, made))
    sharp = np.abs(expected).max(axis=(1, 2)) > 0.5 * np.abs(expected).max()
    assert 3 < sharp.sum() < 100
    share = np.square(found[sharp] - expected[sharp]).sum() / np.square(expected[sharp]).sum()
    assert 10 * np.log10(1 / share) > 36


@pytest.mark.parametrize(
    ("least", "num_roots"),
    [
        (0.4, 0),  # variances span a factor of some 15: one curve
        (0.15, 0),  # of some 600: two in a row
        (0.02, 2),  # beyond what two can do: roots outside of the delegate
    ],
)
def test_a_norm_of_one_vector(least, num_roots):
    """LayerNorm of a pooled image: in one piece, unless int8 has no steps for the variances."""
    keras.utils.set_random_seed(5)
    inputs = keras.Input((8,), name="x")
    x = keras.layers.LayerNormalization(epsilon=1e-6)(keras.layers.Dense(8, use_bias=False)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(5, bias_initializer="normal")(x))
    rng = np.random.default_rng(13)
    values = rng.permutation(rng.normal(size=(128, 8)) * np.geomspace(least, 1.0, 128)[:, None])
    samples = {"x": values.astype("float32")}
    content = keras_files.float_file(model)
    made = quantization.quantize(content, "int8_full", samples, io_dtype="int8").content
    names = tiny_graphs.operator_names(graphs.read_graph(made))
    assert names.count("RSQRT") == num_roots and ("ELU" in names) == (num_roots == 0)
    assert runtime.is_fully_delegated(made) == (num_roots == 0)
    expected = runtime.run_samples(content, samples)[0]
    noise = runtime.run_samples(made, samples)[0] - expected
    assert 10 * np.log10(np.square(expected).sum() / np.square(noise).sum()) > (15 if num_roots else 22)


@pytest.mark.parametrize(("most", "is_pooled"), [(1.0, True), (12.0, False)])
def test_products_are_summed_in_one_where_that_is_exacter(most, is_pooled):
    """Quiet samples, whose products int8 would round to nothing beside those of loud and sharp ones."""
    keras.utils.set_random_seed(4)
    inputs = keras.Input((20, 8), name="x")
    x = AttentionPooling()(keras.layers.Dense(8)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(5)(x))
    rng = np.random.default_rng(4)
    values = (rng.normal(size=(96, 20, 8)) + 1) * np.geomspace(min(0.2, most), most, 96)[:, None, None]
    samples = {"x": rng.permutation(values).astype("float32")}
    content = keras_files.float_file(model)
    found = quantization.quantize(content, "int8_full", samples, io_dtype="int8")
    names = tiny_graphs.operator_names(graphs.read_graph(found.content))
    assert ("BATCH_MATMUL" not in names) == is_pooled
    assert any("exacter" in change for change in found.changes) != is_pooled
    assert runtime.is_fully_delegated(found.content) == is_pooled
    expected = runtime.run_samples(content, samples)[0]
    noise = runtime.run_samples(found.content, samples)[0] - expected
    assert 10 * np.log10(np.square(expected).sum() / np.square(noise).sum()) > 20
