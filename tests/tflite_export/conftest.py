"""Small seeded models with data, their float32 files, and conversions that several tests look at."""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from keras_attention import BahdanauAttention
from keras_attention import MultiHeadAttention
from keras_attention.tflite import convert
from keras_attention.tflite import layer_names
from keras_attention.tflite import saved_model
from keras_attention.tflite import tensorflow_converter
from keras_attention.tflite.arguments import CALIBRATED
from keras_attention.tflite.jobs import convert as conversion_job
from keras_attention.tflite.lowering import all_layers
from keras_attention.tflite.model_signature import read_signature

FOLDER = Path(__file__).resolve().parent
ANY_BACKEND = {"test_other_backend.py"}


def pytest_collection_modifyitems(items):
    """Skip this folder where the parent can't trace for TensorFlow; one file is about just that."""
    if keras.config.backend() == "tensorflow":
        return
    skip = pytest.mark.skip(reason="traces the model on the TensorFlow backend")
    for item in items:
        if FOLDER in item.path.parents and item.path.name not in ANY_BACKEND:
            item.add_marker(skip)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with two independent sets of samples."""

    model: Any
    calibration: Any
    evaluation: Any


def _dense(rng):
    inputs = keras.Input((7,), name="features")
    x = layers.Dense(13, activation="relu", name="hidden")(inputs)
    return keras.Model(inputs, layers.Dense(3, name="answer")(x), name="dense_model"), ((7,),)


def _transformer(rng):
    inputs = keras.Input((11, 5), name="window")
    x = layers.Dense(16)(inputs)
    normed = layers.LayerNormalization()(x)
    x = x + MultiHeadAttention(2, 8)(normed, normed)
    y = layers.Dense(32, activation="gelu")(layers.LayerNormalization()(x))
    x = layers.GlobalAveragePooling1D()(x + layers.Dense(16)(y))
    return keras.Model(inputs, layers.Dense(3, activation="softmax", name="classes")(x)), ((11, 5),)


def _conv_lstm(rng):
    inputs = keras.Input((31, 3), name="signal")
    x = layers.Conv1D(8, 5, strides=2, activation="relu")(inputs)
    sequence, last, _ = layers.LSTM(13, return_sequences=True, return_state=True, name="memory")(x)
    context = BahdanauAttention(7)(last, sequence)
    return keras.Model(inputs, layers.Dense(5, activation="softmax")(context)), ((31, 3),)


def _swapped(rng):
    """Two inputs and two outputs whose order is not that of the alphabet."""
    zebra, apple = keras.Input((5,), name="zebra"), keras.Input((7,), name="apple")
    x = layers.Dense(11, activation="tanh")(layers.Concatenate()([zebra, 2.0 * apple]))
    outputs = [layers.Dense(3, name="zeta")(x), layers.Dense(2, name="alpha")(x)]
    return keras.Model([zebra, apple], outputs), ((5,), (7,))


def _lstm(units):
    def build(rng):
        inputs = keras.Input((7, 3), name="steps")
        x = layers.LSTM(units, name="memory")(inputs)
        return keras.Model(inputs, layers.Dense(2, name="answer")(x)), ((7, 3),)

    return build


def _half(rng):
    inputs = keras.Input((13, 3), name="signal")
    x = layers.Conv1D(16, 3, activation="relu", dtype="mixed_float16")(inputs)
    x = layers.GRU(11, dtype="mixed_float16")(x)
    return keras.Model(inputs, layers.Dense(3, dtype="mixed_float16", name="answer")(x)), ((13, 3),)


def _cnn(rng):
    """Convolutions with normalization, a squeeze-and-excite gate and a residual."""
    inputs = keras.Input((17, 19, 3), name="image")
    x = layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False)(inputs)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    y = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
    gate = layers.GlobalAveragePooling2D(keepdims=True)(y)
    gate = layers.Conv2D(16, 1, activation="sigmoid")(layers.Conv2D(5, 1, activation="relu")(gate))
    x = layers.Add()([x, layers.Multiply()([y, gate])])
    x = layers.Conv2D(23, 3, strides=2, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, layers.Dense(5, activation="softmax", name="classes")(x))
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.set_weights([rng.uniform(0.5, 1.5, w.shape) for w in layer.get_weights()])
    return model, ((17, 19, 3),)


def _depthwise(rng):
    inputs = keras.Input((11, 13, 3), name="image")
    x = layers.Conv2D(8, 3, activation="relu")(layers.DepthwiseConv2D(3, activation="relu")(inputs))
    x = layers.Flatten()(layers.DepthwiseConv2D(3)(x))
    return keras.Model(inputs, layers.Dense(2)(x)), ((11, 13, 3),)


def _normal(rng, shapes, count):
    arrays = [rng.normal(size=(count, *shape)).astype(np.float32) for shape in shapes]
    return arrays if len(arrays) > 1 else arrays[0]


def _of_floats(build: Callable) -> Callable[[], Case]:
    def make() -> Case:
        rng = np.random.default_rng(20240501)
        model, shapes = build(rng)
        return Case(model, _normal(rng, shapes, 64), _normal(rng, shapes, 37))

    return make


def _tokens() -> Case:
    rng = np.random.default_rng(20240502)
    inputs = keras.Input((13,), dtype="int32", name="tokens")
    x = layers.Embedding(101, 24, mask_zero=True)(inputs)
    x = layers.GlobalAveragePooling1D()(MultiHeadAttention(2, 12)(x, x))
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(x))

    def padded(count):
        tokens = rng.integers(1, 101, (count, 13))
        return np.where(np.arange(13) < rng.integers(1, 14, (count, 1)), tokens, 0)

    return Case(model, padded(64), padded(37))


class TwoTowers(keras.Model):
    """A subclassed model that takes a dict."""

    def __init__(self):
        super().__init__(name="two_towers")
        self.left = layers.Dense(64, activation="relu")
        self.towers = [layers.Dense(64, activation="relu"), layers.Dense(3)]

    def call(self, inputs):
        return self.towers[1](self.left(inputs["right"]) * self.towers[0](inputs["left"]))


def _subclassed() -> Case:
    rng = np.random.default_rng(20240503)
    model = TwoTowers()

    def samples(count):
        return {
            "right": rng.normal(size=(count, 7)).astype(np.float32),
            "left": rng.normal(size=(count, 5)),  # float64
        }

    calibration = samples(64)
    model({name: values[:1].astype(np.float32) for name, values in calibration.items()})
    return Case(model, calibration, samples(37))


BUILDERS: dict[str, Callable[[], Case]] = {
    "dense": _of_floats(_dense),
    "transformer": _of_floats(_transformer),
    "conv_lstm": _of_floats(_conv_lstm),
    "swapped": _of_floats(_swapped),
    "lstm": _of_floats(_lstm(11)),
    "wide_lstm": _of_floats(_lstm(41)),
    "half": _of_floats(_half),
    "cnn": _of_floats(_cnn),
    "depthwise": _of_floats(_depthwise),
    "tokens": _tokens,
    "subclassed": _subclassed,
}


def build(name: str) -> Case:
    """The case, the same weights, data and names on each call, whatever was built before."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(4321)
    return BUILDERS[name]()


@pytest.fixture(scope="session")
def make_case() -> Callable[[str], Case]:
    """A function: name -> a fresh case."""
    return build


@pytest.fixture(scope="session")
def case() -> Callable[[str], Case]:
    """A function: name -> a case shared by all tests, not to be changed."""
    return functools.cache(build)


@pytest.fixture(scope="session")
def float_file(case, tmp_path_factory) -> Callable[[str], bytes]:
    """A function: name -> bytes of the float32 file, tensors named, as the quantizer gets it."""

    @functools.cache
    def make(name: str) -> bytes:
        wanted = case(name)
        signature = read_signature(wanted.model, wanted.calibration)
        folder = tmp_path_factory.mktemp(name) / "saved_model"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TensorFlow's own, which a user sees in no process of his
            outputs, _ = saved_model.export_saved_model(wanted.model, signature, folder, 512)
            content = tensorflow_converter.convert_saved_model(folder)
        layers = layer_names.of_model(all_layers(wanted.model)[1:])
        return conversion_job.prepare(content, signature.names(), outputs, layers)

    return make


@dataclasses.dataclass(frozen=True)
class Converted:
    """What `convert` gave for a case, and Keras' answers to its evaluation samples."""

    case: Case
    result: Any
    path: Path
    expected: list[np.ndarray]


@pytest.fixture(scope="session")
def converted(case, tmp_path_factory) -> Callable[[str, str], Converted]:
    """A function: name and precision -> the conversion, made once."""

    @functools.cache
    def make(name: str, precision: str) -> Converted:
        wanted = case(name)
        path = tmp_path_factory.mktemp("converted") / f"{name}_{precision}.tflite"
        result = convert(
            wanted.model,
            path,
            precision=precision,
            calibration=wanted.calibration if precision in CALIBRATED else None,
            evaluation=wanted.evaluation,
            verbose=0,
        )
        expected = keras.tree.flatten(wanted.model.predict(wanted.evaluation, verbose=0))
        return Converted(wanted, result, path, [np.asarray(e, np.float32) for e in expected])

    return make
