"""What TensorFlow says of itself is kept from the user; what ends the process, and all else, is not."""

import logging
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_attention.tflite import fidelity
from keras_attention.tflite import quiet
from keras_attention.tflite.model_signature import read_signature
from keras_attention.tflite.samples import Samples

REMARKS = (
    "I0000 00:00:17 5 port.cc:153] oneDNN\nWARNING: All log messages before absl::InitializeLog() is called\n"
)
PROGRAM = f"""
import os, sys
from keras_attention.tflite import quiet
with quiet.without_remarks_at_start():
    os.write(2, {(REMARKS + "F0000 compiled to use AVX" + chr(10)).encode()!r})
    print("level", os.environ["TF_CPP_MIN_LOG_LEVEL"], file=sys.stderr)
    if sys.argv[1] == "aborts":
        sys.stderr.flush()
        os.abort()
    if sys.argv[1] == "raises":
        raise ImportError("no tensorflow")
os.write(2, b"I0000 after\\n")
"""


def run(end, **level):
    """Exit code and standard error of the program above."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, end],
        env={**environment, **level},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stderr


def test_remarks_are_dropped_in_the_block_and_no_others():
    assert run("passes") == (0, "F0000 compiled to use AVX\nlevel 3\nI0000 after\n")


def test_what_ends_the_process_is_seen():
    code, text = run("aborts")
    assert code != 0 and text == "F0000 compiled to use AVX\nlevel 3\n"
    code, text = run("raises")
    assert code == 1 and text.endswith("ImportError: no tensorflow\n") and "oneDNN" not in text


def test_who_asks_for_all_gets_all():
    assert run("passes", TF_CPP_MIN_LOG_LEVEL="0")[1].startswith(REMARKS)
    assert run("passes", TF_CPP_MIN_LOG_LEVEL="2")[1] == "F0000 compiled to use AVX\nlevel 2\nI0000 after\n"


@pytest.fixture
def logged():
    """Messages of TensorFlow's logger."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("tensorflow")
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


def test_only_the_advice_on_tracing_is_dropped(logged):
    logger = logging.getLogger("tensorflow")
    advice = "%d out of the last %d calls to %s triggered tf.function retracing."
    with quiet.without_retracing_warnings():
        logger.warning(advice, 5, 7, "predict")
        logger.warning("Gradients do not exist")
    logger.warning(advice, 6, 9, "train")
    assert logged == ["Gradients do not exist", advice % (6, 9, "train")]


def test_many_models_one_after_the_other(logged):
    """Each is traced for batches of two sizes; TensorFlow warns from the fifth time on."""
    values = np.random.default_rng(20240608).normal(size=(67, 7)).astype(np.float32)
    for units in range(2, 6):
        inputs = keras.Input((7,), name="x")
        model = keras.Model(inputs, keras.layers.Dense(units)(inputs))
        fidelity.predict(model, read_signature(model), Samples({"x": values}))
    assert logged == []
