"""From the float .tflite file to one of each precision.

`int8` and `dynamic` are written by litert-quantizer, which is given two things that it does not choose
well by itself: which operators to touch (`regions.py`) and which ranges to use (`calibration.py`).
`int8_full` and `int16x8` are written by `integer/`.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np

from keras_attention.tflite import calibration
from keras_attention.tflite import embedding_tables
from keras_attention.tflite import equalization
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import half_precision
from keras_attention.tflite import layer_names
from keras_attention.tflite import layer_noise
from keras_attention.tflite import regions
from keras_attention.tflite import rewriting
from keras_attention.tflite import runtime
from keras_attention.tflite import sensitivity
from keras_attention.tflite.calibration import Range
from keras_attention.tflite.integer import search
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


def quantize(
    content: bytes,
    precision: str,
    samples: Mapping[str, np.ndarray] | None,
    *,
    io_dtype: str = "float32",
    float_layers: Sequence[str] = (),
    with_sensitivity: bool = False,
    progress: runtime.Progress | None = None,
) -> Quantized:
    """Make the file of one precision from a float file whose tensors are named by `layer_names`.

    Args:
        content: bytes of the float file.
        precision: as in `convert`, "auto" apart.
        samples: calibration samples by input name, for the static precisions.
        io_dtype: type of the inputs and outputs that are float.
        float_layers: layers that "int8" leaves in float.
        with_sensitivity: whether the noise of each layer is measured.
        progress: called with (done, total) during calibration.

    Returns:
        The file. Where nothing in the graph can be quantized to "int8" or "dynamic" it is the float one:
        a model without any weights is complete as it is.
    """
    if precision == "float32":
        return Quantized(content)
    if precision == "float16":
        graph = graphs.read_graph(content)
        half_precision.halve_weights(graph)
        return Quantized(graphs.write_graph(graph))
    if precision == "dynamic":
        graph = graphs.read_graph(content)
        plan = regions.plan_dynamic(graph)
        content, changes = _with_tables(_apply(content, graph, plan, None))
        return Quantized(content, dynamic=len(plan.dynamic), changes=changes)
    if samples is None:
        raise ValueError(f"precision={precision!r} needs calibration samples.")
    static = functools.partial(
        _static,
        precision=precision,
        io_dtype=io_dtype,
        float_layers=frozenset(float_layers),
        progress=progress,
    )
    scaled, writers = equalization.equalize(content, samples)
    if not writers:
        return static(content, samples, with_sensitivity=with_sensitivity)
    of_operators = layer_names.of_operators(graphs.read_graph(content))
    layers = list(dict.fromkeys(of_operators[index] for index in writers))
    rows = static(content, samples, with_sensitivity=True).sensitivity if with_sensitivity else ()
    found = static(scaled, samples, with_sensitivity=False)
    changes = (*found.changes, f"outlier channels of {', '.join(layers)} scaled into the weights behind")
    return dataclasses.replace(
        found, changes=changes, sensitivity=tuple(layer_noise.scaled(row, layers) for row in rows)
    )


def _static(
    content: bytes,
    samples: Mapping[str, np.ndarray],
    *,
    precision: str,
    io_dtype: str,
    float_layers: frozenset[str],
    with_sensitivity: bool,
    progress: runtime.Progress | None,
) -> Quantized:
    """Make the file of a precision that takes its scales from calibration samples."""
    if precision == "int8":
        found = _regional(content, samples, float_layers, with_sensitivity, progress)
        content, changes = _with_tables(found.content)
        return dataclasses.replace(found, content=content, changes=changes)
    bits = 8 if precision == "int8_full" else 16
    whole = search.to_integers(
        content, samples, bits, io_dtype=io_dtype, with_noise=with_sensitivity, progress=progress
    )
    return Quantized(
        whole.content,
        whole.ranges,
        whole.trials,
        static=whole.integer,
        left=whole.left,
        changes=whole.changes,
        sensitivity=whole.noise,
    )


def _regional(
    content: bytes,
    samples: Mapping[str, np.ndarray],
    float_layers: frozenset[str],
    with_sensitivity: bool,
    progress: runtime.Progress | None,
) -> Quantized:
    """Make the "int8" file: int8 by region of the graph."""
    graph = graphs.read_graph(content)
    rewriting.pool_maxima(graph)
    layer_names.complete(graph)
    content = graphs.write_graph(graph)
    layers = layer_names.of_operators(graph)
    plan = regions.plan_int8(graph).without({i for i, layer in enumerate(layers) if layer in float_layers})
    groups = layer_noise.group(graph, layers, plan.static | plan.dynamic) if with_sensitivity else []
    if not plan.static and not groups:
        return Quantized(_apply(content, graph, plan, None), dynamic=len(plan.dynamic))
    ranges = calibration.collect_ranges(content, samples, _tensors_to_watch(graph, plan), progress)
    trial = Trial(content, samples)

    def measure(candidate: regions.Plan, kind: str) -> float:
        return trial.sqnr_db(_apply(trial.content, graph, candidate, ranges.by_kind[kind]))

    kinds = KINDS if plan.static else KINDS[:1]
    trials = {kind: measure(plan, kind) for kind in kinds}
    best = max(trials, key=lambda kind: trials[kind])
    whole = plan
    if trials[best] <= REFUSED_DB:
        plan = sensitivity.avoid_refused(graph, plan, lambda candidate: measure(candidate, best))
        trials["without refused scales"] = trials[best] = measure(plan, best)
    if trials[best] < sensitivity.GOOD_DB:
        relieved = sensitivity.relieve(graph, plan, ranges.spread, lambda candidate: measure(candidate, best))
        trials["relieved"] = measure(relieved, best)
        if trials["relieved"] > trials[best]:
            plan = relieved
    noise = layer_noise.measure(
        groups,
        lambda operators: measure(whole.only(operators), best),
        lambda operators: plan.treatment(operators),
    )
    return Quantized(
        _apply(content, graph, plan, ranges.by_kind[best]),
        best if plan.static else "none",
        trials,
        len(plan.static),
        len(plan.dynamic),
        sensitivity=noise,
    )


def _with_tables(content: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Store lookup tables in int8; return the file, and what was changed in words."""
    graph = graphs.read_graph(content)
    count = embedding_tables.quantize_tables(graph)
    if not count:
        return content, ()
    return graphs.write_graph(graph), (f"{count} lookups read int8 tables",)


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
