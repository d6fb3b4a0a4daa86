"""Files that take several samples at a time."""

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from keras import layers

from keras_attention.tflite import ConversionError
from keras_attention.tflite import convert
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import runtime
from keras_attention.tflite import verify
from keras_attention.tflite.apps import describing
from keras_attention.tflite.model_signature import read_signature

LENGTH, WIDTH = 7, 3


def recurrent(**options):
    inputs = keras.Input((LENGTH, WIDTH), name="steps", **options)
    stateful = bool(options)
    x = layers.LSTM(5, return_sequences=True, stateful=stateful, name="memory")(inputs)
    x = layers.GlobalAveragePooling1D()(layers.GRU(13)(x)[:, None])
    return keras.Model(inputs, layers.Dense(2, name="answer")(x))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_batch_of_four(precision, tmp_path):
    keras.utils.set_random_seed(1)
    model = recurrent()
    data = np.random.default_rng(2).normal(size=(67, LENGTH, WIDTH)).astype(np.float32)
    path = tmp_path / "four.tflite"
    result = convert(
        model, path, precision=precision, calibration=data, evaluation=data[:29], batch_size=4, verbose=0
    )
    assert result.report.samples == 29
    assert result.report.inputs[0].startswith(f"steps: float32[4, {LENGTH}, {WIDTH}]")
    assert result.report.sqnr_db > (100.0 if precision == "float32" else 20.0)
    run = Interpreter(model_path=str(path)).get_signature_runner("serve")
    expected = model.predict(data[:4], verbose=0)
    assert np.abs(expected - expected[0]).max() > 0.01
    np.testing.assert_allclose(
        run(steps=data[:4])["answer"], expected, atol=1e-5 if precision == "float32" else 0.05
    )
    # a golden pair is a whole run, answered as it was then
    assert verify(path).passed
    manifests.sidecar_path(path).unlink()
    assert verify(path).outputs[0].difference == 0.0
    for pair in describing.describe(path).pairs:
        np.testing.assert_array_equal(pair.inputs["steps"], data[pair.sample : pair.sample + 4])
        assert pair.sample % 4 == 0 and pair.outputs["answer"].shape == (4, 2)
    # 6 samples are one full run and one that is filled up
    (answers,) = runtime.run_samples(path.read_bytes(), {"steps": data[:6]})
    assert answers.shape == (6, 2)
    np.testing.assert_allclose(
        answers, model.predict(data[:6], verbose=0), atol=1e-5 if precision == "float32" else 0.05
    )


def test_pairs_of_fewer_samples_than_a_batch(tmp_path):
    data = np.random.default_rng(3).normal(size=(2, LENGTH, WIDTH)).astype(np.float32)
    path = tmp_path / "three.tflite"
    convert(recurrent(), path, precision="float32", evaluation=data, batch_size=3, verbose=0)
    assert verify(path).passed
    (pair,) = describing.describe(path).pairs
    np.testing.assert_array_equal(pair.inputs["steps"], data[[0, 1, 0]])


@pytest.mark.parametrize("batch_size", [None, 0, -1, 2.0, True])
def test_wrong_sizes(batch_size):
    with pytest.raises(
        ValueError, match=r"`batch_size` must be an integer >= 1.*Received: " + str(batch_size)
    ):
        convert(recurrent(), precision="float32", batch_size=batch_size, verbose=0)


def test_a_stateful_model_takes_one():
    with pytest.raises(
        ConversionError, match=r"Layer 'memory' is stateful .*to take batch_size=3: both must be 1"
    ):
        convert(recurrent(batch_size=1), precision="float32", batch_size=3, verbose=0)


def test_integers_of_numpy():
    result = convert(
        recurrent(), precision="float32", batch_size=np.int32(2), max_unrolled_steps=np.int64(64), verbose=0
    )
    assert all("[2, " in text for text in result.report.inputs)


def test_a_models_own_batch_size():
    inputs = keras.Input((5,), batch_size=3, name="x")
    model = keras.Model(inputs, layers.Dense(2)(inputs))
    assert read_signature(model, batch_size=3).batch_size == 3
    with pytest.raises(ValueError, match=r"fixed batch size of 3, and the file is to take batch_size=1"):
        read_signature(model)
