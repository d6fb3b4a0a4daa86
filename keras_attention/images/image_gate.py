"""The base of all layers that look at an image as a whole and weigh its channels or places."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.images import _functional

EPSILON = 1e-5
"""Of batch norm, as in the code of the papers."""


class ImageGate(keras.layers.Layer):
    """Base class: one signature, one set of shapes and masks, the options that all gates have.

    Subclasses write `build`, `_compute` and `_gate_shapes`.
    """

    _num_spatial_axes: tuple[int, ...] = (1, 2)

    def __init__(
        self,
        gate_activation: Any,
        use_bias: bool,
        weight_options: dict[str, Any],
        data_format: str | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _validation.check_bool("use_bias", use_bias)
        _check_data_format(data_format)
        self.gate_activation = keras.activations.get(gate_activation)
        self.use_bias = use_bias
        self.data_format = data_format
        _weights.set_options(self, **weight_options)
        self.supports_masking = True

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        self._check_call(inputs.shape, mask)
        output, gates = self._compute(inputs, mask, training)
        _masks.attach(output, mask)
        if not return_attention_scores:
            return output
        return (output, *(keras.ops.cast(gate, output.dtype) for gate in gates))

    def _compute(self, inputs: Any, mask: Any, training: bool | None) -> tuple[Any, tuple[Any, ...]]:
        """Return the output and what `return_attention_scores` adds."""
        raise NotImplementedError

    def _gate_shapes(self, shape: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
        """Return the shapes of what `return_attention_scores` adds; here one gate per channel."""
        return ((shape[0], shape[-1]),)

    def _set_batch_norm(self, use_batch_norm: bool) -> None:
        _validation.check_bool("use_batch_norm", use_batch_norm)
        self.use_batch_norm = use_batch_norm
        self.batch_norm = None
        if use_batch_norm:
            self.batch_norm = _BatchNormalization(
                epsilon=EPSILON, dtype=self._part_dtype(), name="batch_norm"
            )

    def _build_batch_norm(self, shape: tuple[Any, ...]) -> None:
        if self.batch_norm is not None:
            self.batch_norm.build(shape)

    def _normalize(self, x: Any, mask: Any, training: bool | None) -> Any:
        """`x` normalized over the batch if that is asked for, without what is masked."""
        return x if self.batch_norm is None else self.batch_norm(x, training=training, mask=mask)

    def _part_dtype(self) -> Any:
        """The dtype of sublayers, which see means and maxima: never 16 bits."""
        is_narrow = self.compute_dtype in ("float16", "bfloat16")
        return "float32" if is_narrow else self.dtype_policy

    def _check_call(self, shape: Any, mask: Any) -> None:
        self._check_shape(shape)
        _validation.check_mask("mask", mask, shape[:-1])

    def _check_shape(self, shape: Any) -> None:
        if len(shape) - 2 in self._num_spatial_axes and shape[-1] is not None:
            return
        forms = {1: "(batch, length, channels)", 2: "(batch, height, width, channels)"}
        allowed = " or ".join(forms[count] for count in self._num_spatial_axes)
        raise ValueError(
            f"`inputs` must have shape {allowed}, with a known number of channels. "
            f"Received: inputs.shape={tuple(shape)}"
        )

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        self._check_shape(input_shape)
        return tuple(input_shape)

    def compute_output_spec(
        self,
        inputs: Any,
        mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        self._check_call(inputs.shape, mask)
        shapes = [tuple(inputs.shape)]
        if return_attention_scores:
            shapes += self._gate_shapes(tuple(inputs.shape))
        specs = tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes)
        return specs if return_attention_scores else specs[0]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "gate_activation": keras.activations.serialize(self.gate_activation),
            "use_bias": self.use_bias,
            "data_format": self.data_format,
            **_weights.get_options(self),
        }


class _BatchNormalization(keras.layers.BatchNormalization):
    """Batch norm that takes a mask for one channel too, whose statistics Keras leaves without an axis."""

    def _moments(self, inputs: Any, mask: Any) -> Any:
        return tuple(keras.ops.reshape(moment, (-1,)) for moment in super()._moments(inputs, mask))


class BottleneckGate(ImageGate):
    """Base class of gates with a layer of fewer channels in the middle."""

    def __init__(
        self,
        ratio: int,
        divisor: int,
        activation: Any,
        gate_activation: Any,
        use_bias: bool,
        weight_options: dict[str, Any],
        data_format: str | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(gate_activation, use_bias, weight_options, data_format, **kwargs)
        _validation.check_positive_int("ratio", ratio)
        _validation.check_positive_int("divisor", divisor)
        self.ratio = ratio
        self.divisor = divisor
        self.activation = keras.activations.get(activation)

    def _add_hidden(self, channels: int, has_bias: bool = True) -> int:
        """Adds the layer in the middle, from `channels` to the width that is returned."""
        units = _functional.hidden_units(channels, self.ratio, self.divisor)
        self.hidden_kernel = _weights.add_kernel(self, "hidden_kernel", (channels, units))
        self.hidden_bias = _weights.add_bias(self, "hidden_bias", (units,)) if has_bias else None
        return units

    def _hidden(self, x: Any) -> Any:
        return self.activation(_functional.dense(x, self.hidden_kernel, self.hidden_bias))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "ratio": self.ratio,
            "divisor": self.divisor,
            "activation": keras.activations.serialize(self.activation),
        }


def check_kernel_size(kernel_size: Any, optional: bool = False) -> None:
    """Raises unless the size is a positive odd integer (or `None` when `optional`)."""
    _validation.check_positive_int("kernel_size", kernel_size, optional)
    if kernel_size is not None and kernel_size % 2 == 0:
        raise ValueError(
            f"`kernel_size` must be odd, so that the kernel has a middle. Received: kernel_size={kernel_size}"
        )


def _check_data_format(data_format: str | None) -> None:
    """Raises unless the channels are last, by the argument or by Keras' own setting."""
    if data_format is not None:
        _validation.check_choice("data_format", data_format, ("channels_last", "channels_first"))
    setting = keras.config.image_data_format()
    if (data_format or setting) == "channels_last":
        return
    where = "" if data_format else f" (the setting of Keras is {setting!r})"
    raise ValueError(
        "`data_format` must be 'channels_last': .tflite files have their channels last. Put a "
        "`keras.layers.Permute((2, 3, 1))` before the layer, and pass data_format='channels_last'. "
        f"Received: data_format={data_format!r}{where}"
    )
