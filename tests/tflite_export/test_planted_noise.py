"""A layer with one channel a thousand times too large: it is named, and left in float it costs nothing."""

import keras
import keras_files
import numpy as np
import pytest
from keras import layers

from keras_attention import MultiHeadAttention
from keras_attention.tflite import equalization
from keras_attention.tflite import metrics
from keras_attention.tflite import quantization
from keras_attention.tflite import runtime

pytestmark = pytest.mark.filterwarnings("ignore:Warning. Enabling `experimental_preserve_all_tensors`")
POSITIVE = keras.initializers.RandomUniform(0.0, 0.3)


def plant(bad, reader, channel=3, factor=1000.0):
    """Scale one output channel of a ReLU layer up, and what reads it down: the answers stay."""
    kernel, bias = bad.get_weights()
    kernel[..., channel] *= factor
    bias[..., channel] *= factor
    bad.set_weights([kernel, bias])
    kernel, bias = reader.get_weights()
    kernel[..., channel, :] /= factor
    reader.set_weights([kernel, bias])


def stack():
    inputs = x = keras.Input((16,), name="x")
    hidden = [
        layers.Dense(24, activation="relu", name=f"hidden_{n}", bias_initializer=POSITIVE) for n in range(4)
    ]
    for layer in hidden:
        x = layer(x)
    return keras.Model(inputs, layers.Dense(5)(x)), hidden[1], hidden[2]


def transformer():
    inputs = keras.Input((11, 6), name="x")
    x = layers.Dense(16, name="embed")(inputs)
    normed = layers.LayerNormalization()(x)
    x = x + MultiHeadAttention(2, 8, name="look")(normed, normed)
    wide, narrow = layers.Dense(32, activation="relu", name="wide"), layers.Dense(16, name="narrow")
    x = x + narrow(wide(layers.LayerNormalization()(x)))
    return keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling1D()(x))), wide, narrow


def convolutions():
    inputs = keras.Input((17, 19, 3), name="x")
    a, b, c = (
        layers.Conv2D(size, 3, activation="relu", name=f"conv_{size}", bias_initializer=POSITIVE)
        for size in (12, 16, 20)
    )
    x = layers.Flatten()(layers.MaxPooling2D(3)(c(b(a(inputs)))))
    return keras.Model(inputs, layers.Dense(5)(x)), b, c


@pytest.mark.slow
@pytest.mark.parametrize("build", [stack, transformer, convolutions])
def test_the_bad_layer_is_named_and_repaired(build, monkeypatch):
    """By scaling its channel into the weights behind; where that can't be done, by leaving it in float."""
    keras.utils.set_random_seed(20240609)
    model, bad, reader = build()
    values = np.random.default_rng(13).normal(size=(64, *model.input_shape[1:])).astype(np.float32)
    before = model.predict(values, verbose=0)
    plant(bad, reader)
    np.testing.assert_allclose(model.predict(values, verbose=0), before, rtol=1e-3, atol=1e-4)
    content = keras_files.float_file(model)
    made = quantization.quantize(content, "int8", {"x": values}, with_sensitivity=True)
    named = [row["layer"].split("/")[-1] for row in made.sensitivity]
    assert named[:2] == [bad.name, reader.name], made.sensitivity
    assert made.sensitivity[1]["sqnr_db"] < 15.0 < 30.0 < made.sensitivity[2]["sqnr_db"]

    def reached(float_layers):
        file = quantization.quantize(content, "int8", {"x": values}, float_layers=float_layers).content
        return metrics.sqnr_db(before, runtime.run_samples(file, {"x": values})[0])

    worst = [row["layer"] for row in made.sensitivity[:2]]
    assert made.sensitivity[0]["treatment"].endswith("channels scaled") and reached(()) > 30.0
    monkeypatch.setattr(equalization, "equalize", lambda content, samples: (content, ()))
    assert reached(()) < 20.0
    assert reached(worst) > 30.0
