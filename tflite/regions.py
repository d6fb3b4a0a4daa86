"""Which operators become int8, and how: the plan that one precision makes for one float graph.

XNNPACK, the CPU delegate, runs a float operator and an int8 one equally well, but an int8 operator
that it lacks falls out of the delegate and cuts the graph in two. Hence the rules for `int8`:

- every convolution and every matrix product with stored weights is int8;
- an operator between convolutions (ADD, MUL, MEAN, pooling, ...) is int8 when everything it reads
  is int8 and everything that reads it is int8, so that no value is converted to and fro;
- all else stays float: softmax, norms, GELU, products of two activations, residual sums around
  attention;
- the matrix product inside an unrolled recurrence takes its input's scale at run time: its input is
  a state that was float a moment ago, and a fixed scale would add two conversions to each step; small
  recurrences stay float, which is faster;
- so do the product that feeds all steps of a recurrence at once, and products of a recurrent model that stand
  alone between float values: a recurrence carries each error on to the next step, and a fixed scale would
  need as many conversions as it saves (LSTM over 64 and 512 steps: 3 dB less noise, the same latency).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs

CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"})
PASSING = frozenset(
    {
        "ADD",
        "AVERAGE_POOL_2D",
        "CONCATENATION",
        "LOGISTIC",
        "MAX_POOL_2D",
        "MEAN",
        "MUL",
        "PAD",
        "RELU",
        "RESHAPE",
        "RESIZE_BILINEAR",
        "SLICE",
        "SPLIT",
        "STRIDED_SLICE",
        "SUB",
        "TANH",
        "TRANSPOSE",
    }
)
"""Operators without weights that XNNPACK runs in int8 and that keep a convolutional part whole."""
DYNAMIC = frozenset({"CONV_2D", "FULLY_CONNECTED"})
"""Operators that XNNPACK runs with a scale found at run time."""
STORED = frozenset({"DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"})
"""Operators that it runs in float only, but whose weights it can read as int8."""
RECURRENT_REPEATS = 4
"""A weight matrix that at least so many products share belongs to an unrolled recurrence."""
RECURRENT_WEIGHTS = 6_144
"""Recurrences with fewer weights stay float: finding a scale at each step costs more than the smaller
product saves (measured over 32 steps: LSTM of 32 units 1.6 x slower in int8, of 64 units 2.2 x faster)."""


@dataclass(frozen=True)
class Plan:
    """Operator indices of subgraph 0 by treatment; what is in neither stays float.

    Attributes:
        static: weights and activations int8, scales fixed by calibration.
        dynamic: weights int8, the activation's scale found at run time.
        stored: weights int8 in the file, turned to float when it is loaded.
    """

    static: frozenset[int] = frozenset()
    dynamic: frozenset[int] = frozenset()
    stored: frozenset[int] = frozenset()

    def without(self, operators: Collection[int]) -> Plan:
        """Return the plan with these operators left in float."""
        gone = set(operators)
        return Plan(self.static - gone, self.dynamic - gone, self.stored - gone)

    def only(self, operators: Collection[int]) -> Plan:
        """Return the plan with all others left in float."""
        kept = frozenset(operators)
        return Plan(self.static & kept, self.dynamic & kept, self.stored & kept)

    def treatment(self, operators: Collection[int]) -> str:
        """Say in words how these operators are treated."""
        if self.static & set(operators):
            return "int8"
        return "int8, scale at run time" if self.dynamic & set(operators) else "float32"


def plan_dynamic(graph: Any) -> Plan:
    """Return the plan of precision `dynamic`: the products and convolutions that XNNPACK has so."""
    operators = graph.subgraphs[0].operators
    weighted = {i for i, op in enumerate(operators) if _has_weights(graph, op)}
    runs = {i for i in weighted if graphs.operator_name(graph, operators[i]) in DYNAMIC}
    recurrent = _recurrent_products(graph, weighted)
    stored = {i for i in weighted if graphs.operator_name(graph, operators[i]) in STORED}
    return Plan(
        dynamic=frozenset((runs - recurrent) | _worthwhile(graph, recurrent)), stored=frozenset(stored)
    )


def plan_int8(graph: Any) -> Plan:
    """Return the plan of precision `int8`."""
    operators = graph.subgraphs[0].operators
    weighted = {i for i, op in enumerate(operators) if _has_weights(graph, op)}
    recurrent = _recurrent_products(graph, weighted)
    feeding = _feeding_steps(graph, weighted - recurrent)
    others = weighted - recurrent - feeding
    convolutions = {i for i in weighted if graphs.operator_name(graph, operators[i]) in CONVOLUTIONS}
    static = others | _grow(graph, convolutions, others)
    alone = _alone(graph, static) if recurrent else set()
    dynamic = feeding | alone | _worthwhile(graph, recurrent)
    return Plan(static=frozenset(static - alone), dynamic=frozenset(dynamic))


def _has_weights(graph: Any, operator: Any) -> bool:
    """Tell whether the operator multiplies by a stored float matrix or kernel."""
    name = graphs.operator_name(graph, operator)
    if name not in CONVOLUTIONS and name != "FULLY_CONNECTED":
        return False
    weights = graph.subgraphs[0].tensors[operator.inputs[1]]
    return graphs.is_constant(graph, weights) and graphs.tensor_type(weights) == "float32"


def _recurrent_products(graph: Any, weighted: set[int]) -> set[int]:
    """Return the products that share one weight buffer many times over."""
    users: dict[int, set[int]] = {}
    for index in weighted:
        users.setdefault(_weights(graph, index).buffer, set()).add(index)
    return {index for group in users.values() if len(group) >= RECURRENT_REPEATS for index in group}


def _feeding_steps(graph: Any, weighted: set[int]) -> set[int]:
    """Return the products whose result is cut into the steps of a recurrence."""
    operators = graph.subgraphs[0].operators
    readers = _readers(graph)
    found = set()
    for index in weighted:
        if graphs.operator_name(graph, operators[index]) != "FULLY_CONNECTED":
            continue
        cuts = readers.get(operators[index].outputs[0], [])
        while len(cuts) == 1 and graphs.operator_name(graph, operators[cuts[0]]) == "RESHAPE":
            cuts = readers.get(operators[cuts[0]].outputs[0], [])
        names = [graphs.operator_name(graph, operators[cut]) for cut in cuts]
        if len(names) >= RECURRENT_REPEATS and set(names) == {"STRIDED_SLICE"}:
            found.add(index)
    return found


def _alone(graph: Any, static: set[int]) -> set[int]:
    """Return the static products that read a float value and write one."""
    subgraph = graph.subgraphs[0]
    readers = _readers(graph)
    inside = {tensor for i in static for tensor in graphs.indices(subgraph.operators[i].outputs)}
    return {
        i
        for i in static
        if graphs.operator_name(graph, subgraph.operators[i]) == "FULLY_CONNECTED"
        and subgraph.operators[i].inputs[0] not in inside
        and not static & set(readers.get(subgraph.operators[i].outputs[0], []))
    }


def _readers(graph: Any) -> dict[int, list[int]]:
    """Return tensor index -> the operators that read it."""
    readers: dict[int, list[int]] = {}
    for index, operator in enumerate(graph.subgraphs[0].operators):
        for tensor in graphs.indices(operator.inputs):
            readers.setdefault(tensor, []).append(index)
    return readers


def _worthwhile(graph: Any, recurrent: set[int]) -> set[int]:
    """Return the recurrent products if they have weights enough to be faster in int8, else none."""
    sizes = {_weights(graph, i).buffer: int(np.prod(_weights(graph, i).shape)) for i in recurrent}
    return recurrent if sum(sizes.values()) >= RECURRENT_WEIGHTS else set()


def _weights(graph: Any, index: int) -> Any:
    """Return the weight tensor of a product or convolution."""
    subgraph = graph.subgraphs[0]
    return subgraph.tensors[subgraph.operators[index].inputs[1]]


def _grow(graph: Any, convolutions: set[int], weighted: set[int]) -> set[int]:
    """Return the operators that lie between int8 operators of a convolutional part."""
    subgraph = graph.subgraphs[0]
    producer = {out: i for i, op in enumerate(subgraph.operators) for out in graphs.indices(op.outputs)}
    readers = _readers(graph)
    region = set(convolutions)
    for index, operator in enumerate(subgraph.operators):  # the file is in topological order
        name = graphs.operator_name(graph, operator)
        if index in region or (name not in PASSING and index not in weighted):
            continue
        sources = [
            producer.get(tensor)
            for tensor in graphs.indices(operator.inputs)
            if not graphs.is_constant(graph, subgraph.tensors[tensor])
        ]
        if sources and all(source in region for source in sources):
            region.add(index)

    while True:  # drop what a float operator reads, until nothing is left to drop
        loose = {
            index
            for index in region - weighted - convolutions
            for tensor in graphs.indices(subgraph.operators[index].outputs)
            if not readers.get(tensor) or not all(r in region for r in readers[tensor])
        }
        if not loose:
            return region
        region -= loose
