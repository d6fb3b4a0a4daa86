"""Sums with a broadcast side, in a file that takes one sample at a time."""

import keras
import keras_files
import numpy as np
import pytest

from keras_attention.tflite import runtime


@pytest.mark.parametrize("channels", [5, 11], ids=["unequal", "as many as steps"])
def test_addend_of_each_step(channels):
    inputs = keras.Input((11, channels), name="x")
    model = keras.Model(inputs, inputs + keras.ops.mean(keras.ops.sin(inputs), axis=-1, keepdims=True))
    values = np.random.default_rng(11).normal(size=(13, 11, channels)).astype(np.float32)
    content = keras_files.float_file(model)
    (got,) = runtime.run_samples(content, {"x": values})
    wanted = values + np.sin(values).mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_backend_is_as_it_was():
    from keras.src.backend.tensorflow import numpy as backend

    before = backend.add
    inputs = keras.Input((3,), name="x")
    keras_files.float_file(keras.Model(inputs, inputs + 1.0))
    assert backend.add is before
