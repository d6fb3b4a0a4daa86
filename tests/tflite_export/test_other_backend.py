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


@pytest.mark.slow  # a parent and a child with libraries of their own
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs JAX")
def test_convert_while_keras_runs_on_jax(tmp_path):
    path = tmp_path / "model.tflite"
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["backend"] == "jax"
    assert report["inputs"] == ["zebra: float32[1, 7, 5]", "apple: float32[1, 3]"]
    assert report["outputs"] == ["answer: float32[1, 3]"]
    assert report["changes"] == {"lstm": "7 recurrent steps unrolled"}
    assert report["float32_sqnr_db"] >= 90 and report["sqnr_db"] >= 25
    assert report["delegate_partitions"] == 1 and report["tensor_dtypes"]["int8"] >= 6
    assert path.stat().st_size == report["size_bytes"]
