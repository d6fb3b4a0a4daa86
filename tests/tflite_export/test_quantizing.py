"""`quantize`: float files with and without signature, open batch, float16 weights; and what is refused."""

import re
import warnings

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import ConversionError
from keras_attention.tflite import FidelityError
from keras_attention.tflite import editing
from keras_attention.tflite import float_files
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite import quantize
from keras_attention.tflite import runtime
from keras_attention.tflite import verify


def answers(content, evaluation):
    """What a file answers, the arrays in the order of its inputs."""
    arrays = evaluation if isinstance(evaluation, list) else [evaluation]
    return runtime.run_samples(content, {str(i): array for i, array in enumerate(arrays)})


def assert_equal(one, other):
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="session")
def open_batch(case):
    """A function: name -> bytes of TensorFlow's own float file, whose batch size is open."""

    def make(name, half=False):
        converter = tf.lite.TFLiteConverter.from_keras_model(case(name).model)
        if half:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.target_spec.supported_types = [tf.float16]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TensorFlow's own
            return converter.convert()

    return make


@pytest.mark.parametrize("name", ["cnn", "swapped"])
def test_the_float_file_of_a_model_gives_the_file_of_the_model(converted, name):
    """Bit for bit what `convert` makes of the model itself."""
    float32, int8 = converted(name, "float32"), converted(name, "int8")
    case = float32.case
    result = quantize(float32.path, calibration=case.calibration, evaluation=case.evaluation, verbose=0)
    assert_equal(answers(result.content, case.evaluation), answers(int8.result.content, case.evaluation))
    report = result.report
    assert report.reference == "the float file" and report.model_name == f"{name}_float32"
    assert report.float32_sqnr_db == 200.0 and 25.0 < report.sqnr_db < 100.0
    assert (report.inputs, report.outputs) == (int8.result.report.inputs, int8.result.report.outputs)
    assert report.operators == int8.result.report.operators and report.changes == {}
    assert abs(report.sqnr_db - int8.result.report.sqnr_db) < 0.5
    assert set(report.versions) == {"ai-edge-litert", "litert-quantizer", "numpy"}


def test_without_signature_and_names(case, float_file, tmp_path):
    wanted = case("swapped")
    graph = graphs.read_graph(float_file("swapped"))
    graph.signatureDefs = []
    for tensor in graph.subgraphs[0].tensors:
        tensor.name = b""
    named = graph.subgraphs[0].tensors[graph.subgraphs[0].inputs[1]]
    named.name = b"apple"
    content = graphs.write_graph(graph)
    samples = dict(zip(("input_0", "apple"), wanted.calibration, strict=True))
    path = tmp_path / "int8.tflite"
    result = quantize(content, path, calibration=samples, sensitivity=True, verbose=0)
    assert graphs.signature_names(graphs.read_graph(result.content)) == ["serving_default"]
    assert result.report.inputs == ("input_0: float32[1, 5]", "apple: float32[1, 7]")
    assert result.report.outputs == ("output_0: float32[1, 3]", "output_1: float32[1, 2]")
    assert result.report.changes == {"float file, 1": "a signature 'serving_default' was added"}
    assert result.report.model_name == "" and result.report.evaluation_source == "calibration"
    layers = [row["layer"] for row in result.report.sensitivity]
    assert len(layers) == len(set(layers)) >= 3 and "FULLY_CONNECTED_0" in layers
    assert path.read_bytes() == result.content and verify(path).passed


@pytest.mark.parametrize("source", ["float32", "float16"])
def test_our_own_files_know_their_layers(case, converted, source):
    """Their tensors have no names; the float files list the layers of their operators, and no others do."""
    wanted, given = case("conv_lstm"), converted("conv_lstm", source).path.read_bytes()
    result = quantize(given, calibration=wanted.calibration, sensitivity=True, verbose=0)
    found = {row["layer"].split("/")[0] for row in result.report.sensitivity}
    assert {"conv1d", "memory", "bahdanau_attention", "dense"} <= found
    assert found <= {layer.name for layer in wanted.model.layers} | {layer_names.UNKNOWN}

    def listed(content):
        return graphs.metadata(graphs.read_graph(content), layer_names.ENTRY) or b""

    assert 10 < len(listed(given)) < 300
    assert listed(result.content) == b"" == listed(converted("conv_lstm", "int8").path.read_bytes())


def test_open_batch_becomes_one(open_batch, case):
    """A Transformer asks for its batch size in every reshape; fixed, it is one piece."""
    wanted = case("transformer")
    content = open_batch("transformer")
    before = graphs.read_graph(content)
    names = {graphs.operator_name(before, o) for o in before.subgraphs[0].operators}
    assert {"SHAPE", "PACK"} <= names
    result = quantize(content, calibration=wanted.calibration, evaluation=wanted.evaluation, verbose=0)
    report = result.report
    assert not {"SHAPE", "PACK"} & set(report.operators)
    assert report.inputs == ("window: float32[1, 11, 5]",)
    assert (report.delegate_partitions, report.fully_delegated) == (1, True)
    assert report.float32_sqnr_db >= 60.0 and report.sqnr_db > 30.0
    assert report.changes["float file, 1"] == "the batch size, which was open, is 1 (window)"
    assert "operators that compute sizes became constants" in report.changes["float file, 2"]
    tensors = graphs.read_graph(result.content).subgraphs[0].tensors
    assert all(min(tensor.shape, default=1) >= 1 for tensor in tensors)
    assert all(tensor.shapeSignature is None for tensor in tensors)


def test_half_weights_and_tokens(open_batch, case):
    wanted = case("tokens")
    content = open_batch("tokens", half=True)
    result = quantize(content, precision="float32", evaluation=wanted.evaluation, verbose=0)
    assert "float16" not in result.report.tensor_dtypes and "DEQUANTIZE" not in result.report.operators
    assert "float16 weights were turned back" in result.report.changes["float file, 1"]
    one, other = answers(result.content, wanted.evaluation), answers(content, wanted.evaluation)
    np.testing.assert_allclose(one[0], other[0], atol=1e-6)
    assert result.report.inputs == ("tokens: int32[1, 13]",)


def test_integers_throughout(converted):
    float32 = converted("dense", "float32")
    result = quantize(
        float32.path,
        precision="int8_full",
        calibration=float32.case.calibration,
        evaluation=float32.case.evaluation,
        io_dtype="uint8",
        verbose=0,
    )
    assert "float32" not in result.report.tensor_dtypes and "uint8[1, 7]" in result.report.inputs[0]
    assert result.report.sqnr_db > 20.0


def test_auto_and_random_samples(converted):
    float32 = converted("dense", "float32")
    chosen = quantize(
        float32.path, precision="auto", calibration=float32.case.calibration, min_agreement=0.9, verbose=0
    ).report
    assert {row["precision"] for row in chosen.candidates} >= {"float32", "float16", "dynamic", "int8"}
    assert sum(row["chosen"] for row in chosen.candidates) == 1 and chosen.reason
    unseen = quantize(float32.path, precision="dynamic", verbose=0).report
    assert unseen.evaluation_source == "random" and any("random inputs" in text for text in unseen.remarks)


def test_the_manifest_of_the_float_file_is_kept(converted):
    float32 = converted("dense", "float32")
    options = {"evaluation": float32.case.evaluation, "verbose": 0}
    entries = {"labels": ["a", "b", "c"], "sampling_rate_hz": 50}
    first = quantize(float32.path, precision="float32", manifest=entries, **options)
    kept = quantize(first.content, precision="dynamic", **options)
    given = quantize(first.content, precision="dynamic", manifest={"author": "me"}, **options)
    assert kept.report.manifest == {"labels": {"answer": ["a", "b", "c"]}, "sampling_rate_hz": 50}
    assert given.report.manifest == {"author": "me"}


def test_floors(converted, tmp_path):
    float32 = converted("dense", "float32")
    path = tmp_path / "int8.tflite"
    with pytest.raises(FidelityError, match="below min_sqnr_db=90") as caught:
        quantize(float32.path, path, calibration=float32.case.calibration, min_sqnr_db=90.0, verbose=0)
    assert caught.value.report.reference == "the float file" and not path.exists()


def test_arguments(converted, tmp_path):
    path = converted("dense", "float32").path
    with pytest.raises(FileNotFoundError, match=r"`file`.*gone\.tflite"):
        quantize(tmp_path / "gone.tflite", precision="dynamic")
    with pytest.raises(TypeError, match=r"`file` must be the path of a \.tflite file or its bytes"):
        quantize(7, precision="dynamic")
    with pytest.raises(ValueError, match="`path` would overwrite `file`"):
        quantize(path, path, precision="dynamic")
    with pytest.raises(ValueError, match="`calibration` is needed for precision='int8'"):
        quantize(path)
    with pytest.raises(ValueError, match=r"must name the model's inputs \['features'\]"):
        quantize(path, calibration={"other": np.zeros((3, 7))}, verbose=0)
    with pytest.raises(ValueError, match="must hold 3 names for output 'answer'"):
        quantize(path, precision="dynamic", manifest={"labels": ["a"]}, verbose=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a .tflite file"),
        (b"PK\x03\x04 a zip file", "not a .tflite file"),
        (b"\x1c\0\0\0TFL3" + b"\xff" * 91, "damaged"),
    ],
)
def test_damaged(content, message):
    with pytest.raises(ConversionError, match=f"The file can't be quantized.*{re.escape(message)}"):
        quantize(content, precision="dynamic", verbose=0)


def test_quantized_already(converted):
    float32, calibration = converted("dense", "float32"), converted("dense", "int8").case.calibration
    kinds = {
        "dynamic": "2 int8 constants beside float activations",
        "int8": "int8 activations beside",
        "int8_full": r"int8 activations and no float one \(fully integer\)",
    }
    for precision, kind in kinds.items():
        given = None if precision == "dynamic" else calibration
        file = quantize(float32.path, precision=precision, calibration=given, verbose=0)
        with pytest.raises(ConversionError, match=rf"It is quantized already: .*{kind}"):
            quantize(file.content, precision="dynamic", verbose=0)


def custom(graph, name):
    code = schema.OperatorCodeT()
    code.builtinCode, code.customCode = schema.BuiltinOperator.CUSTOM, name
    graph.operatorCodes.append(code)
    graph.subgraphs[0].operators[0].opcodeIndex = len(graph.operatorCodes) - 1


def with_loop(graph):
    graph.subgraphs.append(graph.subgraphs[0])
    subgraph = graph.subgraphs[0]
    subgraph.operators[0] = editing.new_operator(graph, "WHILE", [0], [1])


def set_type(graph):
    graph.subgraphs[0].tensors[graph.subgraphs[0].outputs[0]].type = schema.TensorType.FLOAT64


REFUSED = {
    "custom": (lambda graph: custom(graph, b"MyOp"), "custom operators.*MyOp"),
    "flex": (lambda graph: custom(graph, b"FlexErf"), r"Flex \(TensorFlow\) operators.*FlexErf"),
    "loop": (with_loop, r"2 subgraphs \(for WHILE\)"),
    "signatures": (lambda graph: graph.signatureDefs.append(graph.signatureDefs[0]), "2 signatures"),
    "empty": (lambda graph: setattr(graph.subgraphs[0], "operators", []), "no operators"),
    "state": (lambda graph: setattr(graph.subgraphs[0].tensors[1], "isVariable", True), "keeps a state"),
    "sparse": (
        lambda graph: setattr(graph.subgraphs[0].tensors[1], "sparsity", schema.SparsityParametersT()),
        "sparse weights",
    ),
    "double": (set_type, "computes in float64.*in float32"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_kinds(float_file, kind):
    graph = graphs.read_graph(float_file("dense"))
    assert float_files.refusal(graph) == ""
    change, message = REFUSED[kind]
    change(graph)
    with pytest.raises(ValueError, match=message):
        raise ValueError(float_files.refusal(graph))


def set_shape(graph, side, number, shape, signature=None):
    subgraph = graph.subgraphs[0]
    tensor = subgraph.tensors[getattr(subgraph, side)[number]]
    tensor.shape, tensor.shapeSignature = shape, signature


@pytest.mark.parametrize(
    ("side", "shape", "signature", "message"),
    [
        ("inputs", [1, 5], [-1, -1], r"'zebra' has an open size: \[-1, -1\]. Only the first axis"),
        ("inputs", [], None, "'zebra' is a single number"),
        ("inputs", [3, 5], None, r"count samples alike.*\{'zebra': 3, 'apple': 1\}"),
    ],
)
def test_shapes_that_cannot_be_fixed(float_file, side, shape, signature, message):
    graph = graphs.read_graph(float_file("swapped"))
    set_shape(graph, side, 0, shape, signature)
    with pytest.raises(ValueError, match=message):
        float_files.prepare(graph)


def test_output_that_counts_no_samples(float_file):
    graph = graphs.read_graph(float_file("dense"))
    subgraph = graph.subgraphs[0]
    flat = editing.add_tensor(subgraph, [3], schema.TensorType.FLOAT32)
    subgraph.operators.append(editing.new_reshape(graph, subgraph, int(subgraph.outputs[0]), flat))
    subgraph.outputs = [flat]
    graph.signatureDefs[0].outputs[0].tensorIndex = flat
    with pytest.raises(ValueError, match=r"Output 'answer' has shape \[3\], and the inputs hold 1 samples"):
        float_files.prepare(graph)
