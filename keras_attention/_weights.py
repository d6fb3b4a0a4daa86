"""The six arguments of kernels and biases that layers share, and the weights made from them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
from keras import constraints
from keras import initializers
from keras import regularizers

from keras_attention import _functional
from keras_attention import _validation

_MODULES = {"initializer": initializers, "regularizer": regularizers, "constraint": constraints}
NAMES = tuple(f"{weight}_{kind}" for kind in _MODULES for weight in ("kernel", "bias"))


def pick(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The six of them among the arguments of a constructor, its `locals()`."""
    return {name: arguments[name] for name in NAMES}


def set_options(layer: Any, **options: Any) -> None:
    """Turns `kernel_initializer` ... `bias_constraint` into attributes of the layer, objects of Keras."""
    for name in NAMES:
        setattr(layer, name, _MODULES[name.split("_")[1]].get(options[name]))


def get_options(layer: Any) -> dict[str, Any]:
    """The six attributes as values of a config."""
    return {name: _MODULES[name.split("_")[1]].serialize(getattr(layer, name)) for name in NAMES}


def add_kernel(layer: Any, name: str, shape: Sequence[int]) -> Any:
    """Adds a weight made as the kernel options say, with random numbers of its own."""
    return layer.add_weight(
        name=name,
        shape=tuple(shape),
        initializer=_validation.clone_initializer(layer.kernel_initializer),
        regularizer=layer.kernel_regularizer,
        constraint=layer.kernel_constraint,
    )


def add_bias(layer: Any, name: str, shape: Sequence[int]) -> Any:
    """Adds a weight made as the bias options say; `None` where `layer.use_bias` is False."""
    if not layer.use_bias:
        return None
    return layer.add_weight(
        name=name,
        shape=tuple(shape),
        initializer=_validation.clone_initializer(layer.bias_initializer),
        regularizer=layer.bias_regularizer,
        constraint=layer.bias_constraint,
    )


class Projection(keras.layers.EinsumDense):
    """`EinsumDense` whose float path is one matmul of rank 3: same weights, LoRA and int8 mode, no einsum."""

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        num_input_axes = len(inputs.shape) - 2
        outputs = _functional.project(
            inputs, keras.ops.convert_to_tensor(self.kernel), self.bias, num_input_axes
        )
        return outputs if self.activation is None else self.activation(outputs)


def make_projection(
    layer: Any, name: str, equation: str, output_shape: Any, bias_axes: str, **options: Any
) -> Any:
    """Makes a projection with the options of the layer; it is not built yet.

    Args:
        layer: Layer with the six options, `use_bias` and a dtype policy.
        name: Name of the projection, part of the paths of its weights.
        equation: Einsum equation of `keras.layers.EinsumDense`.
        output_shape: Shape of its output without the batch.
        bias_axes: Axes of the bias.
        **options: Further arguments of `EinsumDense`, such as `activation`.
    """
    projection = Projection(
        equation,
        output_shape,
        bias_axes=bias_axes if layer.use_bias else None,
        kernel_initializer=_validation.clone_initializer(layer.kernel_initializer),
        bias_initializer=_validation.clone_initializer(layer.bias_initializer),
        kernel_regularizer=layer.kernel_regularizer,
        bias_regularizer=layer.bias_regularizer,
        kernel_constraint=layer.kernel_constraint,
        bias_constraint=layer.bias_constraint,
        dtype=layer.dtype_policy,
        name=name,
        **options,
    )
    projection.supports_masking = True  # or Keras warns that it loses the mask, which the layer looks after
    return projection
