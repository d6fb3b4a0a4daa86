"""Recurrent layers without a loop: one product for the inputs of all steps, then the steps written out.

The stock converter ends the process when it quantizes a loop, and the runtime executes a loop four
to five times slower than the same steps in a row. What is formed here runs in one piece on XNNPACK:
rows of a matrix are cut with STRIDED_SLICE, gates with SPLIT, and the outputs are joined by a tree of
CONCATENATION with four inputs each (the delegate takes no more than five).

LSTM, GRU and SimpleRNN get their own loops; any other RNN, also one with a user's cell, uses Keras' own
`unroll=True`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_attention.tflite.lowering.joining import join
from keras_attention.tflite.lowering.patch import Lowering
from keras_attention.tflite.lowering.patch import Patch

_TURNED: set[int] = set()
"""Ids of the layers that are being called as the backward half of a Bidirectional: they give their
outputs in the order of time, so that no REVERSE operator is needed. Guarded by `mobile_form`'s lock."""


def patches(layers: list[Any], lowering: Lowering) -> Iterator[Patch]:
    """Unroll every RNN whose length allows it; without the masks of dropout, drawn at inference too."""
    for layer in layers:
        if hasattr(layer, "get_dropout_mask"):  # a cell; ConvLSTM's and users' own have it too
            yield Patch(layer, "dropout", 0.0)
            yield Patch(layer, "recurrent_dropout", 0.0)
        if isinstance(layer, keras.layers.Bidirectional):
            yield Patch(layer, "call", functools.partial(_call_bidirectional, layer))
        elif isinstance(layer, keras.layers.RNN):
            step = _STEPS.get(type(layer))
            loop = _keras_loop if step is None else functools.partial(_unrolled_loop, step)
            yield Patch(layer, "inner_loop", functools.partial(loop, layer, lowering))


def _unrolled_loop(
    step: Any,
    layer: Any,
    lowering: Lowering,
    sequences: Any,
    initial_state: Any,
    mask: Any = None,
    training: bool = False,
) -> tuple[Any, Any, list[Any]]:
    """Stand in for `RNN.inner_loop`: return the last output, all outputs and the last states.

    As in Keras, a masked step keeps the state and repeats the last output (or gives zeros with
    `zero_output_for_mask`), and `go_backwards` leaves the outputs in the order of computation.
    """
    del training
    batch, length, width = sequences.shape
    if not lowering.unrolls(layer, batch, length, mask):
        return _turned(layer, type(layer).inner_loop(layer, sequences, initial_state, mask))
    projected = step.project(layer.cell, ops.reshape(sequences, (batch * length, width)))
    keep = None if mask is None else ops.cast(_single(mask), sequences.dtype)
    states = list(initial_state) if isinstance(initial_state, list | tuple) else [initial_state]
    order = range(length - 1, -1, -1) if layer.go_backwards else range(length)
    outputs: list[Any] = []
    for index in order:
        rows = [_rows(part, index, batch, length) for part in projected]
        updated = step.advance(layer.cell, rows, states)
        output = updated[0]
        if keep is not None:
            here = keep[:, index : index + 1]
            gone = 1.0 - here
            output = output * here
            if outputs and not layer.zero_output_for_mask:
                output = output + outputs[-1] * gone
            updated = [new * here + old * gone for new, old in zip(updated, states, strict=True)]
        states = updated
        outputs.append(output)
    if not layer.return_sequences:
        return outputs[-1], outputs[-1], states
    ordered = outputs[::-1] if id(layer) in _TURNED else outputs
    return outputs[-1], _stack(ordered, batch), states


def _keras_loop(
    layer: Any,
    lowering: Lowering,
    sequences: Any,
    initial_state: Any,
    mask: Any = None,
    training: bool = False,
) -> Any:
    """Run Keras' own inner loop, unrolled where the length allows it.

    Keras' unrolled loop takes a mask in the wrong order when it goes backwards; both are turned around here
    and it goes forwards.
    """
    as_built = layer.unroll, layer.go_backwards
    batch, length = sequences.shape[:2]
    unroll = layer.unroll or lowering.unrolls(layer, batch, length, mask)
    if unroll and layer.go_backwards and mask is not None:
        sequences, mask = ops.flip(sequences, axis=1), ops.flip(_single(mask), axis=1)
        vars(layer)["go_backwards"] = False
    vars(layer)["unroll"] = unroll
    try:
        return _turned(layer, type(layer).inner_loop(layer, sequences, initial_state, mask, training))
    finally:
        vars(layer)["unroll"], vars(layer)["go_backwards"] = as_built


class _LSTMStep:
    @staticmethod
    def project(cell: Any, inputs: Any) -> list[Any]:
        projected = ops.matmul(inputs, cell.kernel)
        return [projected + cell.bias if cell.use_bias else projected]

    @staticmethod
    def advance(cell: Any, rows: list[Any], states: list[Any]) -> list[Any]:
        hidden, carry = states
        gates = rows[0] + ops.matmul(hidden, cell.recurrent_kernel)
        enter, forget, candidate, leave = ops.split(gates, 4, axis=1)
        gate = cell.recurrent_activation
        carry = gate(forget) * carry + gate(enter) * cell.activation(candidate)
        return [gate(leave) * cell.activation(carry), carry]


class _GRUStep:
    """Keras' column order is update gate, reset gate, candidate."""

    @staticmethod
    def project(cell: Any, inputs: Any) -> list[Any]:
        two = 2 * cell.units
        gates = ops.matmul(inputs, cell.kernel[:, :two])
        candidate = ops.matmul(inputs, cell.kernel[:, two:])
        if not cell.use_bias:
            return [gates, candidate]
        if not cell.reset_after:
            return [gates + cell.bias[:two], candidate + cell.bias[two:]]
        bias = ops.convert_to_tensor(cell.bias)
        return [gates + (bias[0, :two] + bias[1, :two]), candidate + bias[0, two:]]

    @staticmethod
    def advance(cell: Any, rows: list[Any], states: list[Any]) -> list[Any]:
        (hidden,) = states
        two = 2 * cell.units
        kernel = ops.convert_to_tensor(cell.recurrent_kernel)
        gates = cell.recurrent_activation(rows[0] + ops.matmul(hidden, kernel[:, :two]))
        update, reset = ops.split(gates, 2, axis=1)
        if cell.reset_after:
            recurrent = ops.matmul(hidden, kernel[:, two:])
            if cell.use_bias:
                recurrent = recurrent + ops.convert_to_tensor(cell.bias)[1, two:]
            recurrent = reset * recurrent
        else:
            recurrent = ops.matmul(reset * hidden, kernel[:, two:])
        candidate = cell.activation(rows[1] + recurrent)
        return [candidate + update * (hidden - candidate)]


class _SimpleRNNStep:
    @staticmethod
    def project(cell: Any, inputs: Any) -> list[Any]:
        projected = ops.matmul(inputs, cell.kernel)
        return [projected + cell.bias if cell.use_bias else projected]

    @staticmethod
    def advance(cell: Any, rows: list[Any], states: list[Any]) -> list[Any]:
        total = rows[0] + ops.matmul(states[0], cell.recurrent_kernel)
        return [total if cell.activation is None else cell.activation(total)]


_STEPS = {
    keras.layers.LSTM: _LSTMStep,
    keras.layers.GRU: _GRUStep,
    keras.layers.SimpleRNN: _SimpleRNNStep,
}


def _call_bidirectional(
    layer: Any, sequences: Any, initial_state: Any = None, mask: Any = None, training: Any = None
) -> Any:
    """Stand in for `Bidirectional.call`, without the fused path and without a REVERSE operator."""
    half = len(initial_state) // 2 if initial_state is not None else 0
    states = [initial_state[:half], initial_state[half:]] if initial_state is not None else [None, None]
    results = []
    for part, state in zip((layer.forward_layer, layer.backward_layer), states, strict=True):
        kwargs = {"mask": mask} if part._call_has_mask_arg else {}
        if part._call_has_training_arg:
            kwargs["training"] = training
        if part is layer.backward_layer:
            _TURNED.add(id(part))
        try:
            result = part(sequences, initial_state=state, **kwargs)
        finally:
            _TURNED.discard(id(part))
        results.append(list(result) if layer.return_state else [result])
    (forward, *forward_states), (backward, *backward_states) = results
    merged = _MERGES[layer.merge_mode](forward, backward)
    if not layer.return_state:
        return merged
    head = merged if layer.merge_mode is None else (merged,)
    return (*head, *forward_states, *backward_states)


_MERGES = {
    "concat": lambda forward, backward: ops.concatenate([forward, backward], axis=-1),
    "sum": lambda forward, backward: forward + backward,
    "ave": lambda forward, backward: (forward + backward) / 2,
    "mul": lambda forward, backward: forward * backward,
    None: lambda forward, backward: (forward, backward),
}


def _turned(layer: Any, result: Any) -> Any:
    """Turn the outputs of Keras' own loop around, for the backward half of a Bidirectional."""
    last, outputs, states = result
    if id(layer) in _TURNED and layer.return_sequences:
        outputs = ops.flip(outputs, axis=1)
    return last, outputs, states


def _rows(projected: Any, index: int, batch: int, length: int) -> Any:
    """Cut one time step of every sequence out of a matrix of (batch * length) rows."""
    if batch == 1:
        return projected[index : index + 1]
    return ops.reshape(projected, (batch, length, -1))[:, index, :]


def _stack(outputs: list[Any], batch: int) -> Any:
    """Put the outputs of all steps, each (batch, units), into (batch, length, units)."""
    length = len(outputs)
    if batch == 1:
        return ops.reshape(join(outputs, axis=0), (1, length, -1))
    return ops.transpose(ops.reshape(join(outputs, axis=0), (length, batch, -1)), (1, 0, 2))


def _single(mask: Any) -> Any:
    return mask[0] if isinstance(mask, list | tuple) else mask
