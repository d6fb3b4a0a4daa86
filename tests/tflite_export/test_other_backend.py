"""A model trained on JAX is converted by a parent that never loads TensorFlow's backend."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import keras, numpy as np
from keras import layers
from keras_attention import MultiHeadAttention, tflite

assert keras.config.backend() == "jax"
keras.utils.set_random_seed(3)
zebra, apple = keras.Input((7, 5), name="zebra"), keras.Input((3,), name="apple")
x = layers.Dense(8)(zebra)
x = layers.LSTM(11)(MultiHeadAttention(2, 4)(x, x))
model = keras.Model([zebra, apple], layers.Dense(3, name="answer")(layers.Concatenate()([x, apple])))
rng = np.random.default_rng(4)
samples = [rng.normal(size=(29, 7, 5)), rng.normal(size=(29, 3))]
result = tflite.convert(model, sys.argv[1], precision="int8", calibration=samples, verbose=0)
print(json.dumps({**result.report.to_dict(), "backend": keras.config.backend()}))
"""


STREAM = """
import sys
import keras, numpy as np
from keras import layers
from keras_attention import tflite

keras.utils.set_random_seed(3)
inputs = keras.Input(batch_shape=(1, 7, 5), name="window")
x = layers.LSTM(11, stateful=True, dropout=0.2, name="memory")(inputs)
model = keras.Model(inputs, layers.Dense(3, name="answer")(x))
samples = np.random.default_rng(4).normal(size=(29, 7, 5))
model.predict_on_batch(samples[:1])
before = np.asarray(model.get_layer("memory").states[0])
for precision in ("float32", "int8"):
    report = tflite.convert(model, precision=precision, calibration=samples, verbose=0).report
    assert report.inputs[1].startswith("memory_state_0"), report.inputs
    assert report.sqnr_db > (90 if precision == "float32" else 25), report.sqnr_db
np.testing.assert_array_equal(np.asarray(model.get_layer("memory").states[0]), before)
"""


@pytest.mark.slow  # a parent and a child with libraries of their own
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs JAX")
def test_convert_while_keras_runs_on_jax(tmp_path):
    path = tmp_path / "model.tflite"
    result = run_on_jax(PROGRAM, tmp_path, path)
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["backend"] == "jax"
    assert report["inputs"] == ["zebra: float32[1, 7, 5]", "apple: float32[1, 3]"]
    assert report["outputs"] == ["answer: float32[1, 3]"]
    assert report["changes"] == {"lstm": "7 recurrent steps unrolled"}
    assert report["float32_sqnr_db"] >= 90 and report["sqnr_db"] >= 25
    assert report["delegate_partitions"] == 1 and report["tensor_dtypes"]["int8"] >= 6
    assert path.stat().st_size == report["size_bytes"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs JAX")
def test_a_stateful_model_streams_from_jax(tmp_path):
    result = run_on_jax(STREAM, tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]


def run_on_jax(program, folder, *arguments):
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
