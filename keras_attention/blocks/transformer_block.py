"""The base of Transformer blocks: sublayers with a norm before or behind and a residual sum around each."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _sublayers
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.attention.multi_head_attention import MultiHeadAttention

_NORMS = {"layer": keras.layers.LayerNormalization, "rms": keras.layers.RMSNormalization}


class TransformerBlock(keras.layers.Layer):
    """Base class; a block builds its sublayers with the methods here and says in `call` how they follow.

    Args:
        intermediate_dim: Integer. Width inside the feed-forward network.
        num_heads: Integer or `None`. Heads of the attention made by the block.
        attention: Attention layer or `None`. Takes the place of the one made by the block.
        activation: `"swiglu"` or an activation of Keras.
        normalization: `"layer"` or `"rms"`.
        normalize_first: Boolean. Whether the norms stand before the sublayers.
        dropout: Float in [0, 1). Share of values dropped in training.
        epsilon: Number. Added to the variance in the norms.
        use_bias: Boolean. Whether projections and dense layers have biases.
        seed: Integer or `None`. Seed of the dropout.
        weight_options: The six options of `_weights`.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    _layer_arguments: tuple[str, ...] = ("attention",)

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int | None,
        attention: Any,
        activation: Any,
        normalization: str,
        normalize_first: bool,
        dropout: float,
        epsilon: float,
        use_bias: bool,
        seed: int | None,
        weight_options: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _validation.check_positive_int("intermediate_dim", intermediate_dim)
        _validation.check_positive_int("num_heads", num_heads, optional=True)
        if attention is not None:
            _validation.check_layer("attention", attention, arguments=("query", "value"))
        if normalization not in _NORMS:
            raise ValueError(
                f"`normalization` must be 'layer' or 'rms'. Received: normalization={normalization!r}"
            )
        _validation.check_bool("normalize_first", normalize_first)
        _validation.check_rate("dropout", dropout)
        _validation.check_positive_number("epsilon", epsilon)
        _validation.check_bool("use_bias", use_bias)
        self.intermediate_dim = intermediate_dim
        self.num_heads = num_heads
        self.attention = attention
        self.activation = activation if activation == "swiglu" else keras.activations.get(activation)
        self.normalization = normalization
        self.normalize_first = normalize_first
        self.dropout = dropout
        self.epsilon = epsilon
        self.use_bias = use_bias
        self.seed = seed
        _weights.set_options(self, **weight_options)
        self.supports_masking = True
        self._num_dropouts = 0

    def _make_attention(self, name: str, given: Any, query_shape: Any, value_shape: Any) -> Any:
        """Return the given attention, or multi-head attention of the block's options, built."""
        channels = query_shape[-1]
        layer = given
        if layer is None:
            if self.num_heads is None or channels % self.num_heads:
                raise ValueError(
                    f"The channels must be a multiple of `num_heads`; or pass a layer as `{name}`. "
                    f"Received: num_heads={self.num_heads}, channels={channels}"
                )
            layer = MultiHeadAttention(
                self.num_heads,
                channels // self.num_heads,
                dropout=self.dropout,
                use_bias=self.use_bias,
                seed=self._next_seed(),
                dtype=self.dtype_policy,
                name=name,
                **{option: _validation.clone_initializer(getattr(self, option)) for option in _weights.NAMES},
            )
        if not layer.built:
            layer.build(query_shape, value_shape)
        width = layer.compute_output_shape(query_shape, value_shape)[-1]
        if width != channels:
            raise ValueError(
                f"`{name}` must return as many channels as it gets, since both are summed. "
                f"Received: {channels} channels in and {width} out of {type(layer).__name__}"
            )
        return layer

    def _make_norm(self, name: str, shape: Any) -> Any:
        norm = _NORMS[self.normalization](epsilon=self.epsilon, dtype=self.dtype_policy, name=name)
        norm.supports_masking = True  # RMSNormalization would drop the mask, with a warning
        norm.build(shape)
        return norm

    def _make_dropout(self, name: str) -> Any:
        return keras.layers.Dropout(self.dropout, seed=self._next_seed(), dtype=self.dtype_policy, name=name)

    def _next_seed(self) -> int | None:
        """Another seed for each dropout: equal ones would drop the same values everywhere."""
        self._num_dropouts += 1
        return None if self.seed is None else self.seed + self._num_dropouts

    def _build_feedforward(self, shape: Any) -> None:
        inner = (*shape[:-1], self.intermediate_dim)
        is_gated = self.activation == "swiglu"
        activation = None if is_gated else self.activation
        self._feedforward_norm = self._make_norm("feedforward_norm", shape)
        self._intermediate_dense = self._make_dense(
            "feedforward_intermediate_dense", shape, inner[-1], activation
        )
        self._gate_dense = (
            self._make_dense("feedforward_gate_dense", shape, inner[-1], "silu") if is_gated else None
        )
        self._output_dense = self._make_dense("feedforward_output_dense", inner, shape[-1], None)
        self._feedforward_dropout = self._make_dropout("feedforward_dropout")

    def _make_dense(self, name: str, shape: Any, units: int, activation: Any) -> Any:
        dense = keras.layers.Dense(
            units,
            activation=activation,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
            **{option: _validation.clone_initializer(getattr(self, option)) for option in _weights.NAMES},
        )
        dense.build(shape)
        return dense

    def _feedforward(self, x: Any) -> Any:
        hidden = self._intermediate_dense(x)
        if self._gate_dense is not None:
            hidden = ops.multiply(hidden, self._gate_dense(x))
        return self._feedforward_dropout(self._output_dense(hidden))

    def _before(self, norm: Any, x: Any) -> Any:
        return norm(x) if self.normalize_first else x

    def _after(self, norm: Any, x: Any, residual: Any) -> Any:
        # an injected layer may compute in another dtype
        x = ops.add(residual, ops.cast(x, self.compute_dtype))
        return x if self.normalize_first else norm(x)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**_sublayers.revive(config, cls._layer_arguments))

    def get_config(self) -> dict[str, Any]:
        activation = self.activation
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "attention": _sublayers.serialize(self.attention),
            "activation": activation if activation == "swiglu" else keras.activations.serialize(activation),
            "normalization": self.normalization,
            "normalize_first": self.normalize_first,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
            "use_bias": self.use_bias,
            "seed": self.seed,
            **_weights.get_options(self),
        }


def attend(layer: Any, query: Any, value: Any, masks: dict[str, Any], scores: bool, dtype: Any) -> Any:
    """Output and scores (or `None`) of an attention layer, called with those masks alone that are given.

    What is left out the layer takes from its inputs, which carry their masks, or need not know.
    """
    arguments = {name: mask for name, mask in masks.items() if mask is not None and mask is not False}
    if not scores:
        return layer(query, value, **arguments), None
    output, weights = layer(query, value, **arguments, return_attention_scores=True)
    return output, ops.cast(weights, dtype)
