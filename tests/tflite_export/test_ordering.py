"""Operators in the order that takes the least memory; the answers stay equal, bit for bit."""

import numpy as np
import pytest
from tiny_graphs import TinyGraph

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import ordering
from keras_attention.tflite import runtime

BRANCHES = 3


def wide_first(length):
    """All wide tensors are made before the first of them is summed up; one branch is not read at all."""
    tiny = TinyGraph()
    given, axis = tiny.input(1, length, 1), tiny.constant(np.array([1], np.int32))
    factors = [tiny.constant(np.full((1, 1, 101), 1.5 + index)) for index in range(BRANCHES)]
    wide = [tiny.op("MUL", given, factor, shape=(1, length, 101)) for factor in factors]
    tiny.op("NEG", given, shape=(1, length, 1))
    narrow = [tiny.op("MEAN", tensor, axis, shape=(1, 101), table="Reducer") for tensor in wide]
    total = tiny.op("ADD", narrow[0], narrow[1], shape=(1, 101))
    result = tiny.op("ADD", total, narrow[2], shape=(1, 101))
    return tiny, result


def names(graph):
    return [graphs.operator_name(graph, operator) for operator in graph.subgraphs[0].operators]


def test_each_wide_tensor_is_used_up_before_the_next():
    tiny, result = wide_first(13)
    tiny.finish(result)
    before = graphs.write_graph(tiny.graph)
    ordering.save_memory(tiny.graph)
    after = graphs.write_graph(tiny.graph)
    assert names(graphs.read_graph(before)) == [*["MUL"] * 3, "NEG", *["MEAN"] * 3, "ADD", "ADD"]
    assert names(graphs.read_graph(after)) == ["MUL", "MEAN"] * 2 + ["ADD", "MUL", "MEAN", "ADD", "NEG"]
    samples = {"i0": np.random.default_rng(3).normal(size=(5, 13, 1)).astype(np.float32)}
    (old,), (new,) = (runtime.run_samples(content, samples) for content in (before, after))
    assert old.shape == (5, 101) and np.ptp(old) > 0
    assert old.tobytes() == new.tobytes()


def test_order_is_kept_where_another_saves_nothing():
    tiny = TinyGraph()
    given = tiny.input(1, 7)
    first, second = (tiny.op("NEG", given, shape=(1, 7)) for _ in range(2))
    tiny.finish(tiny.op("SUB", second, first, shape=(1, 7)))
    before = list(tiny.subgraph.operators)
    ordering.save_memory(tiny.graph)
    assert tiny.subgraph.operators == before


@pytest.mark.parametrize("name", ["VAR_HANDLE", "CALL_ONCE"])
def test_operators_with_effects_keep_their_place(name):
    tiny, result = wide_first(13)
    tiny.op(name, shape=(1,))
    tiny.finish(result)
    before = list(tiny.subgraph.operators)
    ordering.save_memory(tiny.graph)
    assert tiny.subgraph.operators == before
