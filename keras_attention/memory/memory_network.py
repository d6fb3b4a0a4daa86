"""End-to-end memory network: several hops of attention over given facts."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.memory.fact_layer import FactLayer

TYINGS = ("adjacent", "layer_wise")


@keras.saving.register_keras_serializable(package="keras_attention")
class MemoryNetwork(FactLayer):
    """Hops of attention of a question over facts, each from what the one before has found.

    Use it where the answer joins several facts: the first hop finds one, the next what that one leads to.
    The facts are vectors, one each, such as embedded sentences, sensor windows or items.

    ```
    u_1       = query B + b
    scores_k  = softmax(u_k · (value A_k + T_A,k))
    o_k       = scores_k @ (value C_k + T_C,k)
    u_k+1     = u_k + o_k          "adjacent":   A_k+1 = C_k and T_A,k+1 = T_C,k
                u_k H + o_k        "layer_wise": A, C, T_A, T_C and H are the same in every hop
    output    = u_num_hops+1
    ```

    T is there with `max_facts` only: a learned vector for each place in the row of facts.

    Differs from the paper: the facts arrive embedded, so there is no bag of words inside; the question has
    its own B also with "adjacent"; T counts from the first fact, so give the latest fact first to count from
    the latest; the answer's softmax, the start without softmax and random noise facts are left out. The
    question is multiplied by A^T instead of every fact by A, and the facts are summed before they are
    multiplied by C: the same numbers, at the cost of one fact instead of all.

    The mask is boolean, True = a fact. Where all facts are masked, scores and o are zero, and the output is
    u_1 ("adjacent") or u_1 H ... H ("layer_wise").

    Args:
        units: Integer. Width of the state and the output.
        num_hops: Integer. Number of hops. Defaults to `3`.
        tying: String, `"adjacent"` or `"layer_wise"`. Which weights the hops share. Defaults to
            `"adjacent"`.
        max_facts: Integer or `None`. Largest number of facts, for a learned vector of each place; `None`:
            the order of the facts does not matter. Defaults to `None`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether to add b to the embedded question. Defaults to `False`.
        kernel_initializer: Initializer of the kernels and T. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of b. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels and T. Defaults to `None`.
        bias_regularizer: Regularizer of b. Defaults to `None`.
        kernel_constraint: Constraint of the kernels and T. Defaults to `None`.
        bias_constraint: Constraint of b. Defaults to `None`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, channels)`, the question.
        value: Tensor of shape `(batch, num_facts, fact_channels)`, the facts.
        value_mask: Boolean tensor of shape `(batch, num_facts)`. Defaults to the mask attached to `value`.
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.

    Output shape:
        Output `(batch, units)` and, if asked for, scores `(batch, num_hops, num_facts)`.

    Example:
    ```python
    import numpy as np
    from keras_attention import MemoryNetwork

    question = np.random.rand(2, 16)
    facts = np.random.rand(2, 10, 24)
    output, scores = MemoryNetwork(32, num_hops=2)(question, facts, return_attention_scores=True)
    print(output.shape, scores.shape)  # (2, 32) (2, 2, 10)
    ```

    Reference:
        [End-To-End Memory Networks](https://arxiv.org/abs/1503.08895)
    """

    def __init__(
        self,
        units: int,
        num_hops: int = 3,
        tying: str = "adjacent",
        max_facts: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
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
            units,
            dropout,
            use_bias,
            seed,
            weight_options=_weights.pick(locals()),
            **kwargs,
        )
        _validation.check_positive_int("num_hops", num_hops)
        tying = _validation.choice("tying", tying, TYINGS)
        _validation.check_positive_int("max_facts", max_facts, optional=True)
        self.num_hops = num_hops
        self.tying = tying
        self.max_facts = max_facts
        self._state_kernel: Any = None

    def build(self, query_shape: Any, value_shape: Any) -> None:
        self._check_shapes(query_shape, value_shape)
        self._query_kernel = self._add_kernel("query_kernel", query_shape[-1], self.units)
        self._query_bias = _weights.add_bias(self, "query_bias", (self.units,))
        # Hop k reads with embedding k and answers with embedding k + 1; "layer_wise": always with 0 and 1.
        count = self.num_hops + 1 if self.tying == "adjacent" else 2
        self._kernels = [
            self._add_kernel(f"fact_kernel_{i}", value_shape[-1], self.units) for i in range(count)
        ]
        self._tables: list[Any] = [None] * count
        if self.max_facts is not None:
            self._tables = [
                self._add_kernel(f"place_table_{i}", self.max_facts, self.units) for i in range(count)
            ]
        if self.tying == "layer_wise":
            self._state_kernel = self._add_kernel("state_kernel", self.units, self.units)
        self.built = True

    @property
    def _num_rounds(self) -> int:
        return self.num_hops

    def _read(self, query: Any, value: Any, mask: Any, training: bool | None) -> tuple[Any, list[Any]]:
        state = _functional.project_parts([query], self._query_kernel, self._query_bias)
        all_scores = []
        for hop in range(self.num_hops):
            index = hop if self.tying == "adjacent" else 0
            scores = _functional.masked_softmax(self._logits(state, value, index), mask)
            weights = self._dropout_layer(scores, training=training)
            found = self._answer(weights, value, index + 1)
            if self._state_kernel is not None:
                state = ops.matmul(state, self._state_kernel)
            state = ops.add(state, found)
            all_scores.append(scores)
        return state, all_scores

    def _logits(self, state: Any, value: Any, index: int) -> Any:
        """Products of the state with every embedded fact, `(batch, 1, num_facts)`."""
        batch, num_facts, channels = ops.shape(value)
        query = ops.matmul(state, ops.transpose(self._kernels[index]))
        query = _functional.reshape(query, (batch, 1, channels))
        logits = ops.matmul(query, _functional.swap_last_axes(value))
        if self._tables[index] is None:
            return logits
        of_places = ops.matmul(state, ops.transpose(self._tables[index][:num_facts]))
        return _functional.add(logits, _functional.reshape(of_places, (batch, 1, num_facts)))

    def _answer(self, weights: Any, value: Any, index: int) -> Any:
        """The weighted sum of the embedded facts, `(batch, units)`."""
        batch, num_facts, channels = ops.shape(value)
        mean = _functional.reshape(ops.matmul(weights, value), (batch, channels))
        found = ops.matmul(mean, self._kernels[index])
        if self._tables[index] is None:
            return found
        weights = _functional.reshape(weights, (batch, num_facts))
        return ops.add(found, ops.matmul(weights, self._tables[index][:num_facts]))

    def _check_shapes(self, query_shape: Any, value_shape: Any) -> None:
        super()._check_shapes(query_shape, value_shape)
        num_facts = value_shape[1]
        if self.max_facts is not None and num_facts is not None and num_facts > self.max_facts:
            raise ValueError(
                "`value` must hold at most `max_facts` facts: only so many places have a vector. "
                f"Received: value.shape={tuple(value_shape)}, max_facts={self.max_facts}"
            )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_hops": self.num_hops,
            "tying": self.tying,
            "max_facts": self.max_facts,
        }
