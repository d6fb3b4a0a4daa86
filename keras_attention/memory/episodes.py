"""The maths of episodic memory: how facts compare with a vector, and what a pass over them finds."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _functional


def compare(facts: Any, vector: Any, kernel: Any, bias: Any = None) -> Any:
    """`[facts * vector, |facts - vector|] @ kernel + bias`, in at least float32: products leave float16.

    Args:
        facts: Tensor of shape `(batch, num_facts, units)`.
        vector: Tensor of shape `(batch, units)`.
        kernel: Tensor of shape `(2 * units, units)`.
        bias: Tensor of shape `(units,)` or `None`.
    """
    batch, units = ops.shape(vector)
    facts, vector, kernel = _widen(facts), _widen(vector), _widen(kernel)
    vector = _functional.reshape(vector, (batch, 1, units))
    parts = [ops.multiply(facts, vector), ops.abs(ops.subtract(facts, vector))]
    return _functional.project_parts(parts, kernel, None if bias is None else _widen(bias))


def gate_logits(of_question: Any, of_memory: Any, score_kernel: Any) -> Any:
    """`v^T tanh(of_question + of_memory)` for every fact, `(batch, 1, num_facts)`."""
    batch, num_facts = ops.shape(of_question)[:2]
    logits = ops.matmul(ops.tanh(_functional.add(of_question, of_memory)), _widen(score_kernel))
    return _functional.reshape(logits, (batch, 1, num_facts))


def attention_gru(
    resets: Any, candidates: Any, gates: Any, reset_recurrent_kernel: Any, candidate_recurrent_kernel: Any
) -> Any:
    """The last state, `(batch, units)`, of a GRU whose update gates are given.

    Args:
        resets: What the facts say to the reset gate, `(batch, num_facts, units)`.
        candidates: What they say to the new state, `(batch, num_facts, units)`.
        gates: Update gates, `(batch, num_facts)`; a fact of gate 0 leaves the state as it is.
        reset_recurrent_kernel: `(units, units)`.
        candidate_recurrent_kernel: `(units, units)`.
    """

    def step(state: Any, reset: Any, candidate: Any, gate: Any) -> Any:
        reset = ops.sigmoid(ops.add(reset, ops.matmul(state, reset_recurrent_kernel)))
        recurrent = ops.multiply(reset, ops.matmul(state, candidate_recurrent_kernel))
        candidate = ops.tanh(ops.add(candidate, recurrent))
        return ops.add(state, ops.multiply(gate, ops.subtract(candidate, state)))

    state = ops.zeros_like(resets[:, 0])
    num_facts = ops.shape(resets)[1]
    if isinstance(num_facts, int):
        for index in range(num_facts):
            gate = gates[:, index : index + 1]
            state = step(state, resets[:, index], candidates[:, index], gate)
        return state

    def is_left(index: Any, state: Any) -> Any:
        return ops.less(index, num_facts)

    def next_step(index: Any, state: Any) -> tuple[Any, Any]:
        gate = ops.expand_dims(gates[:, index], -1)
        return ops.add(index, 1), step(state, resets[:, index], candidates[:, index], gate)

    return ops.while_loop(is_left, next_step, (0, state))[1]


def _widen(x: Any) -> Any:
    """At least float32."""
    dtype = keras.backend.standardize_dtype(x.dtype)
    return ops.cast(x, "float32") if dtype in ("float16", "bfloat16") else x
