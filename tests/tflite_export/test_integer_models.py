"""Whole models in integers: a right file, or a refusal that says what is in the way."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import keras_files
import numpy as np
import pytest
import tiny_graphs
from keras import layers
from keras import ops

from keras_attention import MultiHeadAttention
from keras_attention import tflite

FLOORS_DB = {8: 20.0, 16: 30.0}
ROWS, IMAGE = (11, 7), (13, 17, 3)
RNG = np.random.default_rng(20240607)


def floats(body, shape=ROWS, scale=1.0):
    def build():
        inputs = keras.Input(shape, name="x")
        values = (scale * RNG.normal(size=(61, *shape))).astype(np.float32)
        return keras.Model(inputs, body(inputs)), {"x": values}

    return build


def dense(units=5, **options):
    return layers.Dense(units, **options)


def einsum():
    left, right = keras.Input(ROWS, name="a"), keras.Input(ROWS, name="b")
    y = dense(3)(ops.einsum("bij,bkj->bik", dense()(left), dense()(right)))
    return keras.Model([left, right], y), {n: RNG.normal(size=(61, *ROWS)).astype(np.float32) for n in "ab"}


def tokens():
    numbers = RNG.integers(1, 101, (61, 13))
    return np.where(np.arange(13) < RNG.integers(1, 14, (61, 1)), numbers, 0).astype(np.int32)


def attention(layer, **options):
    def build():
        inputs = keras.Input((13,), dtype="int32", name="t")
        x = layers.Embedding(101, 24, mask_zero=True)(inputs)
        x = layers.LayerNormalization()(x + layer(2, 12)(x, x, **options))
        return keras.Model(inputs, dense(3)(x[:, 0])), {"t": tokens()}

    return build


def float_ids():
    inputs = keras.Input((13,), name="t")
    y = dense(3)(layers.Flatten()(layers.Embedding(101, 8)(inputs)))
    return keras.Model(inputs, y), {"t": tokens().astype(np.float32)}


def bytes_image():
    inputs = keras.Input(IMAGE, dtype="uint8", name="image")
    x = layers.Conv2D(8, 3, activation="relu")(layers.Rescaling(1 / 127.5, -1)(inputs))
    values = RNG.integers(0, 256, (61, *IMAGE)).astype(np.uint8)
    return keras.Model(inputs, dense(3)(layers.GlobalAveragePooling2D()(x))), {"image": values}


def bool_mask():
    inputs, mask = keras.Input(ROWS, name="x"), keras.Input((11,), dtype="bool", name="m")
    kept = ops.where(ops.expand_dims(mask, -1), dense()(inputs), 0.0)
    samples = {"x": RNG.normal(size=(61, *ROWS)).astype(np.float32), "m": RNG.random((61, 11)) < 0.6}
    return keras.Model([inputs, mask], dense(3)(ops.sum(kept, axis=1))), samples


def hidden_too(x):
    hidden = dense(activation="relu")(x)
    return [hidden, dense(3)(hidden)]


MODELS = {
    "attention": attention(MultiHeadAttention),
    "attention of Keras": attention(layers.MultiHeadAttention, use_causal_mask=True),
    "bool mask": bool_mask,
    "constant": floats(lambda x: dense(3)(x) * 0.0 + 2.0),
    "conv lstm": floats(lambda x: dense(3)(layers.Flatten()(layers.ConvLSTM2D(4, 3)(x))), (3, 7, 7, 2)),
    "dead": floats(lambda x: dense(3)(ops.relu(dense()(x) - 100.0))),
    "dilated": floats(layers.Conv2D(5, 3, dilation_rate=2, padding="same"), IMAGE),
    "einsum": einsum,
    "embedding of floats": float_ids,
    "gru": floats(lambda x: dense(3)(layers.GRU(9)(x))),
    "image of bytes": bytes_image,
    "input is output": floats(lambda x: [x, dense(3)(x)]),
    "lstm": floats(
        lambda x: dense(3)(layers.Bidirectional(layers.LSTM(9, return_sequences=True))(x)), (5, 7)
    ),
    "layer norm of two axes": floats(lambda x: dense(3)(layers.LayerNormalization(axis=(1, 2))(dense(6)(x)))),
    "log of sums": floats(lambda x: ops.logsumexp(dense()(x), axis=-1)),
    "output is read": floats(hidden_too),
    "selu": floats(lambda x: dense()(dense(activation="selu")(x))),
    "softmax over steps": floats(lambda x: layers.Softmax(axis=1)(dense()(x))),
    "softplus": floats(lambda x: dense()(dense(activation="softplus")(x))),
    "square root of zeros": floats(lambda x: dense(3)(ops.sqrt(ops.relu(dense(9)(x))))),
    "standard deviation": floats(lambda x: dense(3)(ops.std(dense(9)(x), axis=1)), (13, 7)),
    "tiny": floats(lambda x: dense()(x) * 1e-6),
    "transposed": floats(layers.Conv2DTranspose(6, 3, strides=2, padding="same"), (7, 5, 3)),
    "upsampled": floats(
        lambda x: layers.UpSampling2D(2, interpolation="bilinear")(layers.Conv2D(4, 3)(x)), IMAGE
    ),
    "where": floats(lambda x: dense()(ops.where(x > 0.3, x, -2 * x))),
}
REFUSED = {
    "CONV_3D (layer 'box')": floats(lambda x: layers.Conv3D(4, 3, name="box")(x), (5, 7, 7, 3)),
    "CUMSUM": floats(lambda x: dense()(ops.cumsum(dense()(x), 1))),
    "SIN": floats(lambda x: dense()(ops.sin(dense()(x)))),
    "TOPK_V2": floats(lambda x: dense()(ops.top_k(dense(9)(x), 3)[0])),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Model and bits -> what came of it."""
    keras.utils.set_random_seed(20240608)
    folder = tmp_path_factory.mktemp("models")
    for name, build in {**MODELS, **REFUSED}.items():
        model, samples = build()
        (folder / f"{name}.tflite").write_bytes(keras_files.float_file(model, samples))
        np.savez(folder / f"{name}.npz", **samples)
    program = Path(tiny_graphs.__file__).with_name("integer_runs.py")
    command = [sys.executable, str(program), str(Path(tflite.__file__).parent), str(folder), "whole"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return json.loads((folder / "results.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("name", MODELS)
def test_models_in_integers(results, name, bits):
    result = results[f"{name} {bits}"]
    assert "error" not in result, result["error"]
    assert min(result["sqnr_db"]) >= FLOORS_DB[bits]
    kinds = {entry["dtype"] for side in result["interface"].values() for entry in side}
    if bits == 8:
        assert "float32" not in result["types"] and not result["left"]
        assert kinds <= {"int8", "uint8", "int32", "bool"}
    assert result["interface"]["inputs"][0]["dtype"] == {
        "attention": "int32",
        "attention of Keras": "int32",
        "embedding of floats": "int32" if bits == 8 else "float32",
        "image of bytes": "uint8",
    }.get(name, "int8" if bits == 8 else "float32")


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_operator(results, name):
    assert f"ConversionError: {name}" in results[f"{name} 8"]["error"]
    assert "would stay float" in results[f"{name} 8"]["error"]
    sixteen = results[f"{name} 16"]
    assert sixteen["left"] == [name.partition(" ")[0]] and min(sixteen["sqnr_db"]) >= FLOORS_DB[16]
