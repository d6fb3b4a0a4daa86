"""Rules about what the layers of a Keras model do."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import keras

from keras_attention.tflite.linting import keras_graph
from keras_attention.tflite.linting.finding import Finding
from keras_attention.tflite.lowering import all_layers

LACKING = frozenset(
    {
        "AffineTransform", "Arccos", "Arccosh", "Arcsin", "Arcsinh", "Arctan", "Arctanh", "AveragePooling3D",
        "Bincount", "BitwiseAnd", "BitwiseNot", "CTCDecode", "Cholesky", "Cosh", "Cross", "Cumprod", "Det",
        "Diagonal", "Eig", "Eigh", "Erf", "Erfinv", "FFT", "FFT2", "HSVToRGB", "HashedCrossing", "Hashing",
        "IFFT2", "IRFFT", "ISTFT", "InTopK", "IntegerLookup", "Inv", "LeftShift", "Logdet", "MaxPooling3D",
        "Qr", "RGBToHSV", "SVD", "Sinh", "Slogdet", "Solve", "SolveTriangular", "StringLookup", "Tan",
        "TextVectorization",
    }
)  # fmt: skip
"""What the converter refuses with builtin operators only; a test tries each."""
_RESIZING = ("Resize", "Resizing", "UpSampling2D")
_BUILTIN_INTERPOLATIONS = ("nearest", "bilinear")


def stateful(model: Any) -> Iterator[Finding]:
    """Recurrent layers that keep their state between calls."""
    for layer in all_layers(model):
        if not isinstance(layer, keras.layers.RNN) or not layer.stateful:
            continue
        built = None if layer.states is None else keras.tree.flatten(layer.states)[0].shape[0]
        if built in (None, 1):
            yield Finding(
                "KA105",
                "note",
                keras_graph.place(layer),
                "it keeps its state between calls, and a file has none: it becomes an input and an output",
                "hand each state that the file gives out in again with the next sample, zeros to start with",
            )
        else:
            yield Finding(
                "KA105",
                "error",
                keras_graph.place(layer),
                f"it keeps the state of {built} sequences between calls, and a file streams one",
                "build the model with keras.Input(batch_shape=(1, ...)) and give it these weights, or set "
                "stateful=False",
            )


def quantized_by_keras(model: Any) -> Iterator[Finding]:
    """Layers after `model.quantize(...)`."""
    for layer in all_layers(model):
        mode = getattr(layer, "quantization_mode", None)
        if mode is not None:
            yield Finding(
                "KA110",
                "error",
                keras_graph.place(layer),
                f"it was quantized by Keras already (mode {mode!r})",
                "check and convert the model as it was before `model.quantize(...)`",
            )


def float_ids(model: Any) -> Iterator[Finding]:
    """Embeddings whose ids come as floats."""
    for operation, node in keras_graph.calls(model):
        if not isinstance(operation, keras.layers.Embedding):
            continue
        (tensor,) = node.input_tensors[:1]
        if keras.backend.is_float_dtype(tensor.dtype):
            yield Finding(
                "KA111",
                "warning",
                keras_graph.place(operation),
                f"its ids are {tensor.dtype}: the file takes floats and casts them, and a quantized input "
                "would round them to other ids",
                "keras.Input(..., dtype='int32')",
            )


def half_precision(model: Any) -> Iterator[Finding]:
    """Layers that compute in float16 or bfloat16; one finding for all."""
    half = [
        layer
        for layer in all_layers(model)
        if not isinstance(layer, keras.Model)
        and keras.backend.standardize_dtype(layer.compute_dtype) in ("float16", "bfloat16")
    ]
    if half:
        more = f" and {len(half) - 1} more" if len(half) > 1 else ""
        yield Finding(
            "KA112",
            "note",
            f"{keras_graph.place(half[0])}{more}",
            f"they compute in {half[0].compute_dtype}; the file computes in float32 or int8",
            "nothing to do: `convert` takes the float32 weights and compares within half precision",
        )


def random_at_inference(model: Any) -> Iterator[Finding]:
    """Layers of the user's that own a source of random numbers and can't know when to be quiet."""
    for layer in all_layers(model):
        if keras_graph.is_of_library(type(layer)) or "training" in inspect.signature(layer.call).parameters:
            continue
        if any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values()):
            yield Finding(
                "KA113",
                "error",
                keras_graph.place(layer),
                "it draws random numbers, and its call takes no `training`: two runs on one input differ",
                "def call(self, inputs, training=False), and random numbers only if training",
            )


def lacking_operators(model: Any) -> Iterator[Finding]:
    """Layers and operations for which the converter knows no builtin operator."""
    layers = [layer for layer in all_layers(model) if not isinstance(layer, keras.Model)]
    called = [operation for operation, _ in keras_graph.calls(model)]
    for operation in {id(item): item for item in (*layers, *called)}.values():
        reason = _why_lacking(operation) if keras_graph.is_of_library(type(operation)) else ""
        if reason:
            yield Finding(
                "KA118",
                "error",
                keras_graph.place(operation),
                f"{reason}; with TensorFlow's own (Flex) the app grows by megabytes",
                "do this step in the app, in front of the model, or replace it by standard layers",
            )


def _why_lacking(operation: Any) -> str:
    name = type(operation).__name__
    if name in LACKING:
        return f"{name} has no builtin operator"
    if name == "CategoryEncoding" and operation.output_mode != "one_hot":
        return f"{name} with output_mode={operation.output_mode!r} has no builtin operator"
    if name in _RESIZING:
        interpolation = getattr(operation, "interpolation", "nearest")
        if interpolation not in _BUILTIN_INTERPOLATIONS:
            return f"{name} with interpolation={interpolation!r} has no builtin operator"
        if getattr(operation, "antialias", False):
            return f"{name} with antialias=True has no builtin operator"
    return ""
