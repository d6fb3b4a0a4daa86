"""A Transformer encoder block around any attention layer."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _masks
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.blocks import transformer_block


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerEncoderBlock(transformer_block.TransformerBlock):
    """A Transformer encoder block: self-attention and a feed-forward network, each with a norm and a sum.

    The default is the block of today: the norms first, GELU. `normalize_first=False, activation="relu"` is
    the block of the paper and of `keras_hub.layers.TransformerEncoder`; `normalization="rms"`,
    `activation="swiglu"`, `use_bias=False` that of most language models. Any layer that is called as
    `layer(query, value)` can take the place of its attention. After the last of several blocks with the norms
    first belongs one more norm.

    ```
    x      = inputs + dropout(attention(norm(inputs)))          normalize_first=True
    output = x + dropout(feedforward(norm(x)))

    x      = norm(inputs + dropout(attention(inputs)))          normalize_first=False
    output = norm(x + dropout(feedforward(x)))

    feedforward(x) = activation(x W_1 + b_1) W_2 + b_2          or, with "swiglu",
    feedforward(x) = (silu(x W_g + b_g) * (x W_1 + b_1)) W_2 + b_2
    ```

    Differs from the paper: the defaults, see above.

    Masks are boolean, True = attend, and go to the attention as masks of both its queries and its keys. The
    mask of the inputs goes on.

    Args:
        intermediate_dim: Integer. Width inside the feed-forward network.
        num_heads: Integer or `None`. Heads of the attention, `MultiHeadAttention(num_heads, channels //
            num_heads)`; needed where `attention` is not given. Defaults to `None`.
        attention: Attention layer or `None`. Takes the place of that attention; it must return as many
            channels as it gets. Defaults to `None`.
        activation: Activation of Keras, or `"swiglu"`. Defaults to `"gelu"`.
        normalization: `"layer"` or `"rms"`. Defaults to `"layer"`.
        normalize_first: Boolean. Whether the norms stand before the sublayers and not behind the sums.
            Defaults to `True`.
        dropout: Float in [0, 1). Share of values dropped in training, of scores too where the block makes the
            attention. Defaults to `0.0`.
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
        inputs: Tensor of shape `(batch, length, channels)`.
        mask: Boolean tensor of shape `(batch, length)`. Defaults to the mask attached to `inputs`.
        attention_mask: Boolean tensor that broadcasts to the scores; batch and heads may be left out.
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only. Defaults to `False`.

    Output shape:
        The shape of `inputs` and, if asked for, scores `(batch, num_heads, length, length)`.

    Example:
    ```python
    import keras
    from keras_attention import SinusoidalPositionEncoding, TransformerEncoderBlock

    inputs = keras.Input((64, 6))
    x = SinusoidalPositionEncoding()(keras.layers.Dense(32)(inputs))
    for _ in range(2):
        x = TransformerEncoderBlock(intermediate_dim=64, num_heads=4)(x)
    outputs = keras.layers.LayerNormalization()(x)
    print(outputs.shape)  # (None, 64, 32)
    ```

    References:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762),
        [On Layer Normalization in the Transformer Architecture](https://arxiv.org/abs/2002.04745),
        [GLU Variants Improve Transformer](https://arxiv.org/abs/2002.05202).
    """

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int | None = None,
        attention: Any = None,
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
            attention,
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
        if (num_heads is None) == (attention is None):
            raise ValueError(
                "Give either `num_heads`, for multi-head attention, or `attention`, a layer. "
                f"Received: num_heads={num_heads}, attention={attention}"
            )

    def build(self, inputs_shape: Any) -> None:
        _validation.check_sequence("inputs", inputs_shape)
        self._attention = self._make_attention("attention", self.attention, inputs_shape, inputs_shape)
        self._attention_norm = self._make_norm("attention_norm", inputs_shape)
        self._attention_dropout = self._make_dropout("attention_dropout")
        self._build_feedforward(inputs_shape)
        self.built = True

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        masks = {
            "query_mask": mask,
            "value_mask": mask,
            "attention_mask": attention_mask,
            "use_causal_mask": use_causal_mask,
        }
        x = self._before(self._attention_norm, inputs)
        x, scores = transformer_block.attend(
            self._attention, x, x, masks, return_attention_scores, self.compute_dtype
        )
        x = self._after(self._attention_norm, self._attention_dropout(x), inputs)
        hidden = self._feedforward(self._before(self._feedforward_norm, x))
        output = self._after(self._feedforward_norm, hidden, x)
        _masks.attach(output, mask)
        return (output, scores) if return_attention_scores else output

    def compute_output_shape(self, inputs_shape: Any) -> tuple[Any, ...]:
        _validation.check_sequence("inputs", inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(
        self,
        inputs: Any,
        mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        # the attention checks the masks, and knows the shape of its scores
        spec = self._attention.compute_output_spec(
            inputs,
            inputs,
            query_mask=mask,
            value_mask=mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            use_causal_mask=use_causal_mask,
        )
        output = keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        return output, keras.KerasTensor(spec[1].shape, dtype=self.compute_dtype)
