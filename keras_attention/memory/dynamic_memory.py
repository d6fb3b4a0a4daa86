"""Episodic memory of dynamic memory networks: passes over given facts that update a memory."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.memory import episodes
from keras_attention.memory.fact_layer import FactLayer

EPISODES = ("soft", "gru")


@keras.saving.register_keras_serializable(package="keras_attention")
class DynamicMemory(FactLayer):
    """Passes of gated attention over facts, each of which updates a memory that started as the question.

    Use it like `MemoryNetwork`, where what counts is how a fact relates to both the question and the memory;
    `episode="gru"` where the order of the facts matters. It costs more: every pass compares every fact.

    ```
    q = m_0 = query W_q + b_q          f = value W_f + b_f
    z_t       = [f * q, |f - q|, f * m_t-1, |f - m_t-1|]
    scores_t  = softmax(v^T tanh(z_t W_z + b_z))
    c_t       = sum_i scores_t,i f_i                                                "soft"
                last state of a GRU whose update gate at fact i is scores_t,i       "gru"
    m_t       = relu([m_t-1; c_t; q] W_t + b_t)
    output    = m_num_passes
    ```

    Differs from the papers: question and facts are projected to `units`, so that they may come with any
    width; reading the words, the fusion of neighbouring facts and the answer are left to the model around the
    layer; v has no bias, which softmax would ignore. As in DMN+ each pass has its own W_t, the gates are
    shared, and the GRU is h + score (h' - h) with h' = tanh(f W + r * h U + b).

    The mask is boolean, True = a fact. Where all facts are masked, scores and episodes are zero, and the
    memory is updated from the question alone.

    Args:
        units: Integer. Width of the memory and the output.
        num_passes: Integer. Number of passes over the facts. Defaults to `3`.
        episode: String, `"soft"` or `"gru"`. How a pass sums up the facts. Defaults to `"soft"`.
        dropout: Float in [0, 1). Share of the attention scores dropped in training. Defaults to `0.0`.
        use_bias: Boolean. Whether to add the biases. Defaults to `True`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        seed: Integer or `None`. Seed of the dropout. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, channels)`, the question.
        value: Tensor of shape `(batch, num_facts, fact_channels)`, the facts. With `"gru"` a known number of
            facts is written out step by step, so that it converts; an unknown one is a loop.
        value_mask: Boolean tensor of shape `(batch, num_facts)`. Defaults to the mask attached to `value`.
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.

    Output shape:
        Output `(batch, units)` and, if asked for, scores `(batch, num_passes, num_facts)`.

    Example:
    ```python
    import numpy as np
    from keras_attention import DynamicMemory

    question = np.random.rand(2, 16)
    facts = np.random.rand(2, 10, 24)
    output, scores = DynamicMemory(32, num_passes=2)(question, facts, return_attention_scores=True)
    print(output.shape, scores.shape)  # (2, 32) (2, 2, 10)
    ```

    References:
        [Ask Me Anything: Dynamic Memory Networks](https://arxiv.org/abs/1506.07285),
        [Dynamic Memory Networks for Visual and Textual Question Answering](https://arxiv.org/abs/1603.01417).
    """

    def __init__(
        self,
        units: int,
        num_passes: int = 3,
        episode: str = "soft",
        dropout: float = 0.0,
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
            units,
            dropout,
            use_bias,
            seed,
            weight_options=_weights.pick(locals()),
            **kwargs,
        )
        _validation.check_positive_int("num_passes", num_passes)
        episode = _validation.choice("episode", episode, EPISODES)
        self.num_passes = num_passes
        self.episode = episode

    def build(self, query_shape: Any, value_shape: Any) -> None:
        self._check_shapes(query_shape, value_shape)
        units = self.units
        self._query_kernel, self._query_bias = self._add("query", query_shape[-1])
        self._fact_kernel, self._fact_bias = self._add("fact", value_shape[-1])
        self._gate_kernel, self._gate_bias = self._add("gate", 4 * units)
        self._score_kernel = self._add_kernel("score_kernel", units, 1)
        if self.episode == "gru":
            self._reset_kernel, self._reset_bias = self._add("reset", units)
            self._candidate_kernel, self._candidate_bias = self._add("candidate", units)
            self._reset_recurrent_kernel = self._add_kernel("reset_recurrent_kernel", units, units)
            self._candidate_recurrent_kernel = self._add_kernel("candidate_recurrent_kernel", units, units)
        self._memories = [self._add(f"memory_{i}", 3 * units) for i in range(self.num_passes)]
        self.built = True

    def _add(self, name: str, num_inputs: int) -> tuple[Any, Any]:
        kernel = self._add_kernel(f"{name}_kernel", num_inputs, self.units)
        return kernel, _weights.add_bias(self, f"{name}_bias", (self.units,))

    @property
    def _num_rounds(self) -> int:
        return self.num_passes

    def _read(self, query: Any, value: Any, mask: Any, training: bool | None) -> tuple[Any, list[Any]]:
        question = _functional.project_parts([query], self._query_kernel, self._query_bias)
        facts = _functional.project(value, self._fact_kernel, self._fact_bias)  # (batch, num_facts, units)
        half = 2 * self.units
        of_question = episodes.compare(facts, question, self._gate_kernel[:half], self._gate_bias)
        memory, all_scores = question, []
        for kernel, bias in self._memories:
            of_memory = episodes.compare(facts, memory, self._gate_kernel[half:])
            logits = episodes.gate_logits(of_question, of_memory, self._score_kernel)
            scores = ops.cast(_functional.masked_softmax(logits, mask), facts.dtype)
            weights = self._dropout_layer(scores, training=training)
            episode = self._episode(facts, weights)
            memory = ops.relu(_functional.project_parts((memory, episode, question), kernel, bias))
            all_scores.append(scores)
        return memory, all_scores

    def _episode(self, facts: Any, weights: Any) -> Any:
        """What a pass finds, `(batch, units)`, under weights `(batch, 1, num_facts)`."""
        batch, num_facts = ops.shape(facts)[:2]
        if self.episode == "soft":
            return _functional.reshape(ops.matmul(weights, facts), (batch, self.units))
        return episodes.attention_gru(
            _functional.project(facts, self._reset_kernel, self._reset_bias),
            _functional.project(facts, self._candidate_kernel, self._candidate_bias),
            _functional.reshape(weights, (batch, num_facts)),
            ops.convert_to_tensor(self._reset_recurrent_kernel),
            ops.convert_to_tensor(self._candidate_recurrent_kernel),
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_passes": self.num_passes, "episode": self.episode}
