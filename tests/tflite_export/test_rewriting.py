"""The float graph after rewriting answers the same bytes, with slices that XNNPACK has."""

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import rewriting
from keras_attention.tflite import saved_model
from keras_attention.tflite import tensorflow_converter
from keras_attention.tflite.model_signature import read_signature

SLICES = {
    "last": lambda x: x[:, -1],
    "first": lambda x: x[:, 0],
    "third": lambda x: x[:, 2],
    "last_channel": lambda x: x[:, :, -1],
    "one_value": lambda x: x[:, 3, -2],
    "step_and_range": lambda x: x[:, -4, 1:3],
    "every_other": lambda x: x[:, ::2, 1],
}


def run(content, array):
    """All outputs of the plain interpreter."""
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of TensorFlow's converter
def test_slices_keep_their_axes(tmp_path):
    inputs = keras.Input((7, 5), name="x")
    model = keras.Model(inputs, [cut(inputs * 2.0) + 1.0 for cut in SLICES.values()])
    outputs, _ = saved_model.export_saved_model(model, read_signature(model), tmp_path / "saved", 512)
    content = tensorflow_converter.convert_saved_model(tmp_path / "saved")
    graph = graphs.read_graph(content)
    graphs.set_interface(graph, ["x"], [str(index) for index in range(len(outputs))])
    graph = graphs.read_graph(graphs.write_graph(graph))
    before = graphs.write_graph(graph)
    slices = [op for op in graph.subgraphs[0].operators if graphs.operator_name(graph, op) == "STRIDED_SLICE"]
    assert sum(bool(op.builtinOptions.shrinkAxisMask) for op in slices) == len(SLICES)

    rewriting.keep_sliced_axes(graph)
    after = graphs.write_graph(graph)
    rewritten = graphs.read_graph(after)
    subgraph = rewritten.subgraphs[0]
    names = [graphs.operator_name(rewritten, op) for op in subgraph.operators]
    assert names.count("STRIDED_SLICE") == names.count("RESHAPE") == len(SLICES)
    for op in subgraph.operators:
        if graphs.operator_name(rewritten, op) == "STRIDED_SLICE":
            assert op.builtinOptions.shrinkAxisMask == 0
            assert len(subgraph.tensors[op.outputs[0]].shape) == 3

    values = np.random.default_rng(0).normal(size=(1, 7, 5)).astype(np.float32)
    for cut, old, new in zip(SLICES.values(), run(before, values), run(after, values), strict=True):
        np.testing.assert_array_equal(new, cut(values * 2.0) + 1.0)
        assert old.tobytes() == new.tobytes() and old.shape == new.shape


def test_graph_without_slices_is_left_alone(float_file):
    content = graphs.write_graph(graphs.read_graph(float_file("swapped")))
    graph = graphs.read_graph(content)
    rewriting.keep_sliced_axes(graph)
    assert graphs.write_graph(graph) == content
