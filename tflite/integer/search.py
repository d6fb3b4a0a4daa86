"""Chooses how a graph becomes integer: which operators, which ranges, by trial on calibration samples."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
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
from keras_attention.tflite import weight_rounding
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.integer import affine
from keras_attention.tflite.integer import coverage
from keras_attention.tflite.integer import forms
from keras_attention.tflite.integer import graph_writer
from keras_attention.tflite.integer import masks
from keras_attention.tflite.integer import norms
from keras_attention.tflite.integer import single_rows
from keras_attention.tflite.integer import unit_norms
from keras_attention.tflite.integer.scales import Range
from keras_attention.tflite.trial import Trial

HEADROOM = 1.5
"""Factor by which int16 ranges exceed what calibration saw: four bits of the sixteen are to spare."""
SOME = 64
"""Calibration samples from which the form of masks and norms is decided."""
GOOD_DB = 30.0
"""An int8 graph that is as exact as this before its last activation needs no search."""
FAIR_DB = 25.0
"""Below this a more exact form is tried, though it is outside of the delegate."""
CLIPPING_DB = 1.0
"""What a range that clips more values must gain."""
TRIED = 12
"""Tensors whose ranges are tried one by one, the most suspicious first."""
MOST_WRITTEN = 4_000
"""Operators that the trials of single ranges may write in all, so that large graphs take no minutes."""
GAIN_DB = 1.0
"""A range is changed only if the whole graph gains so much."""


@dataclass(frozen=True)
class Integer:
    """A graph in integers and how it was chosen.

    Attributes:
        content: bytes of the file.
        ranges: the kind of range that was taken.
        trials: what was tried -> SQNR in dB against the float file on calibration samples.
        integer: number of integer operators.
        left: names of the operators that stayed float.
        changes: what was changed in the graph, in words.
        noise: the noise of each layer alone, worst first.
    """

    content: bytes
    ranges: str
    trials: dict[str, float]
    integer: int
    left: tuple[str, ...]
    changes: tuple[str, ...]
    noise: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Prepared:
    """A float file in the form that becomes integer.

    Attributes:
        content: its bytes.
        room: tensor index -> factor by which its range must exceed the real one.
        changes: what was changed, in words.
        num_pooled: number of products with one row of weights that were written for the delegate.
    """

    content: bytes
    room: Mapping[int, float]
    changes: tuple[str, ...]
    num_pooled: int = 0


def prepare(
    content: bytes, samples: Mapping[str, np.ndarray], bits: int, *, whole: bool, pools: bool = True
) -> Prepared:
    """Rewrite a float file's masks, norms and operators without kernel; its answers stay the same.

    Args:
        content: bytes of the file.
        samples: calibration samples by input name.
        bits: 8 or 16.
        whole: whether inputs and outputs become integers.
        pools: whether attention of one query is written in operators that the delegate has in int8.
    """
    graph = graphs.read_graph(content)
    changes = []
    if whole:
        changes += [f"input {tensor} takes its ids as integers" for tensor in forms.take_integer_ids(graph)]
    graphs.remove_dead(graph)
    some = {name: values[:: max(1, len(values) // SOME)] for name, values in samples.items()}
    if bits == 8 and pools:
        single_rows.split_softmax(graph, _short_rows(graph, some))
    rewriting.pool_maxima(graph)
    narrow_convolutions.widen(graph)
    watched = coverage.float_activations(graph)
    ranges = calibration.collect_ranges(graphs.write_graph(graph), some, watched).by_kind["minmax"]
    unit_norms.rewrite(graph, ranges)
    found = norms.find(graph)
    bounded = masks.bound(graph, ranges, bits)
    if bounded:
        changes.append(f"{bounded} mask constants bounded, which changes no softmax")
    room = norms.rewrite(graph, found, ranges, bits)
    layer_names.complete(graph)
    if found:
        changes.append(f"{len(found)} norms take the mean off first")
    gathered = affine.gather(graph)
    if gathered:
        changes.append(f"{gathered} chains of factors and addends gathered")
    num_pooled = 0
    if bits == 8:
        num_pooled = single_rows.pool(graph) if pools else 0
        room |= single_rows.rewrite(graph, ranges)
    forms.rewrite(graph, bits, ranges)
    layer_names.complete(graph)
    place = graphs.remove_unused(graph)
    return Prepared(
        graphs.write_graph(graph),
        {place[t]: factor for t, factor in room.items()},
        tuple(changes),
        num_pooled,
    )


def _short_rows(graph: Any, samples: Mapping[str, np.ndarray]) -> frozenset[int]:
    """Return the softmax results of one row whose sums of exponentials int8 has steps for."""
    content = graphs.write_graph(graph)
    trial = graphs.read_graph(content)
    sums = single_rows.split_softmax(trial)
    if not sums:
        return frozenset()
    trial = graphs.write_graph(trial)
    ranges = calibration.collect_ranges(trial, samples, list(sums.values())).by_kind["minmax"]
    return frozenset(result for result, total in sums.items() if single_rows.has_steps(ranges[total]))


def to_integers(
    content: bytes,
    samples: Mapping[str, np.ndarray],
    bits: int,
    *,
    io_dtype: str,
    with_noise: bool = False,
    progress: runtime.Progress | None = None,
) -> Integer:
    """Return the integer form of a float file.

    Where attention of one query comes out noisy in the delegate's operators, which round each of its
    products, and less so in one that is summed in 32 bits, that one is taken, outside of the delegate.

    Args:
        content: bytes of the float file.
        samples: calibration samples by input name.
        bits: 8, or 16 for activations beside 8 bit weights.
        io_dtype: type of the float inputs and outputs; with 8 bits and no "float32" all must be integer.
        with_noise: whether the noise of each layer is measured.
        progress: called with (done, total) during calibration.

    Raises:
        ConversionError: all must be integer, and an operator has no integer form, or an operator gives huge
            values; it is named.
    """
    make = functools.partial(
        _make, samples=samples, bits=bits, io_dtype=io_dtype, with_noise=with_noise, progress=progress
    )
    whole = io_dtype != "float32"
    prepared = prepare(content, samples, bits, whole=whole)
    made = make(prepared)
    if prepared.num_pooled and max(made.trials.values()) < FAIR_DB:
        other = make(prepare(content, samples, bits, whole=whole, pools=False))
        if max(other.trials.values()) > max(made.trials.values()) + CLIPPING_DB:
            note = (
                f"{prepared.num_pooled} products of attention of one query outside of the delegate: exacter"
            )
            return dataclasses.replace(other, changes=(*other.changes, note))
    return made


def _make(
    prepared: Prepared,
    samples: Mapping[str, np.ndarray],
    bits: int,
    *,
    io_dtype: str,
    with_noise: bool,
    progress: runtime.Progress | None,
) -> Integer:
    """Find ranges for a prepared file, and write it in integers."""
    whole = io_dtype != "float32"
    content = prepared.content
    graph = graphs.read_graph(content)
    collected = calibration.collect_ranges(content, samples, coverage.own_ranges(graph, bits), progress)
    chosen = coverage.integer_operators(graph, collected.by_kind["minmax"], bits)
    left = [
        i
        for i, op in enumerate(graph.subgraphs[0].operators)
        if i not in chosen and coverage.touches_floats(graph, op)
    ]
    names = tuple(graphs.operator_name(graph, graph.subgraphs[0].operators[i]) for i in left)
    layers = layer_names.of_operators(graph)
    if bits == 8 and whole and left:
        raise ConversionError(_no_kernel(graph, layers, chosen))
    huge = masks.unbounded(graph, collected.by_kind["minmax"], chosen)
    if huge is not None:
        raise ConversionError(_huge(graph, layers, huge, bits))
    trial = Trial(content, samples)

    def measure(ranges: Mapping[int, Range], operators: frozenset[int] = chosen) -> float:
        return trial.sqnr_db(
            graph_writer.write_integer(trial.fresh_graph(), operators, ranges, bits, io_dtype="float32")
        )

    room = prepared.room
    by_kind = {
        name: share_over_steps(graph, coverage.with_views(graph, ranges))
        for name, ranges in collected.by_kind.items()
    }
    if bits == 16:
        kind, ranges = "minmax", _widened(by_kind["minmax"], {}, HEADROOM)
        trials = {kind: measure(ranges)}
        plain = graph_writer.write_integer(trial.fresh_graph(), chosen, ranges, bits, io_dtype="float32")
        rounded = weight_rounding.round_products(plain, trial.content, chosen, samples)
        trials["rounded"] = trial.sqnr_db(rounded)
    else:
        kinds = {name: _widened(ranges, room) for name, ranges in by_kind.items()}
        trials = {name: measure(ranges) for name, ranges in kinds.items()}
        kind = _widest_good(trials)
        ranges = kinds[kind]
        if trials[kind] < GOOD_DB:
            tried = min(TRIED, MOST_WRITTEN // (len(kinds) * len(graph.subgraphs[0].operators)))
            ranges = _refine(kinds, collected.spread, ranges, trials[kind], measure, tried)
            trials["refined"] = measure(ranges)
    noise: tuple[dict[str, Any], ...] = ()
    if with_noise:
        noise = layer_noise.measure(
            layer_noise.group(graph, layers, chosen),
            lambda operators: measure(ranges, operators),
            lambda _: "int8" if bits == 8 else "int16",
        )
    written = graph_writer.write_integer(graphs.read_graph(content), chosen, ranges, bits, io_dtype=io_dtype)
    if trials.get("rounded", -np.inf) > trials[kind]:
        # beside int16 activations the weights make most of the noise
        written = weight_rounding.round_products(written, content, chosen, samples)
    return Integer(written, kind, trials, len(chosen), names, prepared.changes, noise)


def _no_kernel(graph: Any, layers: list[str], chosen: frozenset[int]) -> str:
    """Say which operators would stay float, and where."""
    places: dict[str, None] = {}
    for index, operator in enumerate(graph.subgraphs[0].operators):
        if index not in chosen and coverage.touches_floats(graph, operator):
            places[f"{graphs.operator_name(graph, operator)} (layer {layers[index]!r})"] = None
    return (
        f"{', '.join(places)} would stay float: the runtime has no int8 kernel for it. Use precision='int8', "
        "which leaves such operators in float, or replace the layer."
    )


def _huge(graph: Any, layers: list[str], index: int, bits: int) -> str:
    """Say which operator gives values beside which no others have steps."""
    name = graphs.operator_name(graph, graph.subgraphs[0].operators[index])
    return (
        f"{name} (layer {layers[index]!r}) gives values beyond {masks.HUGE:.0e}, a mask that more than a "
        f"softmax reads: {bits} bits leave no steps for the numbers beside it. Use precision='int8', which "
        "leaves such operators in float, or replace the layer."
    )


def share_over_steps(graph: Any, ranges: Mapping[int, Range]) -> dict[int, Range]:
    """Give the steps of an unrolled recurrence common ranges: each alone has seen few values.

    Products with the same weights are steps of one recurrence; what they read shares a range, and what
    they write.
    """
    groups: dict[int, list[Any]] = {}
    for operator in graph.subgraphs[0].operators:
        if graphs.operator_name(graph, operator) == "FULLY_CONNECTED":
            groups.setdefault(graph.subgraphs[0].tensors[operator.inputs[1]].buffer, []).append(operator)
    shared = dict(ranges)
    for steps in groups.values():
        for side in ("inputs", "outputs"):
            tensors = {int(getattr(step, side)[0]) for step in steps} & set(shared)
            if len(steps) >= regions.RECURRENT_REPEATS and tensors:
                low, high = min(shared[t][0] for t in tensors), max(shared[t][1] for t in tensors)
                shared.update(dict.fromkeys(tensors, (low, high)))
    return shared


def _widest_good(trials: Mapping[str, float]) -> str:
    """Return the best kind of range, or a wider one that is about as good: other data reach further."""
    best = max(trials.values())
    return next(kind for kind, reached in trials.items() if reached >= best - CLIPPING_DB)


def _widened(
    ranges: Mapping[int, Range], room: Mapping[int, float], headroom: float = 1.0
) -> dict[int, Range]:
    factors = {tensor: room.get(tensor, headroom) for tensor in ranges}
    return {tensor: (low * factors[tensor], high * factors[tensor]) for tensor, (low, high) in ranges.items()}


def _refine(
    kinds: Mapping[str, Mapping[int, Range]],
    spread: Mapping[int, float],
    ranges: dict[int, Range],
    best: float,
    measure: Callable[[Mapping[int, Range]], float],
    tried: int,
) -> dict[int, Range]:
    """Try the other kinds of range on the tensors whose values are most uneven, one by one."""
    for tensor in sorted(ranges, key=lambda index: -spread.get(index, 0.0))[:tried]:
        for bounds in {kind[tensor] for kind in kinds.values()} - {ranges[tensor]}:
            candidate = {**ranges, tensor: bounds}
            reached = measure(candidate)
            if reached > best + GAIN_DB:
                ranges, best = candidate, reached
    return ranges
