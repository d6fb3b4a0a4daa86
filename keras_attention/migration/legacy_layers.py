"""The attention layers of two packages for Keras 2, as far as their files say: options and weights.

A model is read with these in the places of the old layers, and then they are replaced by layers of ours: they
compute zeros. Names of classes, attributes and weights, and their order, are those that the files hold.
"""

from __future__ import annotations

from typing import Any
from typing import ClassVar

import keras


class LegacyLayer(keras.layers.Layer):
    """Base class: keeps the options, tells shapes."""

    package = ""
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, **kwargs: Any) -> None:
        options = {name: kwargs.pop(name, value) for name, value in self.defaults.items()}
        super().__init__(**kwargs)
        self.supports_masking = True
        self.options = options

    def add(self, name: str, shape: tuple[int, ...]) -> None:
        setattr(self, name, self.add_weight(name=name, shape=shape, initializer="zeros"))

    def call(self, inputs: Any, mask: Any = None, training: bool | None = None) -> Any:
        """Zeros of the right shapes: layers that hold this one call it to learn their own."""
        inputs_shape = keras.tree.map_structure(lambda x: tuple(keras.ops.shape(x)), inputs)
        outputs = [keras.ops.zeros(shape, self.compute_dtype) for shape in self.output_shapes(inputs_shape)]
        return outputs if len(outputs) > 1 else outputs[0]

    def compute_output_spec(self, inputs: Any, mask: Any = None, training: bool | None = None) -> Any:
        inputs_shape = keras.tree.map_structure(lambda x: tuple(x.shape), inputs)
        shapes = self.output_shapes(inputs_shape)
        outputs = [keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes]
        return outputs if len(outputs) > 1 else outputs[0]

    def output_shapes(self, inputs_shape: Any) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.options}


class SeqSelfAttention(LegacyLayer):
    """A sequence attends to itself, by sums or by products."""

    package = "keras-self-attention"
    defaults: ClassVar[dict[str, Any]] = {
        "units": 32,
        "attention_width": None,
        "attention_type": "additive",
        "return_attention": False,
        "history_only": False,
        "kernel_initializer": "glorot_normal",
        "bias_initializer": "zeros",
        "kernel_regularizer": None,
        "bias_regularizer": None,
        "kernel_constraint": None,
        "bias_constraint": None,
        "use_additive_bias": True,
        "use_attention_bias": True,
        "attention_activation": None,
        "attention_regularizer_weight": 0.0,
    }

    def build(self, input_shape: Any) -> None:
        channels, units = input_shape[-1], self.options["units"]
        if self.options["attention_type"] == "additive":
            self.add("Wt", (channels, units))
            self.add("Wx", (channels, units))
            if self.options["use_additive_bias"]:
                self.add("bh", (units,))
            self.add("Wa", (units, 1))
        else:
            self.add("Wa", (channels, channels))
        if self.options["use_attention_bias"]:
            self.add("ba", (1,))
        self.built = True

    def output_shapes(self, inputs_shape: Any) -> list[tuple[Any, ...]]:
        batch, length = inputs_shape[:2]
        return [inputs_shape, (batch, length, length)] if self.options["return_attention"] else [inputs_shape]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return [previous_mask, None] if self.options["return_attention"] else previous_mask


class SeqWeightedAttention(LegacyLayer):
    """A sequence becomes one vector."""

    package = "keras-self-attention"
    defaults: ClassVar[dict[str, Any]] = {"use_bias": True, "return_attention": False}

    def build(self, input_shape: Any) -> None:
        self.add("W", (input_shape[-1], 1))
        if self.options["use_bias"]:
            self.add("b", (1,))
        self.built = True

    def output_shapes(self, inputs_shape: Any) -> list[tuple[Any, ...]]:
        batch, length, channels = inputs_shape
        return (
            [(batch, channels), (batch, length)] if self.options["return_attention"] else [(batch, channels)]
        )


class ScaledDotProductAttention(LegacyLayer):
    """Of keras-self-attention, without weights."""

    package = "keras-self-attention"
    defaults: ClassVar[dict[str, Any]] = {"return_attention": False, "history_only": False}

    def build(self, input_shape: Any) -> None:
        self.built = True

    def output_shapes(self, inputs_shape: Any) -> list[tuple[Any, ...]]:
        is_list = isinstance(inputs_shape[0], (list, tuple))
        query, key, value = inputs_shape if is_list else [inputs_shape] * 3
        context = (*query[:-1], value[-1])
        return [context, (*query[:-1], key[1])] if self.options["return_attention"] else [context]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        mask = previous_mask[0] if isinstance(previous_mask, (list, tuple)) else previous_mask
        return [mask, None] if self.options["return_attention"] else mask


class Attention(LegacyLayer):
    """Of the package `attention`; 4.1 has one score, and other names for the weights."""

    package = "attention"
    defaults: ClassVar[dict[str, Any]] = {"units": 128, "score": None}

    def build(self, input_shape: Any) -> None:
        channels, units = input_shape[-1], self.options["units"]
        if self.options["score"] is None:
            kernels = {"attention_score_vec": (channels, channels), "attention_vector": (2 * channels, units)}
        elif self.options["score"] == "luong":
            kernels = {"luong_w": (channels, channels), "w_c": (2 * channels, units)}
        else:
            kernels = {
                "bahdanau_v": (channels, 1),
                "bahdanau_w1": (channels, channels),
                "bahdanau_w2": (channels, channels),
                "w_c": (2 * channels, units),
            }
        for name, (num_inputs, num_outputs) in kernels.items():
            part = keras.layers.Dense(num_outputs, use_bias=False, name=name)
            part.build((None, num_inputs))
            setattr(self, name, part)
        self.built = True

    def output_shapes(self, inputs_shape: Any) -> list[tuple[Any, ...]]:
        return [(inputs_shape[0], self.options["units"])]
