"""A block of a Swin Transformer."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.blocks.transformer_block import TransformerBlock
from keras_attention.images import _windows
from keras_attention.images.window_attention import WindowAttention


@keras.saving.register_keras_serializable(package="keras_attention")
class SwinBlock(TransformerBlock):
    """A block of a Swin Transformer: attention within windows of an image, then two dense layers.

    Blocks come in pairs: the first with windows as they lie, the second with `shift_size` half a window. A
    `PatchMerging` behind some pairs halves the image.

    ```
    x      = inputs + dropout(attention(norm(inputs)))          normalize_first=True
    output = x + dropout(gelu(norm(x) W_1 + b_1) W_2 + b_2)

    x      = norm(inputs + dropout(attention(inputs)))          normalize_first=False
    output = norm(x + dropout(gelu(x W_1 + b_1) W_2 + b_2))
    ```

    Differs from the paper: that of `WindowAttention`; no stochastic depth.

    A mask is boolean, True = attend. A cell that is masked attends to nothing, is attended to by nothing, and
    passes through the residual sums. The mask goes on.

    Args:
        intermediate_dim: Integer. Width inside the feed-forward network; four times the channels is usual.
        num_heads: Integer. Number of heads, which divides the channels.
        window_size: Integer or `(height, width)`. Size of the windows. Defaults to `7`.
        shift_size: Integer or `(rows, columns)`. How far the windows are shifted, less than their size.
            Defaults to `0`.
        activation: Activation of Keras, or `"swiglu"`. Defaults to `"gelu"`.
        normalization: `"layer"` or `"rms"`. Defaults to `"layer"`.
        normalize_first: Boolean. Whether the norms stand before the sublayers and not behind the sums.
            Defaults to `True`.
        dropout: Float in [0, 1). Share of values and scores dropped in training. Defaults to `0.0`.
        epsilon: Number. Added to the variance in the norms. Defaults to `1e-5`.
        use_bias: Boolean. Whether projections and dense layers have biases. Defaults to `True`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, height, width, channels)`.
        mask: Boolean tensor of shape `(batch, height, width)`. Defaults to the mask attached to `inputs`.
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.

    Output shape:
        The shape of `inputs` and, if asked for, scores `(batch, num_windows * num_heads, cells, cells)` of
        `WindowAttention`.

    Example:
    ```python
    import keras
    from keras_attention import PatchEmbedding, PatchMerging, SwinBlock

    images = keras.Input((32, 32, 3))
    x = PatchEmbedding(patch_size=2, output_dim=32, flatten=False)(images)
    for shift_size in (0, 2):
        x = SwinBlock(intermediate_dim=128, num_heads=2, window_size=4, shift_size=shift_size)(x)
    x = PatchMerging()(x)
    print(x.shape)  # (None, 8, 8, 64)
    ```

    Reference:
        [Swin Transformer](https://arxiv.org/abs/2103.14030)
    """

    _layer_arguments = ()

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        window_size: Any = 7,
        shift_size: Any = 0,
        activation: Any = "gelu",
        normalization: str = "layer",
        normalize_first: bool = True,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            intermediate_dim,
            num_heads,
            None,
            activation,
            normalization,
            normalize_first,
            dropout,
            epsilon,
            use_bias,
            seed,
            weight_options=_weights.pick(locals()),
            **kwargs,
        )
        _validation.check_positive_int("num_heads", num_heads)
        self.window_size = _windows.size_pair("window_size", window_size)
        self.shift_size = _windows.shift_pair(shift_size, self.window_size)

    def build(self, inputs_shape: Any) -> None:
        _windows.check_images(inputs_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: inputs_shape[-1]})
        channels, num_heads = inputs_shape[-1], self.num_heads or 1
        if channels % num_heads:
            raise ValueError(
                "The channels must be a multiple of `num_heads`. "
                f"Received: num_heads={num_heads}, channels={channels}"
            )
        self._attention = WindowAttention(
            num_heads,
            channels // num_heads,
            self.window_size,
            self.shift_size,
            dropout=self.dropout,
            use_bias=self.use_bias,
            seed=self._next_seed(),
            dtype=self.dtype_policy,
            name="attention",
            **{option: _validation.clone_initializer(getattr(self, option)) for option in _weights.NAMES},
        )
        self._attention.build(inputs_shape)
        self._attention_norm = self._make_norm("attention_norm", inputs_shape)
        self._attention_dropout = self._make_dropout("attention_dropout")
        self._build_feedforward(inputs_shape)
        self.built = True

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        x = self._before(self._attention_norm, inputs)
        x = self._attention(x, mask=mask, return_attention_scores=return_attention_scores)
        x, scores = x if return_attention_scores else (x, None)
        x = self._after(self._attention_norm, self._attention_dropout(x), inputs)
        hidden = self._feedforward(self._before(self._feedforward_norm, x))
        output = self._after(self._feedforward_norm, hidden, x)
        _masks.attach(output, mask)
        return (output, scores) if return_attention_scores else output

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask

    def compute_output_shape(self, inputs_shape: Any) -> tuple[Any, ...]:
        _windows.check_images(inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(
        self,
        inputs: Any,
        mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        # the attention checks the mask, and knows the shape of its scores
        return self._attention.compute_output_spec(
            inputs, mask=mask, return_attention_scores=return_attention_scores
        )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["attention"]  # made by the block itself
        return {**config, "window_size": self.window_size, "shift_size": self.shift_size}
