"""From the float .tflite file to one of each precision.

`int8` and `dynamic` are written by `regional.py`, `int8_full` and `int16x8` by `integer/`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from keras_attention.tflite import embedding_tables
from keras_attention.tflite import equalization
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import half_precision
from keras_attention.tflite import layer_names
from keras_attention.tflite import layer_noise
from keras_attention.tflite import means
from keras_attention.tflite import regional
from keras_attention.tflite import regions
from keras_attention.tflite import runtime
from keras_attention.tflite.integer import search
from keras_attention.tflite.regional import Quantized


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
        means.scale_before_sums(graph)
        means.project_means(graph)
        layer_names.complete(graph)
        half_precision.halve_weights(graph)
        return Quantized(graphs.write_graph(graph))
    if precision == "dynamic":
        graph = graphs.read_graph(content)
        plan = regions.plan_dynamic(graph)
        content, changes = _with_tables(regional.apply(content, graph, plan, None))
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
        found = regional.quantize_regions(content, samples, float_layers, with_sensitivity, progress)
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


def _with_tables(content: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Store lookup tables in int8; return the file, and what was changed in words."""
    graph = graphs.read_graph(content)
    count = embedding_tables.quantize_tables(graph)
    if not count:
        return content, ()
    return graphs.write_graph(graph), (f"{count} lookups read int8 tables",)
