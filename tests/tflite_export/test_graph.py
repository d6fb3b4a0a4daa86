"""The .tflite file as an object: order, names, and that neither changes what is computed."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime


def run(content, arrays):
    """Outputs of the plain interpreter for inputs by position."""
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


def test_order_and_names_are_those_of_keras(case, float_file):
    model, _, samples = vars(case("swapped")).values()
    graph = graphs.read_graph(float_file("swapped"))
    graphs.strip_names(graph)
    content = graphs.write_graph(graph)
    interpreter = Interpreter(model_content=content)
    assert [d["name"] for d in interpreter.get_input_details()] == ["zebra", "apple"]
    assert [d["name"] for d in interpreter.get_output_details()] == ["zeta", "alpha"]
    (signature,) = interpreter.get_signature_list().values()
    assert sorted(signature["inputs"]) == ["apple", "zebra"]
    expected = model.predict([values[:1] for values in samples], verbose=0)
    for got, wanted in zip(run(content, [v[:1] for v in samples]), expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_describe_interface(float_file):
    graph = graphs.read_graph(float_file("swapped"))
    assert graphs.describe_interface(graph) == {
        "inputs": ["zebra: float32[1, 5]", "apple: float32[1, 7]"],
        "outputs": ["zeta: float32[1, 3]", "alpha: float32[1, 2]"],
    }
    assert graphs.signature_names(graph) == ["serve"]


def test_every_tensor_has_a_name_of_its_own(float_file):
    graph = graphs.read_graph(float_file("transformer"))
    names = [graphs.tensor_name(t) for s in graph.subgraphs for t in s.tensors]
    assert len(names) == len(set(names)) > 20
    assert [name.partition(":")[0] for name in names] == [f"0.{index}" for index in range(len(names))]
    assert sum(name.partition("/")[0].endswith(":multi_head_attention") for name in names) > 5


@pytest.mark.parametrize("name", ["transformer", "lstm", "swapped"])
def test_stripping_makes_it_smaller_and_changes_nothing(case, float_file, name):
    samples = case(name).evaluation
    arrays = [v[:1] for v in (samples if isinstance(samples, list) else [samples])]
    content = float_file(name)
    graph = graphs.read_graph(content)
    graphs.strip_names(graph)
    stripped = graphs.write_graph(graph)
    assert len(stripped) < len(content)
    inputs = graphs.describe_interface(graph)["inputs"]
    assert inputs == graphs.describe_interface(graphs.read_graph(content))["inputs"]
    interface = {i for s in graph.subgraphs for i in (*s.inputs, *s.outputs)}
    for index, tensor in enumerate(graphs.read_graph(stripped).subgraphs[0].tensors):
        assert bool(graphs.tensor_name(tensor)) == (index in interface)
    for got, wanted in zip(run(stripped, arrays), run(content, arrays), strict=True):
        assert got.tobytes() == wanted.tobytes()
        assert np.ptp(got) > 0


def test_write_and_read_is_stable(float_file):
    content = graphs.write_graph(graphs.read_graph(float_file("dense")))
    assert graphs.write_graph(graphs.read_graph(content)) == content


def test_constants(case, float_file):
    graph = graphs.read_graph(float_file("dense"))
    subgraph = graph.subgraphs[0]
    first = subgraph.operators[0]
    assert graphs.operator_name(graph, first) == "FULLY_CONNECTED"
    data, weights = (subgraph.tensors[index] for index in first.inputs[:2])
    assert not graphs.is_constant(graph, data) and graphs.is_constant(graph, weights)
    kernel = case("dense").model.get_weights()[0]
    np.testing.assert_array_equal(graphs.constant_value(graph, weights), kernel.T)
    counts = graphs.count_tensor_types(graph)
    assert counts == {"float32": len(subgraph.tensors)}


@pytest.mark.parametrize(
    "content",
    [b"", b"TFL3", b"\x00" * 100, b"not a model at all", b"PK\x03\x04zip file", b"\x1c\x00\x00\x00TFL"],
)
def test_bytes_that_are_no_tflite_file(content):
    with pytest.raises(ValueError, match=r"not a \.tflite file: its mark 'TFL3' is missing"):
        graphs.read_graph(content)


def test_runtime_agrees_with_the_plain_interpreter(case, float_file):
    samples = case("swapped").evaluation
    content = float_file("swapped")
    outputs = runtime.run_samples(content, dict(zip(["zebra", "apple"], samples, strict=True)))
    assert [output.shape for output in outputs] == [(37, 3), (37, 2)]
    for number in (0, 17, 36):
        single = run(content, [values[number : number + 1] for values in samples])
        for got, wanted in zip(outputs, single, strict=True):
            np.testing.assert_array_equal(got[number], wanted[0])


def test_runtime_counts_what_the_file_holds(float_file):
    content = float_file("dense")
    partitions, operators = runtime.partitions_and_operators(content)
    assert (partitions, operators) == (1, {"FULLY_CONNECTED": 2})
    assert runtime.is_fully_delegated(content)


def test_latency_in_milliseconds_of_each_file(float_file):
    content = float_file("dense")
    sample = {"features": np.zeros(7, np.float32)}
    measured = runtime.measure_latency([content, content], sample, seconds=0.05)
    assert len(measured) == 2
    for times in measured:
        assert 0.0 < times["min"] <= times["median"] < 100.0
