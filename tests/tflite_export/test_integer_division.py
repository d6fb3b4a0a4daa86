"""A quotient becomes integer where its divisor is positive; elsewhere it stays float or is refused."""

import keras
import keras_files
import numpy as np
import pytest
from keras import layers
from keras import ops

from keras_attention.tflite import ConversionError
from keras_attention.tflite import metrics
from keras_attention.tflite import runtime
from keras_attention.tflite.integer import search

VALUES = {"x": np.random.default_rng(8).normal(size=(61, 7, 5)).astype(np.float32)}


def divided(divisor):
    keras.utils.set_random_seed(8)
    inputs = keras.Input((7, 5), name="x")
    quotient = layers.Dense(5)(inputs) / divisor(layers.Dense(5)(inputs))
    return keras.Model(inputs, layers.Dense(3)(quotient))


@pytest.mark.parametrize(("bits", "least"), [(8, 20.0), (16, 35.0)])
def test_a_positive_divisor(bits, least):
    model = divided(lambda x: ops.sigmoid(x) + 0.1)
    found = search.to_integers(keras_files.float_file(model), VALUES, bits, io_dtype="float32")
    assert "DIV" not in found.left
    got = runtime.run_samples(found.content, VALUES)[0]
    assert metrics.sqnr_db(model.predict(VALUES["x"], verbose=0), got) > least


def test_a_divisor_of_both_signs_is_refused_by_name():
    content = keras_files.float_file(divided(lambda x: ops.where(x < 0.0, x - 1.0, x + 1.0)))
    with pytest.raises(ConversionError, match="DIV"):
        search.to_integers(content, VALUES, 8, io_dtype="int8")
