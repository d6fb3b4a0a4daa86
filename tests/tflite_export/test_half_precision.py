"""Float16 weights by our own pass: what is stored how, and answers that stay."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import half_precision
from keras_attention.tflite import metrics
from keras_attention.tflite import runtime


def halved(content):
    graph = graphs.read_graph(content)
    half_precision.halve_weights(graph)
    return graphs.write_graph(graph)


def stored(content, kind):
    """Shapes of the stored tensors of a type."""
    graph = graphs.read_graph(content)
    return sorted(
        tuple(tensor.shape)
        for tensor in graph.subgraphs[0].tensors
        if graphs.tensor_type(tensor) == kind and graphs.is_constant(graph, tensor)
    )


def operators(content):
    graph = graphs.read_graph(content)
    return [graphs.operator_name(graph, operator) for operator in graph.subgraphs[0].operators]


@pytest.mark.parametrize("name", ["dense", "transformer", "cnn", "depthwise", "wide_lstm"])
def test_the_file_stays_in_one_piece_and_right(name, case, float_file):
    before, after = float_file(name), halved(float_file(name))
    samples = {"x": case(name).evaluation[:7]}
    wanted, got = (runtime.run_samples(content, samples) for content in (before, after))
    assert all(metrics.sqnr_db(a, b) > 50 for a, b in zip(wanted, got, strict=True))
    assert runtime.partitions_and_operators(after)[0] == 1 and runtime.is_fully_delegated(after)
    assert not [shape for shape in stored(after, "float32") if len(shape) >= 2]
    assert len(stored(after, "float16")) >= 2
    assert len(after) < len(before)


def test_steps_that_share_a_matrix_share_the_half(float_file):
    before, after = float_file("wide_lstm"), halved(float_file("wide_lstm"))
    # input, recurrent and answer kernel, once each, and the gates' bias of 4 * 41 values
    assert stored(after, "float16") == [(2, 41), (164,), (164, 3), (164, 41)]
    assert operators(after).count("DEQUANTIZE") == 4
    assert operators(before).count("FULLY_CONNECTED") == operators(after).count("FULLY_CONNECTED") > 7
    weights = 4 * (41 * 164 + 3 * 164 + 164 + 82)
    assert len(before) - len(after) > 0.4 * weights, "no float32 copy is left behind"


def graph_with(float_file, values):
    """The dense model's graph, its first kernel replaced by `values` in the places given."""
    graph = graphs.read_graph(float_file("dense"))
    (index,) = (i for i, t in enumerate(graph.subgraphs[0].tensors) if tuple(t.shape) == (13, 7) and t.buffer)
    tensor = graph.subgraphs[0].tensors[index]
    kernel = graphs.constant_value(graph, tensor).copy()
    kernel[2] = values
    graph.buffers[tensor.buffer].data = np.frombuffer(kernel.tobytes(), np.uint8)
    return graphs.write_graph(graph)


@pytest.mark.parametrize(
    ("value", "fits"),
    [(65_504.0, True), (70_000.0, False), (-1e30, False), (1e-3, True), (3e-7, False), (0.0, True)],
)
def test_values_that_float16_cannot_hold_stay(float_file, value, fits):
    after = halved(graph_with(float_file, value))
    kinds = {True: "float16", False: "float32"}
    assert (13, 7) in stored(after, kinds[fits]) and (13, 7) not in stored(after, kinds[not fits])
    assert (3, 13) in stored(after, "float16"), "the other kernel"


def test_scalars_and_short_vectors_stay(float_file):
    after = halved(float_file("cnn"))
    assert (16,) in stored(after, "float32"), "the bias that a norm left"
    assert all(len(shape) == 1 and shape[0] < 64 for shape in stored(after, "float32"))


def test_the_operator_has_the_version_that_reads_float16(float_file):
    graph = graphs.read_graph(halved(float_file("dense")))
    (code,) = (c for c in graph.operatorCodes if c.builtinCode == schema.BuiltinOperator.DEQUANTIZE)
    assert code.version == 3


def test_a_result_that_is_stored_stays_float32(float_file):
    graph = graphs.read_graph(float_file("dense"))
    subgraph = graph.subgraphs[0]
    (index,) = (i for i, t in enumerate(subgraph.tensors) if tuple(t.shape) == (13, 7) and t.buffer)
    subgraph.outputs = [*subgraph.outputs, index]
    half_precision.halve_weights(graph)
    assert graphs.tensor_type(subgraph.tensors[index]) == "float32"
    assert graphs.is_constant(graph, subgraph.tensors[index])
