"""Attention, norms, activations and sums: masks that eat a range, operators without an integer kernel."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
from keras import layers
from keras import ops

from benchmarks.bug_reports.case import FLOORS
from benchmarks.bug_reports.case import Case
from benchmarks.bug_reports.case import Draw
from benchmarks.bug_reports.case import chain
from benchmarks.bug_reports.case import define
from benchmarks.bug_reports.case import either
from benchmarks.bug_reports.case import everywhere
from benchmarks.bug_reports.case import file
from benchmarks.bug_reports.case import files
from benchmarks.bug_reports.case import functional
from benchmarks.bug_reports.case import in_one_piece
from benchmarks.bug_reports.case import normal
from benchmarks.bug_reports.case import refusal
from benchmarks.bug_reports.case import seeded


@keras.saving.register_keras_serializable("bug_reports")
class PenaltyAttention(layers.Layer):
    """Self-attention by hand, which adds `penalty` to the scores of what may not be seen.

    That is the future, or, given `keep`, the positions where it is 0.
    """

    def __init__(self, penalty: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.penalty = penalty
        self.query, self.key, self.value = layers.Dense(16), layers.Dense(16), layers.Dense(16)

    def call(self, x: Any, keep: Any = None) -> Any:
        """Return the attended values."""
        if keep is None:
            future = np.triu(np.ones((1, x.shape[1], x.shape[1]), "float32"), 1)
            penalties = self.penalty * future
        else:
            penalties = (1.0 - keep[:, None, :]) * self.penalty
        scores = ops.matmul(self.query(x), ops.transpose(self.key(x), (0, 2, 1))) / 4.0
        return ops.matmul(ops.softmax(scores + penalties), self.value(x))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        return {**super().get_config(), "penalty": self.penalty}


class SquaredDifference(layers.Layer):
    """A series against its reverse, in the one operator that Keras has no name for."""

    def call(self, inputs: Any) -> Any:
        """Return the squared difference."""
        import tensorflow as tf

        return tf.math.squared_difference(inputs, inputs[:, ::-1])


def padded_attention(penalty: float) -> keras.Model:
    """Attention over eight tokens, of which an input says which to keep."""
    tokens, keep = keras.Input((8, 16), name="tokens"), keras.Input((8,), name="keep")
    return keras.Model([tokens, keep], PenaltyAttention(penalty)(tokens, keep))


def draw_kept(fewest: int) -> Draw:
    """Tokens of which the first `fewest` to eight are kept, in turns."""

    def draw(generator: Any, n: int, spread: float) -> dict[str, np.ndarray]:
        kept = fewest + np.arange(n) % (9 - fewest)
        keep = (np.arange(8) < kept[:, None]).astype("float32")
        return {"tokens": normal(8, 16)(generator, n, spread), "keep": keep}

    return draw


def draw_scaled(shape: tuple[int, int], **factors: float) -> Draw:
    """Tokens of which the first, and perhaps the second, have another size than the rest."""

    def draw(generator: Any, n: int, spread: float) -> np.ndarray:
        tokens = normal(*shape)(generator, n, spread)
        tokens[:, 0] *= factors["first"]
        tokens[:, 1] *= factors.get("second", 1)
        return tokens

    return draw


def transformer(blocks: int, activation: str, outputs: int) -> Any:
    """A builder of a pre-norm Transformer encoder of 96 steps and 64 features."""

    def body(x: Any) -> Any:
        for _ in range(blocks):
            y = layers.LayerNormalization()(x)
            x = layers.Add()([x, layers.MultiHeadAttention(4, 16)(y, y)])
            y = layers.Dense(128, activation=activation)(layers.LayerNormalization()(x))
            x = layers.Add()([x, layers.Dense(64)(y)])
        return layers.Dense(outputs)(layers.GlobalAveragePooling1D()(x))

    return functional((96, 64), body, "tokens")


def between_dense(middle: Any) -> Any:
    """A builder of `middle()` between two dense layers."""
    return functional((16, 8), chain(lambda: layers.Dense(12), middle, lambda: layers.Dense(3)), "tokens")


def time_weights(x: Any) -> Any:
    """One attention weight for each step."""
    return layers.Softmax(axis=1)(layers.Dense(1)(x))


def attention_with_conv(tokens: Any) -> Any:
    """Attention, norm, convolution and dense layers: operators that come in many versions."""
    x = layers.LayerNormalization()(tokens + layers.MultiHeadAttention(2, 16)(tokens, tokens))
    x = layers.GlobalAveragePooling1D()(layers.Conv1D(16, 3)(x))
    return layers.Dense(4)(layers.Dense(64, activation="gelu")(x))


NO_INT16_KERNEL = (
    "tensorflow/tensorflow#56505",
    "tensorflow/tensorflow#59506",
    "tensorflow/tensorflow#56898",
    "google-ai-edge/LiteRT#4383",
)
MASKS = ("tensorflow/tensorflow#117052", "PINTO0309/onnx2tf#444", "microsoft/Olive#1597")
LOST_SCORES = files(int8_full=either(15), int16x8=either(30))
"""What a mask that eats the range of the scores may cost where everything is an integer."""

norm = functools.partial(define, draw=normal(16, 8), reports=NO_INT16_KERNEL)
masked = functools.partial(define, draw=normal(16, 16), reports=MASKS)


def activation_case(name: str, activation: Any, fault: str, **changes: Any) -> Case:
    """One activation between two dense layers."""
    return define(
        f"activation_{name}",
        normal(16, 8, scale=3.0),
        reports=(
            "leondgarse/keras_cv_attention_models#137",
            "PINTO0309/onnx2tf#244",
            "ultralytics/yolov5#10164",
        ),
        fault=fault,
        build=functional(
            (16, 8),
            chain(lambda: layers.Dense(16, activation=activation), lambda: layers.Dense(4)),
            "tokens",
        ),
        expect=files(**changes),
    )


def padding_case(name: str, penalty: float, fault: str, fewest: int = 1, **fields: Any) -> Case:
    """One penalty for padding, which comes from an input and so can't be folded."""
    fields = {"expect": LOST_SCORES, **fields}
    return define(
        f"padding_penalty_{name}",
        draw_kept(fewest),
        reports=("tensorflow/tensorflow#43719",),
        fault=fault,
        build=seeded(padded_attention, penalty),
        **fields,
    )


def reduction_case(name: str, reduce: Any, fault: str) -> Case:
    """One way to sum over time; the mean of the samples is 1, so a wrong factor shows."""
    return define(
        f"reduce_{name}",
        normal(16, 8, scale=0.5, shift=1.0),
        reports=(
            "xmos/ai_tools#942",
            "tensorflow/tensorflow#102490",
            "google-ai-edge/LiteRT#4079",
        ),
        fault=fault,
        build=functional((16, 8), reduce, "series"),
        expect=files(),
    )


def recipe_case(name: str, body: Any, fault: str, draw: Draw | None = None, **fields: Any) -> Case:
    """One graph that the ready-made recipes of a quantizer spoil."""
    fields = {"expect": files(), **fields}
    return define(
        f"quantizer_{name}",
        draw or normal(16, 16),
        reports=(
            "google-ai-edge/ai-edge-quantizer#326",
            "google-ai-edge/ai-edge-quantizer#474",
            "google-ai-edge/litert-torch#296",
        ),
        fault=fault,
        build=functional((16, 16), body, "series"),
        **fields,
    )


CASES = [
    norm(
        "layer_norm_between_dense",
        fault="int16x8 is refused, for a piece of the norm has no int16 kernel.",
        build=between_dense(layers.LayerNormalization),
        expect=files(),
    ),
    norm(
        "rms_norm_between_dense",
        fault="int16x8 is refused, for SQUARE has no int16 kernel.",
        build=between_dense(layers.RMSNormalization),
        expect=files(int8_full=either(15)),
    ),
    norm(
        "squared_difference",
        fault="int16x8 converts, and only running the file shows that a kernel is missing.",
        build=between_dense(SquaredDifference),
        expect=files(),
    ),
    norm(
        "attention_then_dense",
        fault="Attention without a norm does convert to int16x8: the baseline.",
        build=functional(
            (16, 8),
            chain(lambda: lambda x: layers.MultiHeadAttention(2, 8)(x, x), lambda: layers.Dense(3)),
            "tokens",
        ),
        expect=files(),
    ),
    define(
        "layer_norm_uneven_tokens",
        draw_scaled((16, 32), first=50, second=0.05),
        reports=(
            "tensorflow/tensorflow#58048",
            "tensorflow/tensorflow#60532",
            "google-ai-edge/litert-torch#345",
        ),
        fault="In int8 the norm of tokens of very different size is wrong.",
        build=functional((16, 32), lambda x: layers.LayerNormalization()(x), "tokens"),
        expect=files(int8=40, int8_full=either(15), int16x8=either(30)),
        note="With the norm in float, int8 is almost exact; one scale for all tokens gives 9 dB at best.",
    ),
    masked(
        "attention_without_mask",
        fault="Without a mask attention keeps its accuracy in int8: the baseline.",
        build=functional((16, 16), lambda x: layers.MultiHeadAttention(2, 8)(x, x), "tokens"),
        expect=files(),
    ),
    masked(
        "attention_causal",
        fault="The causal mask's constant takes the int8 range of the scores.",
        build=functional(
            (16, 16), lambda x: layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True), "tokens"
        ),
        expect=LOST_SCORES,
    ),
    masked(
        "attention_penalty_1e9",
        fault="A causal mask of -1e9 by hand makes int8 and int16x8 useless.",
        build=functional((16, 16), lambda x: PenaltyAttention(-1e9)(x), "tokens"),
        expect=LOST_SCORES,
    ),
    masked(
        "attention_penalty_30",
        fault="With -30 the same mask works, which shows what is to blame.",
        build=functional((16, 16), lambda x: PenaltyAttention(-30.0)(x), "tokens"),
        expect=files(),
    ),
    define(
        "transformer_unknown_batch",
        normal(96, 64),
        reports=(
            "tensorflow/tensorflow#54261",
            "tensorflow/tensorflow#44938",
            "tensorflow/tensorflow#50695",
            "leondgarse/keras_cv_attention_models#89",
        ),
        fault="The open batch leaves arithmetic on shapes, which cuts the graph into ten pieces.",
        build=transformer(3, "relu", 5),
        expect=files(**in_one_piece(float32=90, dynamic=30, int8=25), int16x8=30),
        note="Five outputs show few values in calibration; a clipped one costs int16x8 some dB.",
    ),
    activation_case("gelu", "gelu", "Exact GELU used to become an operator that phones lack."),
    activation_case(
        "gelu_tanh",
        lambda x: keras.activations.gelu(x, approximate=True),
        "The approximate GELU used to become ten operators.",
    ),
    activation_case(
        "gelu_erf",
        lambda x: 0.5 * x * (1 + ops.erf(x / 2**0.5)),
        "GELU written with the error function used to need TensorFlow's own operators.",
    ),
    activation_case("silu", "silu", "The product of two quantized factors loses accuracy in int8."),
    activation_case(
        "mish",
        "mish",
        "exp and log span more than integers hold: the int16x8 file answers nonsense.",
        int8_full=either(15),
        int16x8=either(35),
    ),
    padding_case("50", -50.0, "A penalty of -50 survives every precision.", expect=files()),
    padding_case("1e9", -1e9, "A penalty of -1e9 leaves the integer scores without resolution."),
    padding_case("1e30", -1e30, "A penalty of -1e30 used to give NaN with float16 weights."),
    padding_case(
        "lowest_float",
        float(np.finfo("float32").min),
        "The lowest float as penalty ends the process in int8.",
    ),
    padding_case(
        "1e9_empty_rows",
        -1e9,
        "Rows that are all padding become NaN, or differ between precisions.",
        fewest=0,
        note="Keras then weighs all tokens alike, for the penalty swallows the scores.",
    ),
    padding_case(
        "infinite",
        float("-inf"),
        "Zero times an infinite penalty is NaN, in Keras already.",
        expect=everywhere(refusal("finite")),
    ),
    define(
        "operator_versions",
        normal(16, 32),
        reports=(
            "tensorflow/tensorflow#80736",
            "tensorflow/tensorflow#76743",
            "google-ai-edge/LiteRT#2146",
            "tensorflow/tfjs#8461",
        ),
        fault="An older runtime on the phone lacks version 12 of FULLY_CONNECTED.",
        build=functional((16, 32), attention_with_conv, "tokens"),
        expect=files(
            **{
                precision: file(FLOORS[precision], max_versions={"FULLY_CONNECTED": 11})
                for precision in ("float32", "float16", "int8", "int8_full")
            }
        ),
        note="Scales found at run time, one per channel, do need version 12.",
    ),
    reduction_case("sum", lambda x: ops.sum(x, axis=1), "In int16x8 the sum is off by a factor."),
    reduction_case(
        "mean_times_length",
        lambda x: ops.mean(x, axis=1) * 16.0,
        "The mean times the length is the known way round.",
    ),
    reduction_case(
        "ones_matmul",
        lambda x: ops.matmul(ops.ones_like(x[:, :1, :1]) * np.ones((1, 1, 16), "float32"), x),
        "A product with ones is turned back into the sum that is wrong.",
    ),
    reduction_case(
        "attention_dot",
        lambda x: layers.Dot(axes=1)([time_weights(x), x]),
        "Attention pooling as a product of activations is right.",
    ),
    reduction_case(
        "attention_sum",
        lambda x: ops.sum(time_weights(x) * x, axis=1),
        "Attention pooling as a weighted sum is off by a factor.",
    ),
    recipe_case("lstm", lambda x: layers.LSTM(16)(x), "Static recipes do not look into the loop of an LSTM."),
    recipe_case(
        "causal_attention",
        lambda x: layers.MultiHeadAttention(2, 16)(x, x, use_causal_mask=True),
        "Static recipes lose the scores beside the mask.",
        expect=LOST_SCORES,
    ),
    recipe_case(
        "attention",
        lambda x: layers.MultiHeadAttention(2, 16)(x, x),
        "Static recipes are slower than the dynamic one, and less exact.",
    ),
    recipe_case(
        "layer_norm",
        lambda x: layers.LayerNormalization()(layers.Dense(32)(x)),
        "One large step sets the range, and the norm magnifies what is left of the others.",
        draw_scaled((16, 16), first=50),
        expect=files(int8=either(15), int8_full=either(15), int16x8=either(30)),
        note="One fixed scale for all steps leaves 4 to 9 dB for most of them.",
    ),
    recipe_case(
        "max_pooling",
        lambda x: layers.Dense(4)(ops.max(layers.Dense(32, activation="relu")(x), axis=1)),
        "A maximum between dense layers is a tenth off.",
    ),
    recipe_case(
        "attention_pooling",
        lambda x: ops.sum(time_weights(x) * x, axis=1),
        "Attention pooling is a fifth off, for the recipe averages ranges.",
    ),
]
