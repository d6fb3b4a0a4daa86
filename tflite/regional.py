"""int8 by region of the graph: the file of precision "int8", and what writes it and "dynamic".

litert-quantizer is given two things that it does not choose well by itself: which operators to touch
(`regions.py`) and which ranges to use (`calibration.py`).
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np

from keras_attention.tflite import calibration
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite import layer_noise
from keras_attention.tflite import narrow_convolutions
from keras_attention.tflite import regions
from keras_attention.tflite import rewriting
from keras_attention.tflite import runtime
from keras_attention.tflite import sensitivity
from keras_attention.tflite import weight_rounding
from keras_attention.tflite.calibration import Range
from keras_attention.tflite.trial import REFUSED_DB
from keras_attention.tflite.trial import Trial

KINDS = ("minmax", "percentile")
"""The kinds of range that are tried; more clipping never paid where only products are int8."""


@dataclass(frozen=True)
class Quantized:
    """A file of one precision and how it was chosen.

    Attributes:
        content: bytes of the .tflite file.
        ranges: the kind of range that was taken, "none" where activations have no fixed range.
        trials: what was tried -> SQNR in dB against the float file, before the last activation, on
            calibration samples.
        static: number of operators with fixed scales.
        dynamic: number of operators that find their scale at run time.
        left: names of the operators that stay float in an integer file.
        changes: what was changed in the graph, in words.
        sensitivity: the noise of each layer alone, worst first, as `Report.sensitivity` holds it.
    """

    content: bytes
    ranges: str = "none"
    trials: dict[str, float] = field(default_factory=dict)
    static: int = 0
    dynamic: int = 0
    left: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    sensitivity: tuple[dict[str, Any], ...] = ()


def quantize_regions(
    content: bytes,
    samples: Mapping[str, np.ndarray],
    float_layers: frozenset[str],
    with_sensitivity: bool,
    progress: runtime.Progress | None,
) -> Quantized:
    """Make the "int8" file: int8 by region of the graph."""
    graph = graphs.read_graph(content)
    rewriting.pool_maxima(graph)
    narrow_convolutions.widen(graph)
    layer_names.complete(graph)
    content = graphs.write_graph(graph)
    layers = layer_names.of_operators(graph)
    plan = regions.plan_int8(graph).without({i for i, layer in enumerate(layers) if layer in float_layers})
    recurrent = plan.dynamic
    groups = layer_noise.group(graph, layers, plan.static | plan.dynamic) if with_sensitivity else []
    trials: dict[str, float] = {}
    noise: tuple[dict[str, Any], ...] = ()
    ranges, best = None, "none"
    if plan.static or groups:
        found = calibration.collect_ranges(content, samples, _tensors_to_watch(graph, plan), progress)
        trial = Trial(content, samples)

        def measure(candidate: regions.Plan, kind: str) -> float:
            return trial.sqnr_db(apply(trial.content, graph, candidate, found.by_kind[kind]))

        whole = plan
        if plan.static:
            trials = {kind: measure(plan, kind) for kind in KINDS}
            best = max(trials, key=lambda kind: trials[kind])
            ranges = found.by_kind[best]
            plan = _improved(graph, plan, found.spread, trials, best, lambda other: measure(other, best))
        noise = layer_noise.measure(
            groups,
            lambda operators: measure(whole.only(operators), best if ranges else KINDS[0]),
            lambda operators: plan.treatment(operators),
        )
    made = apply(content, graph, plan, ranges)
    return Quantized(
        # beside a recurrence the weights make most of the noise, and their inputs move together
        weight_rounding.round_products(made, content, recurrent, samples),
        best,
        trials,
        len(plan.static),
        len(plan.dynamic),
        sensitivity=noise,
    )


def _improved(
    graph: Any,
    plan: regions.Plan,
    spread: dict[int, float],
    trials: dict[str, float],
    best: str,
    measure: sensitivity.Measure,
) -> regions.Plan:
    """Return the plan without scales that the runtime refuses, the noisiest ones found at run time.

    What is tried is added to `trials`, where `best` is the kind of range taken.
    """
    if trials[best] <= REFUSED_DB:
        plan = sensitivity.avoid_refused(graph, plan, measure)
        trials["without refused scales"] = trials[best] = measure(plan)
    if trials[best] < sensitivity.GOOD_DB:
        relieved = sensitivity.relieve(graph, plan, spread, measure)
        trials["relieved"] = measure(relieved)
        if trials["relieved"] > trials[best]:
            return relieved
    return plan


def _tensors_to_watch(graph: Any, plan: regions.Plan) -> list[int]:
    """Return the float activations that the operators of the plan's static part read or write."""
    subgraph = graph.subgraphs[0]
    found: dict[int, None] = {}
    for index in sorted(plan.static):
        operator = subgraph.operators[index]
        for tensor in (*graphs.indices(operator.inputs), *graphs.indices(operator.outputs)):
            entry = subgraph.tensors[tensor]
            if graphs.tensor_type(entry) == "float32" and not graphs.is_constant(graph, entry):
                found[tensor] = None
    return list(found)


def apply(content: bytes, graph: Any, plan: regions.Plan, ranges: Mapping[int, Range] | None) -> bytes:
    """Rewrite the graph as the plan says."""
    from litert_quantizer import qtyping
    from litert_quantizer import quantizer as litert

    operators = graph.subgraphs[0].operators
    tensors = graph.subgraphs[0].tensors
    if not plan.static and not plan.dynamic and not plan.stored:
        return content
    logging.getLogger("absl").setLevel(logging.ERROR)
    engine = litert.Quantizer(content)
    add = {
        "static": functools.partial(engine.add_static_config, activation_num_bits=8, weight_num_bits=8),
        "dynamic": functools.partial(engine.add_dynamic_config, num_bits=8),
        "stored": functools.partial(engine.add_weight_only_config, num_bits=8),
    }
    for treatment, configure in add.items():
        groups: dict[str, list[str]] = {}
        for index in sorted(getattr(plan, treatment)):
            name = graphs.operator_name(graph, operators[index])
            key = {"TRANSPOSE_CONV": "CONV_2D_TRANSPOSE"}.get(name, name)
            scope = re.escape(graphs.tensor_name(tensors[operators[index].outputs[0]]))
            groups.setdefault(key, []).append(scope)
        for name, scopes in groups.items():
            configure("^(" + "|".join(scopes) + ");", qtyping.TFLOperationName(name))
    named = None if ranges is None or not plan.static else _named(tensors, ranges)
    result = engine.quantize(named, enable_progress_bar=False, enable_progress_report=False)
    return bytes(result.quantized_model)


def _named(tensors: Any, ranges: Mapping[int, Range]) -> dict[str, dict[str, np.ndarray]]:
    """Return the ranges in the quantizer's form: by tensor name, in arrays of the tensor's rank."""
    named = {}
    for index, (low, high) in ranges.items():
        shape = (1,) * len(tensors[index].shape if tensors[index].shape is not None else [])
        bounds = {"min": np.full(shape, low, np.float32), "max": np.full(shape, high, np.float32)}
        named[graphs.tensor_name(tensors[index])] = bounds
    return named
