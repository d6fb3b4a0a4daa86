"""Outlier channels move into the weights behind: the same answers, and int8 keeps the other channels."""

import keras
import keras_files
import numpy as np
import pytest
from keras import layers

from keras_attention.tflite import equalization
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import metrics
from keras_attention.tflite import quantization
from keras_attention.tflite import runtime

CHANNEL, FACTOR = 3, 1000.0


def stack(middle, last, shape, activation="relu"):
    """Two layers between others, of which the first has one channel that the second divides again."""
    inputs = keras.Input(shape, name="x")
    bad, reader = middle(activation=activation, name="bad"), last(name="reader")
    outputs = layers.Dense(5, name="out")(reader(bad(layers.Dense(11, name="first")(inputs))))
    model = keras.Model(inputs, outputs)
    kernel, bias = bad.get_weights()
    kernel[..., CHANNEL] *= FACTOR
    bad.set_weights([kernel, bias + 0.1 * np.where(np.arange(len(bias)) == CHANNEL, FACTOR, 1.0)])
    kernel, bias = reader.get_weights()
    kernel[..., CHANNEL, :] /= FACTOR
    reader.set_weights([kernel, bias])
    return model


def dense(units):
    return lambda **options: layers.Dense(units, **options)


def convolution(filters):
    return lambda **options: layers.Conv2D(filters, 3, **options)


MODELS = {
    "dense": (dense(13), dense(17), (7, 6)),
    "convolutions": (convolution(13), convolution(17), (11, 9, 3)),
}


def samples(shape, count=67):
    return np.random.default_rng(4).normal(size=(count, *shape)).astype(np.float32)


@pytest.mark.filterwarnings("ignore:.*experimental_preserve_all_tensors")  # the quantizer's own
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("activation", ["relu", None])
def test_same_answers_and_a_better_int8(name, activation):
    *builders, shape = MODELS[name]
    model = stack(*builders, shape, activation)
    content, values = keras_files.float_file(model), {"x": samples(shape)}
    scaled, writers = equalization.equalize(content, values)
    assert len(writers) == 1 and len(scaled) < 1.01 * len(content)
    wanted = runtime.run_samples(content, values)[0]
    assert metrics.sqnr_db(wanted, runtime.run_samples(scaled, values)[0]) > 100.0
    found = quantization.quantize(content, "int8", values, with_sensitivity=True)
    assert metrics.sqnr_db(wanted, runtime.run_samples(found.content, values)[0]) > 25.0
    worst = found.sensitivity[0]
    assert (
        worst["layer"] == "bad" and worst["treatment"].endswith("channels scaled") and worst["sqnr_db"] < 15
    )
    assert "outlier channels of bad scaled" in found.changes[-1]


def test_models_without_outliers_stay_as_they_are(float_file):
    content = float_file("dense")
    values = {"features": samples((7,))}
    assert equalization.equalize(content, values) == (content, ())


def test_reading_weights_never_grow_beyond_their_range():
    *builders, shape = MODELS["dense"]
    model = stack(*builders, shape)
    reader = model.get_layer("reader")
    kernel, bias = reader.get_weights()
    kernel[CHANNEL] *= FACTOR / 2  # the outlier is read with full weight: there is no room
    reader.set_weights([kernel, bias])
    content, values = keras_files.float_file(model), {"x": samples(shape)}
    scaled, _ = equalization.equalize(content, values)

    def largest(file):
        graph = graphs.read_graph(file)
        tensors = graph.subgraphs[0].tensors
        stored = [t for t in tensors if graphs.is_constant(graph, t) and tuple(t.shape) == (17, 13)]
        return max(np.abs(graphs.constant_value(graph, t)).max() for t in stored)

    assert largest(scaled) <= largest(content) * 1.001


@pytest.mark.parametrize("activation", ["relu6", "sigmoid", "gelu"])
def test_an_activation_that_does_not_scale_is_left(activation):
    *builders, shape = MODELS["dense"]
    content = keras_files.float_file(stack(*builders, shape, activation))
    values = {"x": samples(shape)}
    assert equalization.equalize(content, values) == (content, ())
