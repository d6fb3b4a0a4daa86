"""Masks before a softmax: bounded without a change of what comes out."""

import numpy as np
import pytest
import tiny_graphs

from keras_attention.tflite import calibration
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.integer import coverage
from keras_attention.tflite.integer import masks
from keras_attention.tflite.integer import search

SCORES = (1, 2, 11, 13)
KEYS = (1, 1, 1, 13)
LOWEST = {"-1e9": -1e9, "-1e30": -1e30, "finfo": float(np.finfo(np.float32).min)}
ERROR = {8: 1e-4, 16: 1e-6}


def scores(g):
    return g.op("MUL", g.input(*SCORES), g.constant(5.0), shape=SCORES)


def softmax(g, x):
    return g.op("SOFTMAX", x, shape=SCORES, beta=1.0)


def selected(lowest):
    def build(g):
        x = scores(g)
        return softmax(g, g.op("SELECT_V2", g.input(*KEYS, kind="bool"), x, g.constant(lowest), shape=SCORES))

    return build


def added(lowest):
    """Keras' own way: (1 - mask) * -1e9 is added."""

    def build(g):
        x = scores(g)
        mask = g.op("CAST", g.input(*KEYS, kind="bool"), shape=KEYS)
        penalty = g.op("MUL", g.op("SUB", g.constant(1.0), mask, shape=KEYS), g.constant(lowest), shape=KEYS)
        return softmax(g, g.op("ADD", x, penalty, shape=SCORES))

    return build


def added_choice(lowest):
    def build(g):
        x = scores(g)
        keys = g.input(*KEYS, kind="bool")
        penalty = g.op("SELECT_V2", keys, g.constant(0.0), g.constant(lowest), shape=KEYS)
        return softmax(g, g.op("ADD", x, penalty, shape=SCORES))

    return build


def stored(lowest):
    """A causal mask that is stored whole, behind the padding mask."""

    def build(g):
        upper = np.triu(np.full((11, 13), lowest, np.float32), 1).reshape(1, 1, 11, 13)
        x = g.op("ADD", scores(g), g.constant(upper), shape=SCORES)
        return softmax(g, x)

    return build


def subtracted(lowest):
    def build(g):
        x = scores(g)
        mask = g.op("CAST", g.input(*KEYS, kind="bool"), shape=KEYS)
        rest = g.op("SUB", g.constant(1.0), mask, shape=KEYS)
        penalty = g.op("MUL", rest, g.constant(-lowest), shape=KEYS)
        return softmax(g, g.op("SUB", x, penalty, shape=SCORES))

    return build


def after_reshape(lowest):
    def build(g):
        x = scores(g)
        y = g.op("SELECT_V2", g.input(*KEYS, kind="bool"), x, g.constant(lowest), shape=SCORES)
        y = g.op("RESHAPE", y, g.constant([2, 11, 13]), shape=(2, 11, 13), newShape=[2, 11, 13])
        return g.op("SOFTMAX", y, shape=(2, 11, 13), beta=1.0)

    return build


BUILDERS = {
    "selected": selected,
    "added": added,
    "added choice": added_choice,
    "stored": stored,
    "subtracted": subtracted,
    "after reshape": after_reshape,
}


def bounded(build, bits):
    """(content, graph, samples, number of replaced constants) of a graph whose masks were bounded."""
    tiny = tiny_graphs.TinyGraph()
    content = tiny.finish(build(tiny))
    graph = graphs.read_graph(content)
    samples = tiny_graphs.normal(graph, count=23)
    for values in samples.values():
        if values.dtype == bool:
            values[..., 3] = True  # at least one free key
            assert values.any() and not values.all()
    ranges = calibration.collect_ranges(content, samples, coverage.float_activations(graph)).by_kind["minmax"]
    return content, graph, samples, masks.bound(graph, ranges, bits)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("lowest", LOWEST)
@pytest.mark.parametrize("name", BUILDERS)
def test_softmax_stays(name, lowest, bits):
    content, graph, samples, count = bounded(BUILDERS[name](LOWEST[lowest]), bits)
    assert count == 1
    changed = graphs.write_graph(graph)
    ranges = calibration.collect_ranges(changed, samples, coverage.float_activations(graph)).by_kind["minmax"]
    size = 5.0 * np.ptp(samples["i0"])
    assert max(abs(bound) for pair in ranges.values() for bound in pair) < 2 * size + 2 * masks.MARGINS[bits]
    (old,), (new,) = (runtime.run_samples(c, samples) for c in (content, changed))
    assert np.ptp(old) > 0.9 and np.isfinite(new).all()
    assert np.abs(old - new).max() < ERROR[bits]


def with_rest(finish):
    def build(g):
        x = g.op("SELECT_V2", g.input(*KEYS, kind="bool"), scores(g), g.constant(-1e9), shape=SCORES)
        return finish(g, x)

    return build


@pytest.mark.parametrize(
    "build",
    [
        with_rest(lambda g, x: g.op("REDUCE_MAX", x, g.constant([3]), shape=SCORES[:3], table="Reducer")),
        with_rest(lambda g, x: softmax(g, g.op("TANH", x, shape=SCORES))),
        lambda g: softmax(g, scores(g)),
    ],
    ids=["maximum", "tanh between", "no mask"],
)  # fmt: skip
def test_other_constants_stay(build):
    content, graph, _, count = bounded(build, 8)
    assert count == 0
    assert graphs.write_graph(graph) == graphs.write_graph(graphs.read_graph(content))


def test_a_masked_tensor_that_is_also_an_answer_stays():
    def build(g):
        x = g.op("SELECT_V2", g.input(*KEYS, kind="bool"), scores(g), g.constant(-1e9), shape=SCORES)
        return softmax(g, x), x

    tiny = tiny_graphs.TinyGraph()
    content = tiny.finish(*build(tiny))
    graph = graphs.read_graph(content)
    samples = tiny_graphs.normal(graph, count=5)
    ranges = calibration.collect_ranges(content, samples, coverage.float_activations(graph)).by_kind["minmax"]
    masks.bound(graph, ranges, 8)
    old, new = (runtime.run_samples(c, samples) for c in (content, graphs.write_graph(graph)))
    np.testing.assert_array_equal(old[1], new[1])


def test_a_constant_that_another_operator_reads_keeps_its_value_there():
    def build(g):
        lowest = g.constant(-1e9)
        keys = g.input(*KEYS, kind="bool")
        x = g.op("SELECT_V2", keys, scores(g), lowest, shape=SCORES)
        return softmax(g, x), g.op("ABS", g.op("MAXIMUM", lowest, g.input(1, 3), shape=(1, 3)), shape=(1, 3))

    tiny = tiny_graphs.TinyGraph()
    content = tiny.finish(*build(tiny))
    graph = graphs.read_graph(content)
    samples = tiny_graphs.normal(graph, count=5)
    samples["i2"] = np.full((5, 3), -7e8, np.float32)
    ranges = calibration.collect_ranges(content, samples, coverage.float_activations(graph)).by_kind["minmax"]
    masks.bound(graph, ranges, 8)
    old, new = (runtime.run_samples(c, samples) for c in (content, graphs.write_graph(graph)))
    np.testing.assert_array_equal(old[1], new[1])


@pytest.mark.parametrize("bits", [8, 16])
def test_a_mask_that_more_than_a_softmax_reads_is_refused(bits):
    def build(g):
        x = g.op("ADD", scores(g), g.constant(np.where(np.arange(13) < 5, 0, -1e30)), shape=SCORES)
        largest = g.op("REDUCE_MAX", x, g.constant([3]), shape=SCORES[:3], table="Reducer")
        return softmax(g, x), largest

    tiny = tiny_graphs.TinyGraph()
    content = tiny.finish(*build(tiny))
    samples = tiny_graphs.normal(graphs.read_graph(content), count=5)
    with pytest.raises(ConversionError, match=r"\w+ \(layer .* values beyond 1e\+08, .*precision='int8'"):
        search.to_integers(content, samples, bits, io_dtype="int8" if bits == 8 else "float32")
