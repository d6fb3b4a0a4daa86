"""Recurrent layers: loops that end the converter, grow the file, or forget the mask."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
from keras import layers
from keras import ops

from benchmarks.bug_reports.case import TRAINING_SEED
from benchmarks.bug_reports.case import Body
from benchmarks.bug_reports.case import Case
from benchmarks.bug_reports.case import Expectation
from benchmarks.bug_reports.case import chain
from benchmarks.bug_reports.case import define
from benchmarks.bug_reports.case import either
from benchmarks.bug_reports.case import everywhere
from benchmarks.bug_reports.case import file
from benchmarks.bug_reports.case import files
from benchmarks.bug_reports.case import functional
from benchmarks.bug_reports.case import normal
from benchmarks.bug_reports.case import only
from benchmarks.bug_reports.case import seeded

BURST_STEPS = 60


def on_series(body: Body, length: int = 10, features: int = 4, outputs: int = 3) -> Any:
    """A builder of `body` on a series, and a dense layer."""
    return functional((length, features), chain(lambda: body, lambda: layers.Dense(outputs)), "series")


def lstm(unroll: bool = False) -> Any:
    """Eight units over ten steps."""
    return on_series(lambda x: layers.LSTM(8, unroll=unroll)(x))


def gru(length: int = 40, features: int = 8, units: int = 32, outputs: int = 3, unroll: bool = False) -> Any:
    """A GRU that is long enough for size and speed to matter."""
    return on_series(lambda x: layers.GRU(units, unroll=unroll)(x), length, features, outputs)


def bidirectional(unroll: bool = False) -> Any:
    """Both directions over ten steps."""
    return on_series(lambda x: layers.Bidirectional(layers.LSTM(8, unroll=unroll))(x))


def gru_step(unroll: bool) -> keras.Model:
    """One step, the state going in and coming out."""
    frame, state = keras.Input((1, 8), name="frame"), keras.Input((32,), name="state")
    output, following = layers.GRU(32, return_state=True, unroll=unroll)(frame, initial_state=state)
    return keras.Model([frame, state], [layers.Dense(3)(output), following])


def draw_step(generator: Any, n: int, spread: float) -> dict[str, np.ndarray]:
    """Frames of normal values, states between -1 and 1."""
    frame = normal(1, 8)(generator, n, spread)
    return {"frame": frame, "state": np.tanh(normal(32)(generator, n, spread))}


def draw_padded(generator: Any, n: int, spread: float) -> np.ndarray:
    """Series of 3 to 8 steps in ten, the rest zeros."""
    lengths = 3 + np.arange(n) % 6
    real = np.arange(10) < lengths[:, None]
    return normal(10, 4)(generator, n, spread) * real[..., None].astype("float32")


class UnawarePooling(layers.Layer):
    """The mean over time of a user who never heard of masks."""

    def call(self, inputs: Any) -> Any:
        """Return the mean over axis 1, padding included."""
        return ops.mean(inputs, axis=1)


def _pooled(attended: Any) -> Any:
    return layers.GlobalAveragePooling1D()(attended)


UNDER_MASK: dict[str, tuple[Body, str]] = {
    "lstm": (lambda x: layers.LSTM(6)(x), "A padded series in int8 ends the process."),
    "lstm_unrolled": (
        lambda x: layers.LSTM(6, unroll=True)(x),
        "Unrolled by hand, the mask is refused or forgotten.",
    ),
    "bidirectional": (
        lambda x: layers.Bidirectional(layers.LSTM(6))(x),
        "The backward direction begins in the padding instead of at the last real step.",
    ),
    "gru": (lambda x: layers.GRU(6)(x), "A padded series in int8 ends the process."),
    "multi_head_attention": (
        lambda x: _pooled(layers.MultiHeadAttention(2, 4)(x, x)),
        "The mask's large negative number takes the int8 range of the scores.",
    ),
    "dot_attention": (
        lambda x: _pooled(layers.Attention()([x, x])),
        "The mask's large negative number takes the int8 range of the scores.",
    ),
    "unaware_pooling": (
        lambda x: UnawarePooling()(x),
        "A layer drops the mask and nobody is told; the file must do as Keras does.",
    ),
}


def masked_case(name: str) -> Case:
    """One kind of layer behind `Masking`."""
    body, fault = UNDER_MASK[name]
    return define(
        f"masked_{name}",
        draw_padded,
        reports=(
            "tensorflow/tensorflow#49936",
            "tensorflow/tensorflow#35551",
            "tensorflow/tensorflow#33260",
            "onnx/tensorflow-onnx#1871",
        ),
        fault=fault,
        build=on_series(lambda x: body(layers.Masking()(x)), outputs=2),
        expect=files(int8_full=either(12), int16x8=either(24)),
        note="The few real steps show little of the ranges.",
    )


def bursts(generator: Any, n: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Series with a burst in one of four features beside a drifting fifth; the label is which."""
    labels = generator.integers(0, 4, n)
    series = 0.5 * normal(BURST_STEPS, 5)(generator, n)
    for one, label in zip(series, labels, strict=True):
        start = generator.integers(5, BURST_STEPS - 10)
        one[start : start + 5, label] += 2
        one[:, 4] = 0.5 * spread * np.cumsum(generator.normal(size=BURST_STEPS))
    return series, labels


def burst_classifier() -> keras.Model:
    """An LSTM whose last state asks, by additive attention, when the burst was; trained."""
    series = keras.Input((BURST_STEPS, 5), name="series")
    states = layers.LSTM(24, return_sequences=True)(series)
    last = states[:, -1:]
    found = layers.Concatenate()([layers.AdditiveAttention()([last, states]), last])
    model = keras.Model(series, layers.Dense(4, activation="softmax")(layers.Flatten()(found)))
    model.compile(keras.optimizers.Adam(5e-3), "sparse_categorical_crossentropy")
    model.fit(*bursts(np.random.default_rng(TRAINING_SEED), 1500), epochs=6, batch_size=50, verbose=0)
    return model


short = functools.partial(define, draw=normal(10, 4))
long = functools.partial(define, draw=normal(40, 8))
step = functools.partial(define, draw=draw_step, expect=files())
CLIPPED = "A range of few values may clip one in int16x8."

CASES = [
    short(
        "lstm",
        reports=(
            "tensorflow/tensorflow#41305",
            "tensorflow/tensorflow#101050",
            "tensorflow/tensorflow#76672",
        ),
        fault="Static int8 and int16x8 end the Python process without a message.",
        build=lstm(),
        expect=files(int16x8=30),
        note=CLIPPED,
    ),
    short(
        "lstm_unrolled",
        reports=("tensorflow/tensorflow#41305", "tensorflow/tensorflow#101050"),
        fault="unroll=True converts, but the model has to be built again by hand.",
        build=lstm(unroll=True),
        expect=files(int16x8=30),
        note=CLIPPED,
    ),
    short(
        "lstm_without_flex",
        reports=(
            "tensorflow/tensorflow#62849",
            "tensorflow/tensorflow#70502",
            "tensorflow/tensorflow#58668",
            "tensorflow/tensorflow#53101",
        ),
        fault="The file wants TensorFlow operators, and the phone cannot load it.",
        build=lstm(),
        expect=only("float32", "float16", "dynamic"),
    ),
    long(
        "gru",
        reports=(
            "tensorflow/tensorflow#87468",
            "tensorflow/tensorflow#76672",
            "tensorflow/tensorflow#59921",
        ),
        fault="Static int8 ends the process; unrolled by hand the file is eight times as large.",
        build=gru(),
        expect=files(int8=file(25, max_kb=200), int8_full=file(18, max_kb=200)),
        note="Unrolled without care the int8 file has 202 kB.",
    ),
    long(
        "gru_unrolled",
        reports=("tensorflow/tensorflow#59921",),
        fault="Hundreds of operators, and a file larger than that of the float loop.",
        build=gru(unroll=True),
        expect=files(),
    ),
    step(
        "gru_step",
        reports=("tensorflow/tensorflow#87468", "tensorflow/tensorflow#97941"),
        fault="A single step with explicit state ends the process in int8.",
        build=seeded(gru_step, False),
    ),
    step(
        "gru_step_unrolled",
        reports=("tensorflow/tensorflow#97941",),
        fault="A single step converts only if it is written with unroll=True.",
        build=seeded(gru_step, True),
    ),
    short(
        "bidirectional_lstm",
        reports=(
            "tensorflow/tensorflow#74280",
            "tensorflow/tensorflow#38935",
            "tensorflow/tensorflow#47813",
        ),
        fault="Conversion fails, or a second run on the same input answers otherwise.",
        build=bidirectional(),
        expect=files(),
    ),
    short(
        "bidirectional_lstm_unrolled",
        reports=("tensorflow/tensorflow#38935",),
        fault="Converts with twice the operators of one direction.",
        build=bidirectional(unroll=True),
        expect=files(),
    ),
    *(masked_case(name) for name in UNDER_MASK),
    define(
        "lstm_additive_attention",
        lambda generator, n, spread: bursts(generator, n, spread)[0],
        reports=(
            "tensorflow/tensorflow#48774",
            "tensorflow/tensorflow#48487",
            "tensorflow/tensorflow#37023",
        ),
        fault="The quantized classifier runs, and decides differently.",
        build=seeded(burst_classifier),
        expect=everywhere(Expectation("file", {"min_agreement": 0.96})) | only("float32", "float16"),
        note="One sample of 32 may fall to the other side of a close call.",
    ),
]
