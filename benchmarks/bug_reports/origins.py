"""Where models come from: files, subclasses, layers of the user's own."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers
from keras import ops

from benchmarks.bug_reports.case import TRAINING_SEED
from benchmarks.bug_reports.case import define
from benchmarks.bug_reports.case import everywhere
from benchmarks.bug_reports.case import files
from benchmarks.bug_reports.case import functional
from benchmarks.bug_reports.case import normal
from benchmarks.bug_reports.case import refusal
from benchmarks.bug_reports.case import seeded


def saved(build: Callable[[], Any], suffix: str) -> str:
    """Save a model into a fresh folder and return the path."""
    path = str(Path(tempfile.mkdtemp()) / f"model{suffix}")
    build().save(path)
    return path


def sequential(*stack: Callable[[], Any], shape: tuple[int, ...], name: str) -> Callable[[], Any]:
    """A builder of a Sequential model with an input."""

    def build() -> keras.Model:
        return keras.Sequential([layers.Input(shape, name=name), *(make() for make in stack)])

    return seeded(build)


def without_input(fit: bool) -> keras.Model:
    """A Sequential model that learns its input's shape from data, if it sees any."""
    model = keras.Sequential([layers.Flatten(), layers.Dense(3)])
    if fit:
        model.compile(loss="mse")
        images = normal(6, 6)(np.random.default_rng(TRAINING_SEED), 8)
        model.fit(images, np.zeros((8, 3)), verbose=0)
    return model


class SubclassedModel(keras.Model):
    """Knows its inputs only once it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(3)
        self.norm = layers.BatchNormalization()

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Return the normed answer."""
        return self.norm(self.dense(inputs), training=training)


def subclassed() -> keras.Model:
    """A subclassed model that was called once."""
    model = SubclassedModel()
    model(np.zeros((1, 5), "float32"))
    return model


class UnregisteredAttention(layers.Layer):
    """Attention pooling as users write it; Keras' registry does not know it."""

    def __init__(self, units: int = 8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape: Any) -> None:
        """Create the weights."""
        self.kernel = self.add_weight(shape=(input_shape[-1], self.units))
        self.scores = self.add_weight(shape=(self.units, 1))

    def call(self, inputs: Any) -> Any:
        """Return the weighted sum over time."""
        hidden = ops.tanh(ops.matmul(inputs, self.kernel))
        return ops.sum(ops.softmax(ops.matmul(hidden, self.scores), 1) * inputs, 1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        return {**super().get_config(), "units": self.units}


# A saved model names the script that defined the class, which whoever loads it can't import.
UnregisteredAttention.__module__ = "training_script"


@keras.saving.register_keras_serializable("bug_reports")
class AttentionWithoutConfig(layers.Layer):
    """Registered, but `get_config` forgets an argument."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden = layers.Dense(units, activation="tanh")
        self.scores = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        """Return the weighted sum over time."""
        return ops.sum(ops.softmax(self.scores(self.hidden(inputs)), 1) * inputs, 1)


def pooled(pooling: Callable[[], Any]) -> Callable[[], Any]:
    """A builder of a pooling layer of the user's own, and a dense layer."""
    return functional((6, 4), lambda x: layers.Dense(2)(pooling()(x)), "series")


CONV_NET = sequential(
    lambda: layers.Conv2D(4, 3),
    layers.BatchNormalization,
    layers.Flatten,
    lambda: layers.Dense(3),
    shape=(6, 6, 1),
    name="image",
)
UNREGISTERED = pooled(lambda: UnregisteredAttention(8))
WITHOUT_CONFIG = pooled(lambda: AttentionWithoutConfig(8))
LAMBDA = pooled(lambda: layers.Lambda(lambda x: x[:, -1] + ops.mean(x, 1)))

origin = functools.partial(
    define,
    reports=(
        "keras-team/keras#18430",
        "keras-team/keras#19108",
        "tensorflow/tensorflow#63867",
        "tensorflow/tensorflow#63987",
        "tensorflow/tensorflow#71726",
    ),
)
custom = functools.partial(
    define,
    draw=normal(6, 4),
    reports=(
        "keras-team/keras#19899",
        "aertslab/CREsted#141",
        "CyberZHG/keras-self-attention#52",
        "CyberZHG/keras-self-attention#55",
        "thushv89/attention_keras#19",
        "philipperemy/keras-attention#51",
        "philipperemy/keras-attention#53",
    ),
)

CASES = [
    origin(
        "origin_sequential",
        normal(6, 6, 1),
        fault="A Sequential model of Keras 3 used to be refused, for a method is missing.",
        build=CONV_NET,
        expect=files(),
    ),
    *(
        origin(
            f"origin_{suffix}_file",
            normal(6, 6, 1),
            fault=f"So was one that was read back from a .{suffix} file.",
            build=lambda suffix=suffix: keras.models.load_model(saved(CONV_NET, f".{suffix}")),
            expect=files(),
        )
        for suffix in ("keras", "h5")
    ),
    origin(
        "origin_sequential_without_input",
        normal(6, 6),
        fault="A model that took its shape from the first batch has no signature.",
        build=seeded(without_input, True),
        expect=files(),
    ),
    origin(
        "origin_sequential_unbuilt",
        normal(6, 6),
        fault="A model that has never seen data fails deep inside the exporter.",
        build=seeded(without_input, False),
        expect=everywhere(refusal("built")),
    ),
    origin(
        "origin_subclassed",
        normal(5),
        fault="A subclassed model has no list of inputs.",
        build=seeded(subclassed),
        expect=files(),
    ),
    origin(
        "origin_augmentation",
        normal(8, 8, 1),
        fault="Random flips and rotations stay in the file, or are refused.",
        build=sequential(
            layers.RandomFlip,
            lambda: layers.RandomRotation(0.1),
            layers.Flatten,
            lambda: layers.Dense(3),
            shape=(8, 8, 1),
            name="image",
        ),
        expect=files(),
    ),
    origin(
        "origin_dropout",
        normal(8),
        fault="Dropout makes the file's answers random.",
        build=sequential(lambda: layers.Dropout(0.5), lambda: layers.Dense(3), shape=(8,), name="features"),
        expect=files(),
    ),
    custom(
        "custom_layer_unregistered",
        fault="A model with the user's own layer can't be handed to another process.",
        build=UNREGISTERED,
        expect=files(),
    ),
    *(
        custom(
            f"custom_layer_unregistered_{suffix}_file",
            fault="The saved attention model can't be loaded; the message must name the class.",
            build=functools.partial(saved, UNREGISTERED, f".{suffix}"),
            expect=everywhere(refusal("UnregisteredAttention")),
        )
        for suffix in ("keras", "h5")
    ),
    custom(
        "custom_layer_without_config",
        fault="A layer that does not return its arguments can't be cloned.",
        build=WITHOUT_CONFIG,
        expect=files(),
    ),
    custom(
        "custom_layer_without_config_keras_file",
        fault="Nor can it be loaded from a file, though Keras 3 recovers such arguments.",
        build=functools.partial(saved, WITHOUT_CONFIG, ".keras"),
        expect=files(),
    ),
    custom(
        "custom_lambda",
        fault="A Lambda layer is fine while the model is alive.",
        build=LAMBDA,
        expect=files(),
    ),
    custom(
        "custom_lambda_keras_file",
        fault="A file with a Lambda could run any code, and is refused.",
        build=functools.partial(saved, LAMBDA, ".keras"),
        expect=everywhere(refusal("Lambda")),
    ),
]
