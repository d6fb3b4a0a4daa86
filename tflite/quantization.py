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
from keras_attention.tflite import sensitivity

TRIAL_SAMPLES = 64
"""Calibration samples on which plans and ranges are compared."""
_FINAL_ACTIVATIONS = frozenset({"LOGISTIC", "SOFTMAX"})


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
    trial = _Trial(content, samples)
    trials = {kind: trial.sqnr_db(plan, chosen) for kind, chosen in ranges.by_kind.items()}
    best = max(trials, key=lambda kind: trials[kind])
    chosen = ranges.by_kind[best]
    if trials[best] <= -metrics.EXACT_DB:
        plan = sensitivity.avoid_refused(graph, plan, lambda candidate: trial.sqnr_db(candidate, chosen))
        trials["without refused scales"] = trials[best] = trial.sqnr_db(plan, chosen)
    if trials[best] < sensitivity.GOOD_DB:
        relieved = sensitivity.relieve(
            graph, plan, ranges.spread, lambda candidate: trial.sqnr_db(candidate, chosen)
        )
        trials["relieved"] = trial.sqnr_db(relieved, chosen)
        if trials["relieved"] > trials[best]:
            plan = relieved
    return Quantized(_apply(content, graph, plan, chosen), best, trials, len(plan.static), len(plan.dynamic))


class _Trial:
    """The float graph without its last activation, on some calibration samples.

    Softmax hides noise where the model is sure, which it is on data like its training data; the
    numbers before it tell plans apart.
    """

    def __init__(self, content: bytes, samples: Mapping[str, np.ndarray]) -> None:
        count = len(next(iter(samples.values())))
        chosen = np.unique(np.linspace(0, count - 1, min(count, TRIAL_SAMPLES)).astype(int))
        self._samples = {name: values[chosen] for name, values in samples.items()}
        self._graph = graphs.read_graph(content)
        _drop_final_activations(self._graph)
        self._content = graphs.write_graph(self._graph)
        self._wanted = runtime.run_samples(self._content, self._samples)

    def sqnr_db(self, plan: regions.Plan, ranges: calibration.Ranges) -> float:
        """Return the SQNR of the graph under a plan, the worst output counting."""
        quantized = _apply(self._content, self._graph, plan, ranges)
        try:
            results = runtime.run_samples(quantized, self._samples)
        except (RuntimeError, ValueError):  # the runtime refuses a scale; such a plan is out of the question
            return -metrics.EXACT_DB
        return min(metrics.sqnr_db(a, b) for a, b in zip(self._wanted, results, strict=True))


def _drop_final_activations(graph: Any) -> None:
    """Let the outputs be what the last softmax or sigmoid reads."""
    subgraph = graph.subgraphs[0]
    before = {
        operator.outputs[0]: operator.inputs[0]
        for operator in subgraph.operators
        if graphs.operator_name(graph, operator) in _FINAL_ACTIVATIONS
    }
    subgraph.outputs = [before.get(tensor, tensor) for tensor in subgraph.outputs]
    for signature in graph.signatureDefs:
        for entry in signature.outputs:
            entry.tensorIndex = before.get(entry.tensorIndex, entry.tensorIndex)


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


def _apply(content: bytes, graph: Any, plan: regions.Plan, ranges: calibration.Ranges | None) -> bytes:
    """Rewrite the graph as the plan says."""
    from litert_quantizer import qtyping
    from litert_quantizer import quantizer as litert

    operators = graph.subgraphs[0].operators
    tensors = graph.subgraphs[0].tensors
    if not plan.static and not plan.dynamic:
        return content
    if not plan.static:
        ranges = None
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
