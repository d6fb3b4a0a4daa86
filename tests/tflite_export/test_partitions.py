"""The piece of each operator, against what the runtime says of the whole."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import inspect
from keras_attention.tflite import partitions
from keras_attention.tflite import runtime

WEIGHTS = tf.constant(np.random.default_rng(3).normal(size=(17, 17)).astype(np.float32))


def _middle(x):
    return tf.nn.softmax(tf.cumsum(tf.nn.relu(x @ WEIGHTS), 1) @ WEIGHTS) + x


def _crossing(x):
    """The piece goes on beside the operator that it lacks."""
    return tf.reverse(tf.nn.relu(x @ WEIGHTS), [1]) + tf.nn.relu(x @ WEIGHTS) * tf.sin(x)


def _loop(x):
    def step(count, state):
        return count + 1, tf.tanh(state @ WEIGHTS)

    return tf.while_loop(lambda count, _: count < 5, step, (0, x))[1] + 1.0


EXPECTED = {
    _middle: [
        *(("FULLY_CONNECTED", 0), ("CUMSUM", None)),
        *(("FULLY_CONNECTED", 1), ("SOFTMAX", 1), ("ADD", 1)),
    ],
    _crossing: [("SIN", 0), ("FULLY_CONNECTED", 0), ("REVERSE_V2", None), ("MUL", 0), ("ADD", 1)],
    _loop: [("WHILE", None), ("ADD", 0)],
    (lambda x: tf.cumsum(x, 1)): [("CUMSUM", None)],
    (lambda x: [tf.split(tf.tile(x, [1, 2]), 2, 1)[1] * 2.0, tf.nn.top_k(x, 3)[0]]): None,
    (lambda x: tf.nn.relu(x @ WEIGHTS) @ WEIGHTS): [("FULLY_CONNECTED", 0), ("FULLY_CONNECTED", 0)],
}


def mapped(content):
    graph = graphs.read_graph(content)
    types = [graphs.tensor_type(tensor) for tensor in graph.subgraphs[0].tensors]
    return partitions.partition_map(runtime.operator_details(content), types)


def check_against_runtime(content, rows):
    """As many pieces and operators as the runtime counts; all inside if and only if it says so."""
    pieces, operators = runtime.partitions_and_operators(content)
    names = [row["operator"] for row in rows]
    assert {name: names.count(name) for name in names} == operators
    assert {row["partition"] for row in rows} - {None} == set(range(pieces))
    assert all(row["partition"] is not None for row in rows) == runtime.is_fully_delegated(content)
    graph = graphs.read_graph(content)
    assert names == [graphs.operator_name(graph, found) for found in graph.subgraphs[0].operators]
    assert [row["index"] for row in rows] == list(range(len(rows)))


@pytest.mark.parametrize("function", EXPECTED, ids=lambda function: function.__name__)
def test_known_graphs(function):
    traced = tf.function(function, input_signature=[tf.TensorSpec((1, 17))]).get_concrete_function()
    content = tf.lite.TFLiteConverter.from_concrete_functions([traced], tf.Module()).convert()
    rows = mapped(content)
    check_against_runtime(content, rows)
    if EXPECTED[function] is not None:
        assert [(row["operator"], row["partition"]) for row in rows] == EXPECTED[function]
    assert {row["dtype"] for row in rows} <= {"float32", "int32"}


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("cnn", "int8"),
        ("transformer", "int8"),
        ("cnn", "float16"),
        ("conv_lstm", "dynamic"),
        ("tokens", "int8"),
    ],
)
def test_conversions(converted, name, precision):
    got = converted(name, precision)
    report = got.result.report
    check_against_runtime(got.result.content, list(report.partition_map))
    assert len(report.partition_map) == sum(report.operators.values()) > 5
    assert inspect(got.path).partition_map == report.partition_map


def test_types_of_an_int8_file(converted):
    report = converted("cnn", "int8").result.report
    assert {row["partition"] for row in report.partition_map} == {0}
    kinds = {row["operator"]: row["dtype"] for row in report.partition_map}
    assert kinds["CONV_2D"] == "int8" and kinds["SOFTMAX"] == "float32"


def test_operator_that_nobody_reads_is_in_no_piece():
    rows = partitions.partition_map(
        [
            {"op_name": "ADD", "inputs": [0, 1], "outputs": [2]},
            {"op_name": "MUL", "inputs": [2, 1], "outputs": [3]},
            {"op_name": "PRINT", "inputs": [0], "outputs": []},
            {"op_name": "DELEGATE", "inputs": [0, 1], "outputs": [2]},
        ],
        ["float32"] * 4,
    )
    assert [(row["operator"], row["dtype"], row["partition"]) for row in rows] == [
        ("ADD", "float32", 0),
        ("MUL", "float32", None),
        ("PRINT", "none", None),
    ]


def test_inspection_names_what_is_outside(tmp_path, capsys):
    traced = tf.function(_middle, input_signature=[tf.TensorSpec((1, 17))]).get_concrete_function()
    path = tmp_path / "model.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([traced], tf.Module()).convert())
    inspect(path).print()
    assert "left outside: CUMSUM" in capsys.readouterr().out
