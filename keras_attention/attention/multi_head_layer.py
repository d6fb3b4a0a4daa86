"""The base of all layers with heads: projections of query, key and value, and of what the heads return."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention import _masks
from keras_attention import _sublayers
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.attention.attention_layer import AttentionLayer


class MultiHeadLayer(AttentionLayer):
    """Base class; a layer says in `_attend` or `_attend_masked` how its heads attend.

    The sublayers stand in the order, and under the names, of `keras.layers.MultiHeadAttention`: weights and
    weight files carry over.

    Args:
        num_heads: Integer. Number of heads.
        key_dim: Integer. Width of each head for queries and keys.
        value_dim: Integer or `None`. Width of each head for values; `None` means `key_dim`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training.
        use_bias: Boolean. Whether the projections have biases.
        output_shape: Integer, tuple or `None`. Feature shape of the output; `None` means the query's width.
        activity_regularizer: Regularizer of the output of each projection.
        use_gate: Boolean. Whether a sigmoid gate of the query multiplies the heads.
        seed: Integer or `None`. Seed of the dropout.
        weight_options: The six options of `_weights`.
        num_key_value_heads: Integer or `None`. Number of heads of keys and values, which divides `num_heads`;
            `None` means `num_heads`.
        use_query_key_norm: Boolean. Whether projected queries and keys are normalized, each head by itself.
        rotary: Layer or `None`. Rotates projected queries and keys, `(batch, length, heads, head_dim)`, by
            their positions; takes `start_index`.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    _layer_arguments: tuple[str, ...] = ("rotary",)

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None,
        dropout: float,
        use_bias: bool,
        output_shape: Any,
        activity_regularizer: Any,
        use_gate: bool,
        seed: int | None,
        weight_options: dict[str, Any],
        num_key_value_heads: int | None = None,
        use_query_key_norm: bool = False,
        rotary: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _validation.check_positive_int("num_heads", num_heads)
        _validation.check_positive_int("key_dim", key_dim)
        _validation.check_positive_int("value_dim", value_dim, optional=True)
        _validation.check_rate("dropout", dropout)
        _validation.check_bool("use_bias", use_bias)
        _validation.check_bool("use_gate", use_gate)
        _validation.check_positive_int("num_key_value_heads", num_key_value_heads, optional=True)
        if num_key_value_heads is not None and num_heads % num_key_value_heads:
            raise ValueError(
                "`num_heads` must be a multiple of `num_key_value_heads`. "
                f"Received: num_heads={num_heads}, num_key_value_heads={num_key_value_heads}"
            )
        _validation.check_bool("use_query_key_norm", use_query_key_norm)
        if rotary is not None:
            _validation.check_layer("rotary", rotary, arguments=("start_index",))
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        # Not `self.output_shape`: Keras gives that name another meaning in `Model.summary()`.
        self._output_shape = _validation.int_tuple("output_shape", output_shape, positive=True)
        # Not `self.activity_regularizer`: it is for the projections, Keras would also apply it to the scores.
        self._activity_regularizer = keras.regularizers.get(activity_regularizer)
        self.use_gate = use_gate
        self.seed = seed
        _weights.set_options(self, **weight_options)
        self.supports_masking = True
        self.num_key_value_heads = num_key_value_heads
        self.use_query_key_norm = use_query_key_norm
        self.rotary = rotary
        self._gate_dense: Any = None
        self._query_norm: Any = None
        self._key_norm: Any = None

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        self._check_shapes(query_shape, value_shape, key_shape)
        key_shape = value_shape if key_shape is None else key_shape
        heads, shared = self.num_heads, self._num_shared_heads
        self._query_dense = self._head_projection("query", query_shape[-1], heads, self.key_dim)
        self._key_dense = self._head_projection("key", key_shape[-1], shared, self.key_dim)
        if self.use_gate:
            self._gate_dense = self._head_projection(
                "gate", query_shape[-1], heads, self.value_dim, "sigmoid"
            )
        self._value_dense = self._head_projection("value", value_shape[-1], shared, self.value_dim)
        if self.use_query_key_norm:
            self._query_norm = self._head_norm("query_norm", heads)
            self._key_norm = self._head_norm("key_norm", shared)
        if self.rotary is not None and not self.rotary.built:
            self.rotary.build((None, None, heads, self.key_dim))
        self._dropout_layer = keras.layers.Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        features = self._output_shape or (query_shape[-1],)
        letters = "efghijkl"[: len(features)]
        self._output_dense = self._projection(
            "attention_output", f"abcd,cd{letters}->ab{letters}", (None, *features), letters
        )
        self._output_dense.build((None, None, self.num_heads, self.value_dim))
        self.built = True

    @property
    def _num_shared_heads(self) -> int:
        """Heads of keys and values; `_functional.grouped_matmul` takes them as they are."""
        return self.num_key_value_heads or self.num_heads

    @property
    def query_dense(self) -> Any:
        return self._query_dense

    @property
    def key_dense(self) -> Any:
        return self._key_dense

    @property
    def value_dense(self) -> Any:
        return self._value_dense

    @property
    def output_dense(self) -> Any:
        return self._output_dense

    def _compute(
        self,
        query: Any,
        value: Any,
        key: Any,
        masks: dict[str, Any],
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        """From `(batch, length, channels)` to `(batch, length, *features)`."""
        heads = self._project(query, key, value)
        context, scores = self._attend_masked(*heads, masks, training, return_attention_scores)
        return self._merge_heads(query, context), scores

    def _project(self, query: Any, key: Any, value: Any, **where: Any) -> tuple[Any, Any, Any]:
        """Heads `(batch, length, num_heads, head_dim)`, fewer for key and value where they are shared.

        `where` are arguments of `rotary`: `start_index` or `positions`.
        """
        query, key, value = self._query_dense(query), self._key_dense(key), self._value_dense(value)
        if self._query_norm is not None:
            query, key = self._query_norm(query), self._key_norm(key)
        if self.rotary is not None:
            # a layer of the caller's, so perhaps of another dtype
            query, key = (keras.ops.cast(self.rotary(x, **where), x.dtype) for x in (query, key))
        return query, key, value

    def _merge_heads(self, query: Any, context: Any) -> Any:
        """The output `(batch, query_length, *features)` from what the heads return."""
        if self._gate_dense is not None:
            context = keras.ops.multiply(context, self._gate_dense(query))
        return self._output_dense(context)

    def _attend_masked(
        self,
        query: Any,
        key: Any,
        value: Any,
        masks: dict[str, Any],
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        """Attention of `(batch, length, num_heads, head_dim)` under masks that are not merged yet.

        Key and value have `num_key_value_heads`, where the layer has that option.
        Layers that never form the mask of all pairs replace this method; the others only `_attend`.
        """
        lengths = (keras.ops.shape(query)[1], keras.ops.shape(key)[1])
        mask = _masks.merge_masks(*lengths, 4, **masks)
        return self._attend(query, key, value, mask, training, return_attention_scores)

    def _attend(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[Any, Any]:
        """Context `(batch, query_length, num_heads, value_dim)` and scores (or `None`) under one mask."""
        raise NotImplementedError

    def _head_projection(
        self, name: str, channels: int, num_heads: int, head_dim: int, activation: str | None = None
    ) -> Any:
        layer = self._projection(
            name, "abc,cde->abde", (None, num_heads, head_dim), "de", activation=activation
        )
        layer.build((None, None, channels))
        return layer

    def _head_norm(self, name: str, num_heads: int) -> Any:
        layer = keras.layers.RMSNormalization(dtype=self.dtype_policy, name=name)
        layer.supports_masking = True  # or Keras warns that it loses the mask, which this layer looks after
        layer.build((None, None, num_heads, self.key_dim))
        return layer

    def _projection(self, name: str, equation: str, output_shape: Any, bias_axes: str, **options: Any) -> Any:
        return _weights.make_projection(
            self,
            name,
            equation,
            output_shape,
            bias_axes,
            activity_regularizer=self._activity_regularizer,
            **options,
        )

    def _output_shape_of(self, query_shape: Any, value_shape: Any) -> tuple[Any, ...]:
        return (*query_shape[:-1], *(self._output_shape or (query_shape[-1],)))

    def _scores_shape_of(self, query_shape: Any, value_shape: Any) -> tuple[Any, ...]:
        return (query_shape[0], self.num_heads, query_shape[1], value_shape[1])

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**_sublayers.revive(config, cls._layer_arguments))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self._output_shape,
            "activity_regularizer": keras.regularizers.serialize(self._activity_regularizer),
            "use_gate": self.use_gate,
            "num_key_value_heads": self.num_key_value_heads,
            "use_query_key_norm": self.use_query_key_norm,
            "rotary": _sublayers.serialize(self.rotary),
            "seed": self.seed,
            **_weights.get_options(self),
        }
