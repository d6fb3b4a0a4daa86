"""Normalizations in fewer steps: the answers stay, gamma and beta go where only products read them."""

import functools

import keras
import keras_files
import numpy as np
import pytest
import tiny_graphs
from ai_edge_litert import schema_py_generated as schema
from keras import layers
from tiny_graphs import operator_names

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import norm_folding
from keras_attention.tflite import runtime

SHAPE = (11, 14)
NORMS = {
    "layer": lambda: layers.LayerNormalization(),
    "no scale": lambda: layers.LayerNormalization(scale=False),
    "no center": lambda: layers.LayerNormalization(center=False),
    "neither": lambda: layers.LayerNormalization(scale=False, center=False),
    "rms": lambda: layers.RMSNormalization(),
    "axis 1": lambda: layers.LayerNormalization(axis=1),
    "two axes": lambda: layers.LayerNormalization(axis=(1, 2)),
    "group": lambda: layers.GroupNormalization(2),
}
FOLDED = ("layer", "no scale", "no center", "rms")


def products(x):
    """Two products with weights of their own, one without a bias."""
    return layers.Dense(5)(x), layers.Dense(3, use_bias=False)(x)


def activation(x):
    return layers.Activation("relu")(x)


def residual(x):
    return x + layers.Dense(SHAPE[-1])(x)


def two_norms_one_kernel():
    keras.utils.set_random_seed(5)
    given = keras.Input(SHAPE, name="x")
    dense = layers.Dense(67)
    outputs = [dense(layers.LayerNormalization(name=name)(given)) for name in ("first", "second")]
    return moved(keras.Model(given, outputs))


def moved(model):
    """The model with weights that are not those of its start."""
    rng = np.random.default_rng(20240605)
    model.set_weights([w + rng.uniform(0.1, 0.6, w.shape) for w in model.get_weights()])
    return model


def built(norm, head):
    keras.utils.set_random_seed(5)
    given = keras.Input(SHAPE, name="x")
    return moved(keras.Model(given, head(NORMS[norm]()(given))))


@functools.cache
def folded(norm, head):
    """The model, its float file, and that file folded."""
    model = built(norm, head)
    content = keras_files.float_file(model)
    return model, content, norm_folding.fold(content)


def names(content):
    return operator_names(graphs.read_graph(content))


def samples():
    return {"x": (3.0 + 2.0 * np.random.default_rng(3).normal(size=(31, *SHAPE))).astype(np.float32)}


@pytest.mark.parametrize("head", [products, activation, residual])
@pytest.mark.parametrize("norm", NORMS)
def test_answers_stay(norm, head):
    model, content, new = folded(norm, head)
    # an activation that is fused into the last step of a norm without gamma and beta has no other place
    assert (new == content) == (norm == "neither" and head is activation)
    expected = keras.tree.flatten(model.predict(samples()["x"], verbose=0))
    for one, other in zip(runtime.run_samples(new, samples()), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def count_scales(content):
    """How many operators multiply or add."""
    found = names(content)
    return found.count("MUL") + found.count("ADD")


@pytest.mark.parametrize("norm", NORMS)
def test_gamma_and_beta_become_weights(norm):
    new = folded(norm, products)[2]
    assert ("SUB" in names(new)) == (norm != "rms")
    kept = count_scales(new) - count_scales(folded("neither", products)[2])
    assert (kept > 0) == (norm not in (*FOLDED, "neither"))


def test_gamma_and_beta_stay_where_others_read_the_norm():
    assert count_scales(folded("layer", residual)[2]) == count_scales(folded("neither", residual)[2]) + 2


def test_a_kernel_of_two_norms_is_stored_once():
    model = two_norms_one_kernel()
    content = keras_files.float_file(model)
    new = norm_folding.fold(content)
    assert len(new) < len(content) + 4 * 67
    expected = model.predict(samples()["x"], verbose=0)
    for one, other in zip(runtime.run_samples(new, samples()), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_fewer_passes_over_the_data():
    _, content, new = folded("layer", products)
    wide = [1, *SHAPE]

    def passes(file):
        graph = graphs.read_graph(file)
        tensors = graph.subgraphs[0].tensors
        return sum(list(tensors[op.outputs[0]].shape) == wide for op in graph.subgraphs[0].operators)

    assert (passes(content), passes(new)) == (6, 3)


def test_a_file_without_norms_is_left_as_it_is():
    given = keras.Input(SHAPE, name="x")
    content = keras_files.float_file(keras.Model(given, layers.Dense(3)(given)))
    assert norm_folding.fold(content) is content


@pytest.mark.parametrize(("spread", "kept"), [(1.9, 0), (2.1, 2)])
def test_uneven_gammas_stay_in_quantized_files(spread, kept):
    model = built("layer", products)
    gamma, beta, *rest = model.get_weights()
    gamma = np.linspace(1.0, spread, len(gamma), dtype=np.float32)
    model.set_weights([gamma, beta, *rest])
    content = keras_files.float_file(model)
    new = norm_folding.fold(content, norm_folding.QUANTIZED_SPREAD)
    assert count_scales(new) - count_scales(folded("neither", products)[2]) == kept
    assert count_scales(norm_folding.fold(content)) == count_scales(folded("neither", products)[2])


@pytest.mark.parametrize("fused", ["NONE", "RELU6"])
@pytest.mark.parametrize("wide", [False, True])
def test_what_only_looks_like_a_norm_is_left(fused, wide):
    """An activation at the end of a root mean square, and a gamma that makes the result larger."""
    tiny = tiny_graphs.TinyGraph()
    x = tiny.input(1, 11, 1 if wide else 14)
    size = (1, 11, 14)
    shape = (1, 11, 1) if wide else size
    squares = tiny.op("MUL", x, x, shape=shape)
    narrow = (1, 1, 1) if wide else (1, 11, 1)
    axes = tiny.constant([1 if wide else 2])
    mean = tiny.op("MEAN", squares, axes, shape=narrow, table="Reducer", keepDims=True)
    root = tiny.op("RSQRT", tiny.op("ADD", mean, tiny.constant(1e-3), shape=narrow), shape=narrow)
    gamma = tiny.constant(np.linspace(0.5, 3.0, 14).reshape(1, 1, 14))
    factor = tiny.op("MUL", root, gamma, shape=(1, 1, 14) if wide else size)
    code = getattr(schema.ActivationFunctionType, fused)
    content = tiny.finish(tiny.op("MUL", x, factor, shape=size, fusedActivationFunction=code))
    assert (norm_folding.fold(content) != content) == (fused == "NONE" and not wide)
