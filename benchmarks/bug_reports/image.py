"""Images: half precision, speed, gates, norms that are not folded, pixels."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
from keras import layers
from keras import ops

from benchmarks.bug_reports.attention import transformer
from benchmarks.bug_reports.case import TRAINING_SEED
from benchmarks.bug_reports.case import WEIGHT_SEED
from benchmarks.bug_reports.case import Body
from benchmarks.bug_reports.case import Case
from benchmarks.bug_reports.case import Draw
from benchmarks.bug_reports.case import define
from benchmarks.bug_reports.case import file
from benchmarks.bug_reports.case import files
from benchmarks.bug_reports.case import functional
from benchmarks.bug_reports.case import in_one_piece
from benchmarks.bug_reports.case import normal
from benchmarks.bug_reports.case import seeded
from benchmarks.bug_reports.recurrent import gru


def squeeze_excite(x: Any) -> Any:
    """A gate for each channel, from the means."""
    means = layers.GlobalAveragePooling2D(keepdims=True)(x)
    hidden = layers.Dense(8, activation="relu")(means)
    return layers.Multiply()([x, layers.Dense(x.shape[-1], activation="sigmoid")(hidden)])


def cbam(x: Any, channel_maxima: Body | None = None) -> Any:
    """A gate for each channel, then one for each place; `channel_maxima` pools the maximum of a channel."""
    maxima = channel_maxima(x) if channel_maxima else ops.max(x, (1, 2), keepdims=True)
    hidden, gate = layers.Dense(8, activation="relu"), layers.Dense(x.shape[-1])
    means = ops.mean(x, (1, 2), keepdims=True)
    x = x * ops.sigmoid(gate(hidden(means)) + gate(hidden(maxima)))
    pair = layers.Concatenate()([ops.mean(x, -1, keepdims=True), ops.max(x, -1, keepdims=True)])
    return x * layers.Conv2D(1, 7, padding="same", activation="sigmoid")(pair)


def conv_net(attention: Body = lambda x: x) -> Any:
    """A builder of three strided convolutions, each with a norm and some attention."""

    def body(x: Any) -> Any:
        for channels in (24, 48, 96):
            x = layers.Conv2D(channels, 3, strides=2, padding="same", use_bias=False)(x)
            x = attention(layers.ReLU()(layers.BatchNormalization()(x)))
        return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))

    return functional((48, 48, 3), body, "image")


def coloured_squares(generator: Any, n: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images with a square in one of four colours; the label is which."""
    colours = 2.5 * np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], "float32")
    labels = generator.integers(0, 4, n)
    images = 0.3 * normal(32, 32, 3)(generator, n)
    for image, label in zip(images, labels, strict=True):
        row, column = generator.integers(0, 26, 2)
        image[row : row + 6, column : column + 6] += colours[label]
    return spread * images, labels


def gated_net(gate: str, activation: str) -> keras.Model:
    """Convolutions with squeeze-and-excitation gates, trained until it is sure of itself."""
    image = keras.Input((32, 32, 3), name="image")
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(image)
    for _ in range(3):
        x = layers.BatchNormalization(momentum=0.8)(layers.Conv2D(24, 3, padding="same")(x))
        x = layers.Activation(activation)(x)
        hidden = layers.Conv2D(6, 1, activation="relu")(layers.GlobalAveragePooling2D(keepdims=True)(x))
        x = layers.Multiply()([x, layers.Conv2D(24, 1, activation=gate)(hidden)])
    answer = layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(image, answer)
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy")
    samples = coloured_squares(np.random.default_rng(TRAINING_SEED), 800)
    model.fit(*samples, epochs=6, batch_size=32, verbose=0)
    return model


def half_precision(body: Body) -> Any:
    """A builder of a model made, as for training on a GPU, under the mixed_float16 policy."""

    def build() -> keras.Model:
        before = keras.mixed_precision.dtype_policy()
        keras.mixed_precision.set_dtype_policy("mixed_float16")
        try:
            return functional((8, 8, 3), body, "image")()
        finally:
            keras.mixed_precision.set_dtype_policy(before)

    return build


def half_classifier(image: Any) -> Any:
    """Convolution, norms and attention in half precision, and a float32 softmax."""
    x = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(image))
    x = layers.Reshape((64, 8))(layers.ReLU()(x))
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    head = layers.Dense(3, dtype="float32", activation="softmax")
    return head(layers.GlobalAveragePooling1D()(x))


def pixel_classifier(dtype: str) -> Any:
    """A builder of a classifier that scales its pixels itself."""

    def body(image: Any) -> Any:
        x = ops.cast(image, "float32") if dtype == "uint8" else image
        x = layers.Conv2D(8, 3, activation="relu")(layers.Rescaling(1 / 255.0)(x))
        return layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling2D()(x))

    return functional((12, 12, 3), body, "image", dtype)


def draw_pixels(dtype: str) -> Draw:
    """Values of 0 to 255."""
    return lambda generator, n, spread: generator.integers(0, 256, (n, 12, 12, 3)).astype(dtype)


def _norm(x: Any) -> Any:
    return layers.BatchNormalization()(x)


IMAGE, SERIES = (16, 16, 3), (16, 8)
NORM_PLACES: dict[str, tuple[tuple[int, ...], Body, str]] = {
    "conv_norm_relu": (
        IMAGE,
        lambda x: layers.ReLU()(_norm(layers.Conv2D(8, 3)(x))),
        "The norm is folded, but the range of one channel drowns the others.",
    ),
    "conv_relu_norm": (
        IMAGE,
        lambda x: _norm(layers.ReLU()(layers.Conv2D(8, 3)(x))),
        "Behind an activation the norm stays, and the worst channel is 65 % off.",
    ),
    "conv_relu_norm_conv": (
        IMAGE,
        lambda x: layers.Conv2D(4, 1)(_norm(layers.Conv2D(8, 3, activation="relu")(x))),
        "The norm is not folded forwards, into the convolution that follows.",
    ),
    "add_norm_relu_conv": (
        IMAGE,
        lambda x: layers.Conv2D(4, 3)(layers.ReLU()(_norm(layers.Conv2D(8, 3)(x) + layers.Conv2D(8, 3)(x)))),
        "Behind a sum the norm stays, and the worst channel is 44 % off.",
    ),
    "depthwise_norm": (
        IMAGE,
        lambda x: _norm(layers.DepthwiseConv2D(3)(x)),
        "Behind a depthwise convolution int8 loses little, as it should be.",
    ),
    "dense_norm": (
        SERIES,
        lambda x: _norm(layers.Dense(8)(x)),
        "Behind a dense layer on a series small channels are a third off.",
    ),
    "conv1d_norm": (
        SERIES,
        lambda x: _norm(layers.Conv1D(8, 3)(x)),
        "Behind a convolution over time small channels are 40 % off.",
    ),
    "separable_conv1d_norm": (
        SERIES,
        lambda x: _norm(layers.SeparableConv1D(8, 3)(x)),
        "Behind a separable convolution small channels are a fifth off.",
    ),
    "transposed_conv_norm": (
        IMAGE,
        lambda x: _norm(layers.Conv2DTranspose(8, 3)(x)),
        "Behind a transposed convolution small channels are half off.",
    ),
}


def normed_net(shape: tuple[int, ...], body: Body) -> keras.Model:
    """A norm somewhere, in whose statistics channel 0 hardly varied."""
    inputs = keras.Input(shape, name="inputs")
    model = keras.Model(inputs, body(inputs))
    generator = np.random.default_rng(WEIGHT_SEED)
    (norm,) = (layer for layer in model.layers if isinstance(layer, layers.BatchNormalization))
    channels = norm.gamma.shape[0]
    variance = generator.uniform(0.2, 2, channels)
    variance[0] = 1e-5
    gamma, beta = generator.uniform(0.5, 2, channels), generator.normal(size=channels)
    norm.set_weights([gamma, beta, 0.3 * generator.normal(size=channels), variance])
    return model


def norm_case(place: str) -> Case:
    """A batch norm in one place."""
    shape, body, fault = NORM_PLACES[place]
    channel_floors = {"float32": 80, "float16": 35, "dynamic": 12, "int8": 3, "int16x8": 20}
    usual = files()
    return define(
        f"batch_norm_{place}",
        normal(*shape),
        reports=(
            "tensorflow/tflite-micro#1651",
            "tensorflow/tensorflow#43882",
            "google-coral/edgetpu#212",
            "Samsung/ONE#4773",
        ),
        fault=fault,
        build=seeded(normed_net, shape, body),
        expect=usual
        | {
            precision: file(usual[precision].bounds["min_sqnr_db"], min_channel_sqnr_db=floor)
            for precision, floor in channel_floors.items()
        },
        note="Channel 0 is up to 60 times as large: one int8 scale leaves 3 dB for the worst channel.",
    )


def gate_case(name: str, gate: str, activation: str, fault: str) -> Case:
    """A trained net with gates, of whose decisions none may change."""
    floors = {"dynamic": 30, "int8": 25, "int8_full": 20, "int16x8": 35}
    return define(
        f"squeeze_excite_{name}",
        lambda generator, n, spread: coloured_squares(generator, n, spread)[0],
        reports=(
            "tensorflow/tensorflow#45082",
            "tensorflow/model-optimization#805",
            "PINTO0309/onnx2tf#683",
        ),
        fault=fault,
        build=seeded(gated_net, gate, activation),
        expect=files(**{kind: file(value, min_agreement=1.0) for kind, value in floors.items()}),
    )


def cbam_case(name: str, channel_maxima: Body | None, fault: str) -> Case:
    """CBAM with one way to pool the maxima of the channels."""

    def body(image: Any) -> Any:
        x = layers.Conv2D(32, 3, padding="same", activation="relu")(image)
        return layers.Conv2D(4, 1)(cbam(x, channel_maxima))

    return define(
        f"cbam_{name}",
        normal(40, 40, 3),
        reports=(
            "PINTO0309/onnx2tf#444",
            "tensorflow/tensorflow#29443",
            "tensorflow/tensorflow#40282",
            "tensorflow/tensorflow#51586",
        ),
        fault=fault,
        build=functional((40, 40, 3), body, "image"),
        expect=files(**in_one_piece(float32=90, dynamic=30, int8=25, int8_full=20)),
    )


speed = functools.partial(
    define,
    reports=(
        "tensorflow/tensorflow#51586",
        "tensorflow/tensorflow#49011",
        "tensorflow/tensorflow#21698",
        "tensorflow/model-optimization#599",
        "tensorflow/model-optimization#796",
    ),
)
conv_speed = functools.partial(
    speed, draw=normal(48, 48, 3), expect=files(**in_one_piece(float32=90, int8=25, int8_full=18))
)
half = functools.partial(
    define,
    draw=normal(8, 8, 3),
    reports=(
        "tensorflow/tensorflow#46380",
        "tensorflow/tensorflow#40930",
        "tensorflow/tensorflow#38662",
    ),
    expect=files(float32=60),
    note="Keras itself computes in half precision.",
)

CASES = [
    half(
        "half_precision_classifier",
        fault="A model trained in mixed precision needs TensorFlow's own operators.",
        build=half_precision(half_classifier),
    ),
    half(
        "half_precision_convolution",
        fault="One half precision convolution is enough for a refusal.",
        build=half_precision(lambda x: layers.GlobalAveragePooling2D()(layers.Conv2D(8, 3)(x))),
    ),
    conv_speed(
        "speed_conv_net",
        fault="The int8 file of a small convolutional net is slower than the float one.",
        build=conv_net(),
    ),
    conv_speed(
        "speed_squeeze_excite",
        fault="With squeeze-and-excitation the int8 file is slower than the float one.",
        build=conv_net(squeeze_excite),
    ),
    conv_speed(
        "speed_cbam",
        fault="With CBAM the int8 file is slower than the float one.",
        build=conv_net(cbam),
    ),
    speed(
        "speed_transformer",
        draw=normal(96, 64),
        fault="The int8 file of a Transformer takes six times the float file's time, in 15 pieces.",
        build=transformer(2, "gelu", 10),
        expect=files(**in_one_piece(float32=90, dynamic=30, int8=25), int16x8=30),
        note="Ten outputs show few values in calibration; a clipped one costs int16x8 some dB.",
    ),
    speed(
        "speed_gru_unrolled",
        draw=normal(48, 16),
        fault="The int8 file of an unrolled GRU is no faster than the float one.",
        build=gru(48, 16, 64, 10, unroll=True),
        expect=files(),
    ),
    gate_case("sigmoid", "sigmoid", "silu", "A net with gates loses accuracy in int8."),
    gate_case("hard_sigmoid", "hard_sigmoid", "hard_swish", "The gates' mobile form is refused in int16x8."),
    cbam_case("reduce", None, "With plain maxima int8 takes three times the float file's time."),
    cbam_case(
        "global_pooling",
        lambda x: layers.GlobalMaxPooling2D(keepdims=True)(x),
        "With global pooling layers int8 is as slow.",
    ),
    cbam_case(
        "window_pooling",
        lambda x: layers.MaxPooling2D(40)(x),
        "With one large pooling window int8 is as slow.",
    ),
    *(norm_case(place) for place in NORM_PLACES),
    define(
        "image_uint8_input",
        draw_pixels("uint8"),
        reports=("tensorflow/tensorflow#52177", "tensorflow/model-optimization#857"),
        fault="A model that takes uint8 pixels used to crash when its int8 file ran.",
        build=pixel_classifier("uint8"),
        expect=files(),
    ),
    define(
        "image_float_input",
        draw_pixels("float32"),
        reports=("tensorflow/tensorflow#40681",),
        fault="Raw pixels are fed to an int8 input, its scale and zero point forgotten.",
        build=pixel_classifier("float32"),
        expect=files(),
    ),
]
