"""Normalizations: which are found, and that their better form is the same in real numbers."""

import functools

import keras
import keras_files
import numpy as np
import pytest
from keras import layers
from keras import ops

from keras_attention.tflite import calibration
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import metrics
from keras_attention.tflite import runtime
from keras_attention.tflite.integer import coverage
from keras_attention.tflite.integer import norms
from keras_attention.tflite.integer import search

SHAPE = (11, 14)
NORMS = {
    "layer": (layers.LayerNormalization, {}),
    "axis 1": (layers.LayerNormalization, {"axis": 1}),
    "two axes": (layers.LayerNormalization, {"axis": (1, 2)}),
    "no scale": (layers.LayerNormalization, {"scale": False}),
    "no center": (layers.LayerNormalization, {"center": False}),
    "neither": (layers.LayerNormalization, {"scale": False, "center": False}),
    "group": (layers.GroupNormalization, {"groups": 2}),
    "group of all": (layers.GroupNormalization, {"groups": 1}),
    "instance": (layers.GroupNormalization, {"groups": -1}),
    "rms": (layers.RMSNormalization, {}),
}


def moved(model):
    """The model with weights that are not those of its start."""
    rng = np.random.default_rng(20240605)
    model.set_weights([w + rng.uniform(0.1, 0.6, w.shape) for w in model.get_weights()])
    return model


@functools.cache
def file_of(name):
    kind, options = NORMS[name]
    inputs = keras.Input(SHAPE, name="x")
    model = moved(keras.Model(inputs, kind(**options, name="norm")(inputs + 0.5)))
    return model, keras_files.float_file(model)


def tokens(count=31, uneven=3.0, seed=3):
    """Tokens whose sizes spread over orders of magnitude."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-uneven, 0.0, (count, SHAPE[0], 1))
    return (sizes * rng.normal(size=(count, *SHAPE))).astype(np.float32)


def rewritten(content, samples, twice):
    graph = graphs.read_graph(content)
    found = norms.find(graph)
    ranges = calibration.collect_ranges(content, samples, coverage.float_activations(graph)).by_kind["minmax"]
    even = {norm.variance: (1e-3, 1e-3) for norm in found}
    room = norms.rewrite(graph, found, ranges if twice else even, 8)
    graphs.remove_unused(graph)
    return found, room, graphs.write_graph(graph)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("name", NORMS)
def test_norm_is_found_and_computes_the_same(name, twice):
    model, content = file_of(name)
    samples = {"x": tokens()}
    found, room, new = rewritten(content, samples, twice)
    assert len(found) == 1
    assert not room or twice
    expected = model.predict(samples["x"], verbose=0)
    np.testing.assert_allclose(runtime.run_samples(new, samples)[0], expected, rtol=2e-4, atol=2e-4)


def test_second_pass_only_where_variances_are_uneven():
    _, content = file_of("layer")
    assert rewritten(content, {"x": tokens(uneven=3.0)}, True)[1]
    signs = np.tile(np.repeat([-1.0, 1.0], 7), (31, 11, 1))
    alike = np.random.default_rng(4).permuted(signs, axis=-1).astype(np.float32)
    assert not rewritten(content, {"x": alike}, True)[1]


@pytest.mark.parametrize("size", [1e-6, 1e-3, 3e-2, 1.0])
def test_second_pass_is_exact_beside_epsilon(size):
    """Variances below, near and above epsilon = 0.001."""
    inputs = keras.Input(SHAPE, name="x")
    model = moved(keras.Model(inputs, layers.LayerNormalization()(inputs)))
    samples = {"x": np.concatenate([tokens(7, 0.0) * np.float32(size), tokens(7, 0.0) * 5])}
    _, room, new = rewritten(keras_files.float_file(model), samples, True)
    assert room
    got = runtime.run_samples(new, samples)[0]
    np.testing.assert_allclose(got, model.predict(samples["x"], verbose=0), rtol=1e-4, atol=1e-4)


def mean_only(x):
    return x - ops.mean(x, axis=-1, keepdims=True)


def foreign_mean(x):
    """Normalized by the variance about another mean."""
    other = ops.mean(ops.sin(x), axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x - other), axis=-1, keepdims=True)
    return (x - ops.mean(x, axis=-1, keepdims=True)) * ops.rsqrt(variance + 0.01)


def foreign_factor(x):
    """RMS of one tensor scales another."""
    return ops.sin(x) * ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + 0.01)


def plus_mean(x):
    """The mean is added where a norm takes it off."""
    mean = ops.mean(x, axis=-1, keepdims=True)
    factor = ops.rsqrt(ops.mean(ops.square(x - mean), axis=-1, keepdims=True) + 0.01)
    return x * factor + mean * factor


def other_axis_mean(x):
    mean = ops.mean(x, axis=1, keepdims=True)
    factor = ops.rsqrt(ops.mean(ops.square(x - mean), axis=-1, keepdims=True) + 0.01)
    return x * factor + (0.3 - mean * factor)


def shared_factor(x):
    """A norm whose factor is read once more."""
    mean = ops.mean(x, axis=-1, keepdims=True)
    factor = ops.rsqrt(ops.mean(ops.square(x - mean), axis=-1, keepdims=True) + 0.01)
    return x * factor + (0.3 - mean * factor), factor


LOOKALIKES = [mean_only, foreign_mean, foreign_factor, plus_mean, other_axis_mean, shared_factor]


@pytest.mark.parametrize("function", LOOKALIKES)
def test_lookalikes_compute_the_same(function):
    inputs = keras.Input(SHAPE, name="x")
    model = keras.Model(inputs, function(inputs))
    samples = {"x": tokens()}
    found, _, new = rewritten(keras_files.float_file(model), samples, True)
    assert not found or function in (shared_factor, other_axis_mean)
    expected = keras.tree.flatten(model.predict(samples["x"], verbose=0))
    for got, wanted in zip(runtime.run_samples(new, samples), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-4)


def test_uneven_tokens_in_int8(monkeypatch):
    _, content = file_of("layer")
    samples = {"x": tokens(uneven=2.0)}
    wanted = runtime.run_samples(content, samples)[0]

    def reached():
        made = search.to_integers(content, samples, 8, io_dtype="float32").content
        return metrics.sqnr_db(wanted, runtime.run_samples(made, samples)[0])

    better = reached()
    monkeypatch.setattr(norms, "find", lambda graph: [])
    plain = reached()
    assert better > plain + 4.0 and better > 18.0, (better, plain)


def test_unit_norm_of_zero_rows():
    inputs = keras.Input(SHAPE, name="x")
    model = keras.Model(inputs, layers.UnitNormalization()(inputs))
    values = tokens(7, 0.0)
    values[:, :3] = 0.0
    content = keras_files.float_file(model)
    for bits, least in ((8, 15.0), (16, 30.0)):
        found = search.to_integers(content, {"x": values}, bits, io_dtype="float32")
        got = runtime.run_samples(found.content, {"x": values})[0]
        assert metrics.sqnr_db(model.predict(values, verbose=0), got) > least
        assert "RSQRT" not in found.left
