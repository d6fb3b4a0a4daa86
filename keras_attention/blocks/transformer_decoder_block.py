"""A Transformer decoder block around any attention layers."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _masks
from keras_attention import _sublayers
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.blocks import transformer_block


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerDecoderBlock(transformer_block.TransformerBlock):
    """A Transformer decoder block: causal self-attention, attention to an encoder, a feed-forward network.

    Each has a norm and a residual sum. Without an `encoder_sequence` the second is left out, as in language
    models and forecasts. The options are those of `TransformerEncoderBlock`.

    ```
    x      = inputs + dropout(attention(norm(inputs)))                       normalize_first=True
    x      = x + dropout(cross_attention(norm(x), encoder_sequence))
    output = x + dropout(feedforward(norm(x)))
    ```

    Differs from the paper: the defaults; `normalize_first=False, activation="relu"` is the paper's block and
    that of `keras_hub.layers.TransformerDecoder`.

    Masks are boolean, True = attend. The mask of the inputs goes on.

    Args:
        intermediate_dim: Integer. Width inside the feed-forward network.
        num_heads: Integer or `None`. Heads of the attention layers that are not given, each
            `MultiHeadAttention(num_heads, channels // num_heads)`. Defaults to `None`.
        attention: Attention layer or `None`. Takes the place of the self-attention. Defaults to `None`.
        cross_attention: Attention layer or `None`. Takes the place of the attention to the encoder. Defaults
            to `None`.
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
        encoder_sequence: Tensor of shape `(batch, encoder_length, encoder_channels)`, in every call or none.
        mask: Boolean tensor of shape `(batch, length)`. Defaults to the mask attached to `inputs`.
        encoder_mask: Boolean tensor of shape `(batch, encoder_length)`. Defaults to the mask attached to
            `encoder_sequence`.
        attention_mask: Boolean tensor that broadcasts to the scores of the self-attention.
        encoder_attention_mask: Boolean tensor that broadcasts to the scores of the cross-attention.
        return_attention_scores: Boolean. Whether to return `(output, scores)`, or with an encoder
            `(output, scores, cross_scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only. Defaults to `True`.

    Output shape:
        The shape of `inputs` and, if asked for, scores `(batch, num_heads, length, length)` and
        `(batch, num_heads, length, encoder_length)`.

    Example:
    ```python
    import keras
    from keras_attention import TransformerDecoderBlock

    encoded, inputs = keras.Input((64, 48)), keras.Input((16, 32))
    outputs = TransformerDecoderBlock(intermediate_dim=64, num_heads=4)(inputs, encoded)
    print(outputs.shape)  # (None, 16, 32)
    ```

    References:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762),
        [On Layer Normalization in the Transformer Architecture](https://arxiv.org/abs/2002.04745),
        [GLU Variants Improve Transformer](https://arxiv.org/abs/2002.05202).
    """

    _layer_arguments = ("attention", "cross_attention")

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int | None = None,
        attention: Any = None,
        cross_attention: Any = None,
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
        if cross_attention is not None:
            _validation.check_layer("cross_attention", cross_attention, arguments=("query", "value"))
        self.cross_attention = cross_attention
        if num_heads is None and attention is None:
            raise ValueError(
                "Give `num_heads`, for multi-head attention, or `attention`, a layer. "
                "Received: num_heads=None, attention=None"
            )
        self._cross_attention: Any = None

    def build(self, inputs_shape: Any, encoder_sequence_shape: Any = None) -> None:
        _validation.check_sequence("inputs", inputs_shape)
        self._attention = self._make_attention("attention", self.attention, inputs_shape, inputs_shape)
        self._attention_norm = self._make_norm("attention_norm", inputs_shape)
        self._attention_dropout = self._make_dropout("attention_dropout")
        if encoder_sequence_shape is not None:
            _validation.check_sequence("encoder_sequence", encoder_sequence_shape)
            self._cross_attention = self._make_attention(
                "cross_attention", self.cross_attention, inputs_shape, encoder_sequence_shape
            )
            self._cross_attention_norm = self._make_norm("cross_attention_norm", inputs_shape)
            self._cross_attention_dropout = self._make_dropout("cross_attention_dropout")
        self._build_feedforward(inputs_shape)
        self.built = True

    def call(
        self,
        inputs: Any,
        encoder_sequence: Any = None,
        mask: Any = None,
        encoder_mask: Any = None,
        attention_mask: Any = None,
        encoder_attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = True,
    ) -> Any:
        self._check_encoder(encoder_sequence)
        masks, cross_masks = _arrange(
            mask, encoder_mask, attention_mask, encoder_attention_mask, use_causal_mask
        )
        with_scores, dtype = return_attention_scores, self.compute_dtype
        x = self._before(self._attention_norm, inputs)
        x, scores = transformer_block.attend(self._attention, x, x, masks, with_scores, dtype)
        x = self._after(self._attention_norm, self._attention_dropout(x), inputs)
        results = [scores]
        if encoder_sequence is not None:
            query = self._before(self._cross_attention_norm, x)
            attended, scores = transformer_block.attend(
                self._cross_attention, query, encoder_sequence, cross_masks, with_scores, dtype
            )
            x = self._after(self._cross_attention_norm, self._cross_attention_dropout(attended), x)
            results.append(scores)
        hidden = self._feedforward(self._before(self._feedforward_norm, x))
        output = self._after(self._feedforward_norm, hidden, x)
        _masks.attach(output, mask)
        return (output, *results) if with_scores else output

    def _check_encoder(self, encoder_sequence: Any) -> None:
        if (encoder_sequence is None) != (self._cross_attention is None):
            raise ValueError(
                "`encoder_sequence` must be given in every call or in none: the first call decides whether "
                "there is cross-attention. "
                f"Received: encoder_sequence {'missing' if encoder_sequence is None else 'given'}"
            )

    def compute_output_shape(self, inputs_shape: Any, encoder_sequence_shape: Any = None) -> tuple[Any, ...]:
        _validation.check_sequence("inputs", inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(
        self,
        inputs: Any,
        encoder_sequence: Any = None,
        mask: Any = None,
        encoder_mask: Any = None,
        attention_mask: Any = None,
        encoder_attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = True,
    ) -> Any:
        self._check_encoder(encoder_sequence)
        masks, cross_masks = _arrange(
            mask, encoder_mask, attention_mask, encoder_attention_mask, use_causal_mask
        )
        calls = [(self._attention, inputs, masks)]
        if encoder_sequence is not None:
            calls.append((self._cross_attention, encoder_sequence, cross_masks))
        # the attention layers check the masks, and know the shapes of their scores
        specs = [
            layer.compute_output_spec(
                inputs, value, return_attention_scores=return_attention_scores, **arguments
            )
            for layer, value, arguments in calls
        ]
        output = keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        return output, *(keras.KerasTensor(scores.shape, dtype=self.compute_dtype) for _, scores in specs)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cross_attention": _sublayers.serialize(self.cross_attention),
        }


def _arrange(
    mask: Any, encoder_mask: Any, attention_mask: Any, encoder_attention_mask: Any, use_causal_mask: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The masks of the block as arguments of its self-attention and of its cross-attention."""
    own = {
        "query_mask": mask,
        "value_mask": mask,
        "attention_mask": attention_mask,
        "use_causal_mask": use_causal_mask,
    }
    # no mask of queries: what a padded step reads of the encoder goes nowhere
    cross = {"value_mask": encoder_mask, "attention_mask": encoder_attention_mask}
    return own, cross
