"""Which static int8 operators make most of the noise, and their relief: a scale found at run time.

A static scale must fit every sample; a weak signal then uses few of the 256 steps. Finding the scale
anew for each sample costs a few per cent of latency per operator and keeps its weights in int8.
A handful of operators usually makes most of the noise, so only these are changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import regions

GOOD_DB = 50.0
"""A file that is as exact as this before the last activation needs no relief."""
TRIED = 24
"""Operators that are tried one by one, the most suspicious ones first."""
MOVED_SHARE = 1 / 3
"""Largest share of the candidates that is moved: the rest keeps the speed of static scales."""
REST = 0.1
"""Share of the candidates' noise that may remain."""
REFUSED_DB = -150.0
"""At or below this, the runtime did not run the file at all."""
GAIN_DB = 1.0
"""An operator is moved only if its own noise falls by so much."""
WHOLE_PART = 4
"""Int8 operators in a row that count as a convolutional part, which is left in one piece."""

Measure = Callable[[regions.Plan], float]


def relieve(graph: Any, plan: regions.Plan, suspicion: dict[int, float], measure: Measure) -> regions.Plan:
    """Return the plan with the noisiest operators moved from static to run-time scales.

    Args:
        graph: the float graph.
        plan: the plan to improve.
        suspicion: tensor index -> how badly a static scale is expected to fit it.
        measure: returns the SQNR in dB, before the last activation, of the graph under a plan.
    """
    candidates = sorted(_candidates(graph, plan), key=lambda i: -suspicion.get(_source(graph, i), 0.0))
    noise = {i: _power(measure(regions.Plan(static=frozenset({i})))) for i in candidates[:TRIED]}
    rest = total = sum(noise.values())
    most = int(len(candidates) * MOVED_SHARE)
    moved: list[int] = []
    for index in sorted(noise, key=lambda i: (-noise[i], i)):
        if len(moved) >= most or rest <= REST * total:
            break
        alone = _power(measure(regions.Plan(dynamic=frozenset({index}))))
        if alone <= noise[index] * _power(GAIN_DB):
            moved.append(index)
            rest -= noise[index]
    return replace(plan, static=plan.static - set(moved), dynamic=plan.dynamic | set(moved))


def avoid_refused(graph: Any, plan: regions.Plan, measure: Measure) -> regions.Plan:
    """Return the plan without static scales where the runtime refuses them.

    A tensor that is almost always zero has a scale outside of what the kernels take. Products and
    convolutions keep their int8 weights and find the scale at run time; other operators stay float.
    """
    kept: frozenset[int] = frozenset()
    for index in sorted(plan.static):
        if measure(regions.Plan(static=kept | {index})) > REFUSED_DB:
            kept |= {index}
    operators = graph.subgraphs[0].operators
    moved = {i for i in plan.static - kept if graphs.operator_name(graph, operators[i]) in regions.DYNAMIC}
    return replace(plan, static=kept, dynamic=plan.dynamic | moved)


def _power(decibels: float) -> float:
    """Return the noise as a share of the signal."""
    return float(10.0 ** (-decibels / 10.0))


def _source(graph: Any, index: int) -> int:
    return int(graph.subgraphs[0].operators[index].inputs[0])


def _candidates(graph: Any, plan: regions.Plan) -> list[int]:
    """Return the static operators with a run-time form that stand in no larger int8 part."""
    subgraph = graph.subgraphs[0]
    neighbours: dict[int, set[int]] = {index: set() for index in plan.static}
    producer = {out: i for i in plan.static for out in graphs.indices(subgraph.operators[i].outputs)}
    for index in plan.static:
        for tensor in graphs.indices(subgraph.operators[index].inputs):
            if tensor in producer:
                neighbours[index].add(producer[tensor])
                neighbours[producer[tensor]].add(index)
    return [
        index
        for index in sorted(plan.static)
        if graphs.operator_name(graph, subgraph.operators[index]) in regions.DYNAMIC
        and len(_reach(index, neighbours)) < WHOLE_PART
    ]


def _reach(start: int, neighbours: dict[int, set[int]]) -> set[int]:
    """Return the operators that are connected to `start`, itself included."""
    reached, waiting = {start}, [start]
    while waiting:
        for other in neighbours[waiting.pop()] - reached:
            reached.add(other)
            waiting.append(other)
    return reached
