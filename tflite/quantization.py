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
from keras_attention.tflite import metrics
from keras_attention.tflite import regions
from keras_attention.tflite import runtime

TRIAL_SAMPLES = 64
"""Calibration samples on which the two kinds of ranges are compared."""


@dataclass(frozen=True)
class Quantized:
    """A quantized file and how its ranges were chosen.

    Attributes:
        content: bytes of the .tflite file.
        ranges: "minmax", "percentile", or "none" where activations have no fixed range.
        trials: SQNR in dB against the float file on calibration samples, by kind of range.
    """

    content: bytes
    ranges: str
    trials: dict[str, float]


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
        return Quantized(_apply(content, graph, plan, None), "none", {})
    if samples is None:
        raise ValueError(f"precision={precision!r} needs calibration samples.")
    watched = _tensors_to_watch(graph, plan)
    true, percentile = calibration.collect_ranges(content, samples, watched, progress)
    candidates = {
        "minmax": _apply(content, graph, plan, true),
        "percentile": _apply(content, graph, plan, percentile),
    }
    trials = _try_out(content, candidates, samples)
    best = max(trials, key=lambda kind: trials[kind])
    return Quantized(candidates[best], best, trials)


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


def _try_out(
    content: bytes, candidates: Mapping[str, bytes], samples: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Return the SQNR of each candidate against the float file, the worst output counting."""
    count = len(next(iter(samples.values())))
    chosen = np.unique(np.linspace(0, count - 1, min(count, TRIAL_SAMPLES)).astype(int))
    trial = {name: values[chosen] for name, values in samples.items()}
    wanted = runtime.run_samples(content, trial)
    return {
        kind: min(
            metrics.sqnr_db(a, b) for a, b in zip(wanted, runtime.run_samples(candidate, trial), strict=True)
        )
        for kind, candidate in candidates.items()
    }


def _apply(content: bytes, graph: Any, plan: regions.Plan, ranges: calibration.Ranges | None) -> bytes:
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
    result = engine.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
    return bytes(result.quantized_model)
