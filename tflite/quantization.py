"""From the float .tflite file to the quantized one, through litert-quantizer.

The quantizer is given what it is good at (rewriting the graph), and two things it does not choose
well by itself: which operators to touch (`regions.py`) and which ranges to use (`calibration.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.tflite import calibration
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import regions
from keras_attention.tflite import runtime
from keras_attention.tflite import sensitivity
from keras_attention.tflite.calibration import Range
from keras_attention.tflite.trial import REFUSED_DB
from keras_attention.tflite.trial import Trial

KINDS = ("minmax", "percentile")
"""The kinds of range that are tried; more clipping never paid where only products are int8."""


@dataclass(frozen=True)
class Quantized:
    """A quantized file and how it was chosen.

    Attributes:
        content: bytes of the .tflite file.
        ranges: "minmax", "percentile", or "none" where activations have no fixed range.
        trials: what was tried -> SQNR in dB against the float file, before the last activation, on
            calibration samples.
        static: number of operators with fixed scales.
        dynamic: number of operators that find their scale at run time.
    """

    content: bytes
    ranges: str
    trials: dict[str, float]
    static: int
    dynamic: int


def quantize(
    content: bytes,
    precision: str,
    samples: Mapping[str, np.ndarray] | None,
    progress: runtime.Progress | None = None,
) -> Quantized:
    """Quantize a float .tflite file whose tensors have names of their own.

    Args:
        content: bytes of the float file.
        precision: "dynamic" or "int8".
        samples: calibration samples by input name, for "int8".
        progress: called with (done, total) during calibration.

    Returns:
        The quantized file. Where nothing in the graph can be quantized the file is the float one
        with `ranges="none"`: a model without any weights is complete as it is.
    """
    graph = graphs.read_graph(content)
    plan = regions.plan_int8(graph) if precision == "int8" else regions.plan_dynamic(graph)
    if not plan.static:
        return Quantized(_apply(content, graph, plan, None), "none", {}, 0, len(plan.dynamic))
    if samples is None:
        raise ValueError(f"precision={precision!r} needs calibration samples.")
    watched = _tensors_to_watch(graph, plan)
    ranges = calibration.collect_ranges(content, samples, watched, progress)
    trial = Trial(content, samples)

    def measure(candidate: regions.Plan, kind: str) -> float:
        return trial.sqnr_db(lambda short: _apply(short, graph, candidate, ranges.by_kind[kind]))

    trials = {kind: measure(plan, kind) for kind in KINDS}
    best = max(trials, key=lambda kind: trials[kind])
    if trials[best] <= REFUSED_DB:
        plan = sensitivity.avoid_refused(graph, plan, lambda candidate: measure(candidate, best))
        trials["without refused scales"] = trials[best] = measure(plan, best)
    if trials[best] < sensitivity.GOOD_DB:
        relieved = sensitivity.relieve(graph, plan, ranges.spread, lambda candidate: measure(candidate, best))
        trials["relieved"] = measure(relieved, best)
        if trials["relieved"] > trials[best]:
            plan = relieved
    chosen = ranges.by_kind[best]
    return Quantized(_apply(content, graph, plan, chosen), best, trials, len(plan.static), len(plan.dynamic))


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


def _apply(content: bytes, graph: Any, plan: regions.Plan, ranges: Mapping[int, Range] | None) -> bytes:
    """Rewrite the graph as the plan says."""
    from litert_quantizer import qtyping
    from litert_quantizer import quantizer as litert

    operators = graph.subgraphs[0].operators
    tensors = graph.subgraphs[0].tensors
    if not plan.static and not plan.dynamic:
        return content
    logging.getLogger("absl").setLevel(logging.ERROR)
    engine = litert.Quantizer(content)
    for chosen, is_static in ((plan.static, True), (plan.dynamic, False)):
        groups: dict[str, list[str]] = {}
        for index in sorted(chosen):
            name = graphs.operator_name(graph, operators[index])
            key = {"TRANSPOSE_CONV": "CONV_2D_TRANSPOSE"}.get(name, name)
            scope = graphs.tensor_name(tensors[operators[index].outputs[0]])
            groups.setdefault(key, []).append(scope)
        for name, scopes in groups.items():
            pattern = "^(" + "|".join(scopes) + ");"
            operation = qtyping.TFLOperationName(name)
            if is_static:
                engine.add_static_config(pattern, operation, activation_num_bits=8, weight_num_bits=8)
            else:
                engine.add_dynamic_config(pattern, operation, num_bits=8)
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
