"""`check` on .tflite files: each rule finds its fault; damaged ones give an error, never a dead process."""

import dataclasses

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import ConversionError
from keras_attention.tflite import check
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime_versions
from keras_attention.tflite.linting import file_partitions
from keras_attention.tflite.linting import file_rules
from keras_attention.tflite.linting import registry

TYPES = {
    np.dtype(name): getattr(schema.TensorType, name.upper()) for name in ("float32", "int8", "int16", "int32")
}


@dataclasses.dataclass
class Graph:
    """A file made by hand, of one subgraph."""

    model: object = dataclasses.field(default_factory=schema.ModelT)

    def __post_init__(self):
        subgraph = schema.SubGraphT()
        subgraph.tensors, subgraph.operators, subgraph.inputs, subgraph.outputs = [], [], [], []
        empty = schema.BufferT()
        self.model.version, self.model.description = 3, b"by hand"
        self.model.subgraphs, self.model.buffers = [subgraph], [empty]
        self.model.operatorCodes, self.model.signatureDefs = [], []

    def tensor(self, shape, dtype="float32", value=None, scale=None, signature=None):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = (
            b"t%d" % len(self.tensors),
            list(shape),
            TYPES[np.dtype(dtype)],
        )
        tensor.shapeSignature, tensor.buffer = signature, 0
        if value is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.asarray(value, dtype).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [0]
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    @property
    def tensors(self):
        return self.model.subgraphs[0].tensors

    def input(self, shape, **options):
        self.model.subgraphs[0].inputs.append(self.tensor(shape, **options))
        return self.model.subgraphs[0].inputs[-1]

    def constant(self, value, **options):
        return self.tensor(np.shape(value), value=value, **options)

    def operator(self, name, inputs, output, options=None, version=1):
        """Add an operator and return its output, which becomes that of the file."""
        code = schema.OperatorCodeT()
        number = getattr(schema.BuiltinOperator, name, None)
        code.builtinCode = schema.BuiltinOperator.CUSTOM if number is None else number
        code.customCode = name.encode() if number is None else None
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = list(inputs), [output]
        if options is not None:
            operator.builtinOptions = options
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        self.model.subgraphs[0].operators.append(operator)
        self.model.subgraphs[0].outputs = [output]
        return output

    def content(self):
        return graphs.write_graph(self.model)


def add(value, dtype="float32", scale=None, output_scale=None, shape=(1, 3)):
    """x + a constant."""
    graph = Graph()
    x = graph.input(shape, dtype=dtype, scale=None if scale is None else 0.1)
    constant = graph.constant(np.full(shape, value, dtype), dtype=dtype, scale=scale)
    output = graph.tensor(shape, dtype=dtype, scale=output_scale)
    graph.operator("ADD", [x, constant], output, schema.AddOptionsT())
    return graph


def unary(name, shape=(1, 3), dtype="float32", out_shape=None, scale=None, options=None, **tensor):
    graph = Graph()
    x = graph.input(shape, dtype=dtype, scale=scale, **tensor)
    graph.operator(name, [x], graph.tensor(out_shape or shape, dtype=dtype, scale=scale), options)
    return graph


def tile():
    graph = Graph()
    x, times = graph.input((1, 3)), graph.constant(np.array([1, 2], np.int32), dtype="int32")
    graph.operator("TILE", [x, times], graph.tensor((1, 6)))
    return graph


def with_signature(graph):
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = b"serve", 0
    signature.inputs, signature.outputs = [], []
    graph.model.signatureDefs.append(signature)
    return graph


def variable(assigned):
    graph = unary("READ_VARIABLE")
    if assigned:
        graph.operator("ASSIGN_VARIABLE", [0, 1], 1)
    return graph


def wide_softmax():
    """Softmax of int8 scores that reach down to -128000."""
    return unary("SOFTMAX", dtype="int8", scale=1000.0, options=schema.SoftmaxOptionsT())


def mixed():
    """QUANTIZE, an int8 ADD, DEQUANTIZE, TANH in float."""
    graph = Graph()
    x = graph.input((1, 3))
    quantized = graph.operator("QUANTIZE", [x], graph.tensor((1, 3), dtype="int8", scale=0.1))
    total = graph.tensor((1, 3), dtype="int8", scale=0.2)
    graph.operator("ADD", [quantized, quantized], total, schema.AddOptionsT(), version=2)
    back = graph.operator("DEQUANTIZE", [total], graph.tensor((1, 3)), version=2)
    graph.operator("TANH", [back], graph.tensor((1, 3)))
    return graph


def whole_int8():
    return add(3, "int8", scale=0.1, output_scale=0.2)


PLAIN = [lambda: with_signature(add(1.5))]
CASES = {
    "KA201": ([lambda: add(1.5)], PLAIN, "warning: file: no stable names"),
    "KA202": (
        [lambda: unary("TANH", signature=[-1, 3])],
        PLAIN,
        "warning: input 't0': [-1, 3] fixed sizes",
    ),
    "KA203": (
        [lambda: unary("FlexErf"), lambda: unary("MyOperator")],
        PLAIN,
        "error: (operator 0): refuses builtin",
    ),
    "KA204": (
        [lambda: unary("TANH", (1, 2, 3, 5, 7))],
        [lambda: unary("TANH", (1, 2, 3, 5))],
        "warning: TANH (operator 0): 5 axes",
    ),
    "KA205": ([tile], PLAIN, "warning: TILE (operator 0): several times"),
    "KA206": (
        [lambda: variable(False), lambda: variable(True)],
        PLAIN,
        ": VARIABLE (operator: the",
    ),
    "KA207": (
        [lambda: add(np.nan), lambda: add(-np.inf)],
        PLAIN,
        ": ADD (operator 0): 3 of 3 constants",
    ),
    "KA208": (
        [lambda: add(-1e9), lambda: add(-100, "int8", 1e3, 1e3), wide_softmax],
        [lambda: add(-50.0), lambda: add(-1000.0), lambda: add(1e9), whole_int8],
        ": (operator 0): 30 to 50 below",
    ),
    "KA209": ([mixed], [whole_int8, lambda: add(1.5)], "note: 1 of 2 operators: 1 TANH 't0', 't4' NPU"),
    "KA210": ([lambda: unary("WHILE")], PLAIN, "warning: WHILE (operator 0): max_unrolled_steps"),
    "KA212": (
        [lambda: unary("RESHAPE", (1, 6, 7), out_shape=(2, 3, 7))],
        [
            lambda: unary("TANH", (1, 3, 7)),
            lambda: unary("TANH", (5, 3, 7)),
            lambda: unary("RESHAPE", (1, 6)),
        ],
        "note: RESHAPE (operator 0): batch of 1",
    ),
    "KA213": ([lambda: add(7e4)], [lambda: add(6e4), lambda: add(np.inf)], "warning: ADD: 7e+04 float16"),
    "KA214": ([whole_int8], PLAIN, "note: put 't: int8 scale zero point"),
    "KA215": ([lambda: add(1.5)], [Graph], "note: file: LiteRT 1.5 or later"),
}


def pairs(side):
    return [
        pytest.param(code, build, id=f"{code}-{number}")
        for code, case in CASES.items()
        for number, build in enumerate(case[side])
    ]


def without_the_runtime(graph):
    """What the rules on the graph find; these files are not all fit to run."""
    read = graphs.read_graph(graph.content())
    return [finding for rule in file_rules._RULES for finding in rule(read)]


@pytest.mark.parametrize(("code", "build"), pairs(0))
def test_fault_is_found(code, build):
    found = [finding for finding in without_the_runtime(build()) if finding.code == code]
    assert found, "nothing was found"
    severity, place, words = CASES[code][2].split(":", 2)
    for finding in found:
        assert severity in ("", finding.severity) and place.strip() in finding.where
        assert len(finding.cure) > 20
        for word in words.split():
            assert word in f"{finding.message} {finding.cure}", word


@pytest.mark.parametrize(("code", "build"), pairs(1))
def test_sound_file_is_left_alone(code, build):
    assert [finding for finding in without_the_runtime(build()) if finding.code == code] == []


def test_every_rule_has_a_case():
    elsewhere = {"KA211", "KA216"}  # these load the file; below
    assert {code for code in registry.TITLES if code.startswith("KA2")} == set(CASES) | elsewhere


def test_severities_that_depend():
    def severity(graph, code):
        return [finding.severity for finding in without_the_runtime(graph) if finding.code == code]

    assert severity(variable(False), "KA206") == ["error"]
    assert severity(variable(True), "KA206") == ["warning", "warning"]
    assert (severity(add(np.nan), "KA207"), severity(add(-np.inf), "KA207")) == (["error"], ["warning"])
    assert severity(add(-1e9), "KA208") == ["note"]
    assert severity(add(-100, "int8", 1e3, 1e3), "KA208") == ["warning"]


def test_good_file(float_file, tmp_path):
    """The one that runs the worker just as users do."""
    path = tmp_path / "good.tflite"
    path.write_bytes(float_file("transformer"))
    found = check(path)
    assert [finding.code for finding in found] == ["KA215"], found
    assert check(str(path), ignore=["KA215"]) == ()


def test_operators_outside_xnnpack(float_file, converted):
    """Two files that run in one piece, and one whose masks of tokens don't."""
    assert list(file_partitions.outside_xnnpack(float_file("transformer"))) == []
    assert list(file_partitions.outside_xnnpack(converted("cnn", "int8").path.read_bytes())) == []
    found = list(file_partitions.outside_xnnpack(float_file("tokens")))
    places = [finding.where for finding in found]
    kinds = {place.partition(" (operator")[0] for place in places}
    assert {"GATHER on int32", "RESHAPE on bool"} <= kinds
    assert all(finding.severity == "warning" and "in 4 pieces" in finding.message for finding in found)


def test_operators_that_cut_the_graph():
    """TANH, an operator on int32 that XNNPACK lacks, and TANH again."""
    graph = Graph()
    x, ids = graph.input((1, 3)), graph.input((1, 3), dtype="int32")
    first = graph.operator("TANH", [x], graph.tensor((1, 3)))
    sign = graph.operator("SIGN", [first], graph.tensor((1, 3)))
    last = graph.operator("TANH", [sign], graph.tensor((1, 3)))
    doubled = graph.operator("MAXIMUM", [ids, ids], graph.tensor((1, 3), dtype="int32"))
    graph.model.subgraphs[0].outputs = [last, doubled]
    found = list(file_partitions.outside_xnnpack(graph.content()))
    assert [finding.where for finding in found] == [
        "SIGN on float32 (operator 1)",
        "MAXIMUM on int32 (operator 3)",
    ]
    assert all(f.severity == "warning" and "in 2 pieces" in f.message for f in found)


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        ("int8_full", ["pieces: ", "BATCH_MATMUL", "GELU"]),
        ("int16x8", ["takes nothing", "FULLY_CONNECTED"]),
    ],
)
def test_a_file_in_integers_on_purpose(converted, precision, words):
    """One note, so that `check --strict` passes; what stock converters make for a CPU is told apart below."""
    found = check(converted("transformer", precision).path)
    assert {finding.severity for finding in found} == {"note"}, found
    (finding,) = (finding for finding in found if finding.code == "KA211")
    assert all(word in finding.message for word in words)
    assert "phone's CPU precision='int8' is faster" in finding.cure
    about_floats = [finding for finding in found if finding.code == "KA209"]
    if precision == "int8_full":
        assert about_floats == []
    else:
        (finding,) = about_floats
        assert finding.where == "inputs and outputs" and "'window', 'classes'" in finding.message
        assert "io_dtype" in finding.cure


@pytest.mark.parametrize(("interface", "severities"), [("int8", ["note"]), ("float32", ["warning"])])
def test_integers_between_float_sides_are_a_warning(interface, severities):
    """RSQRT in int8, which XNNPACK lacks, between operators that it has."""
    graph = Graph()
    kind = {"dtype": "int8", "scale": 0.02}
    x = graph.input((1, 3), **(kind if interface == "int8" else {}))
    last = x if interface == "int8" else graph.operator("QUANTIZE", [x], graph.tensor((1, 3), **kind))
    for _ in range(2):
        doubled = graph.operator("ADD", [last, last], graph.tensor((1, 3), **kind))
        last = graph.operator("RSQRT", [doubled], graph.tensor((1, 3), **kind))
    last = graph.operator("ADD", [last, last], graph.tensor((1, 3), **kind))
    if interface == "float32":
        last = graph.operator("DEQUANTIZE", [last], graph.tensor((1, 3)))
    graph.model.subgraphs[0].outputs = [last]
    found = list(file_partitions.outside_xnnpack(graph.content()))
    assert [finding.severity for finding in found] == severities, found


def test_unpacked_weights_are_no_batch(converted):
    """A float16 file begins with DEQUANTIZE of kernels, whose first axis is no batch."""
    found = check(converted("cnn", "float16").path)
    assert [finding.code for finding in found] == ["KA215"]


def test_how_to_quantize_reads_as_arithmetic():
    for zero_point, there, back in ((7, " + 7 and", "(int8 - 7)"), (-128, " - 128 and", "(int8 + 128)")):
        graph = Graph()
        x = graph.input((1, 3), dtype="int8", scale=0.5)
        y = graph.operator("ADD", [x, x], graph.tensor((1, 3), dtype="int8", scale=0.5))
        for index in (x, y):
            graph.tensors[index].quantization.zeroPoint = [zero_point]
        graph.model.subgraphs[0].outputs = [y]
        cures = [finding.cure for finding in without_the_runtime(graph) if finding.code == "KA214"]
        assert there in cures[0] and back in cures[1]


def test_a_file_that_the_runtime_refuses(tmp_path):
    path = tmp_path / "refused.tflite"
    graph = add(1.5)
    graph.tensors[1].type = schema.TensorType.INT32  # float32 + int32
    path.write_bytes(graph.content())
    (finding,) = check(path, select=["KA216"])
    assert finding.severity == "error" and "can't load it" in finding.message


def test_custom_operators_are_not_run(tmp_path):
    path = tmp_path / "flex.tflite"
    path.write_bytes(unary("FlexErf").content())
    found = check(path)
    assert "KA203" in {finding.code for finding in found}
    assert "KA216" not in {finding.code for finding in found}
    (version,) = (finding for finding in found if finding.code == "KA215")
    assert "unknown (unknown for FlexErf 1)" in version.message


@pytest.mark.parametrize(
    "content", [b"", b"TFL3", b"text, not a model" * 9, np.random.default_rng(0).bytes(4099)]
)
def test_what_is_no_tflite_file(tmp_path, content):
    path = tmp_path / "notes.tflite"
    path.write_bytes(content)
    with pytest.raises(ConversionError, match=r"notes\.tflite' can't be checked.* not a \.tflite file"):
        check(path)


def test_a_tflite_file_by_another_name(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(with_signature(add(1.5)).content())
    assert [finding.code for finding in check(path)] == ["KA215"]


def test_damaged_files(float_file, tmp_path):
    """Cut files and flipped bytes: findings or an error with the file's name."""
    content = float_file("transformer")
    path = tmp_path / "damaged.tflite"
    rng = np.random.default_rng(20240606)
    outcomes = []
    for number in range(24):
        damaged = np.frombuffer(content, np.uint8).copy()
        places = rng.integers(8, len(content) if number % 2 else 400, 1 + number % 7)
        damaged[places] ^= rng.integers(1, 256, len(places), dtype=np.uint8)
        size = len(content) if number % 3 else int(rng.integers(8, len(content)))
        path.write_bytes(damaged.tobytes()[:size])
        try:
            outcomes.append(len(check(path)))
        except ConversionError as error:
            assert repr(str(path)) in str(error) and "can't be checked" in str(error)
            outcomes.append(None)
    assert 0 < outcomes.count(None) < len(outcomes), "both ends of the matter were seen"


@pytest.mark.parametrize("name", ["dense", "transformer", "conv_lstm", "cnn", "tokens", "depthwise"])
def test_minimum_runtime_is_that_of_the_converter(float_file, name):
    """TensorFlow's converter writes what it takes for the minimum into the file."""
    graph = graphs.read_graph(float_file(name))
    (entry,) = (entry for entry in graph.metadata if entry.name == b"min_runtime_version")
    written = bytes(graph.buffers[entry.buffer].data).rstrip(b"\0").decode()
    found = runtime_versions.minimum_runtime(graph)
    assert written == f"{found}.0"


@pytest.mark.parametrize(
    ("operator", "version", "release"),
    [
        ("FULLY_CONNECTED", 12, "2.17"),
        ("FULLY_CONNECTED", 1, "1.5"),
        ("TRANSPOSE", 7, "2.14.4"),
        ("BROADCAST_TO", 1, None),
        ("BROADCAST_TO", 2, "2.5"),
        ("ADD", 0, None),
        ("ADD", 7, None),
        ("NO_SUCH_OPERATOR", 1, None),
    ],
)
def test_first_release(operator, version, release):
    assert runtime_versions.first_release(operator, version) == release


def test_minimum_runtime_compares_numbers_and_names_what_it_does_not_know():
    graph = add(1.5)
    graph.operator("FULLY_CONNECTED", [0, 1], 2, version=9)
    assert runtime_versions.minimum_runtime(graph.model) == "2.3"
    graph.operator("FULLY_CONNECTED", [0, 1], 2, version=12)
    assert runtime_versions.minimum_runtime(graph.model) == "2.17"
    graph.operator("Mine", [0], 2, version=3)
    graph.operator("ADD", [0, 1], 2, version=99)
    assert runtime_versions.minimum_runtime(graph.model) == "2.17 (unknown for ADD 99, Mine 3)"


def weighted(name, dtype="float32", num_scales=5, asymmetric=False):
    """An operator on floats with int8 weights, or on int8 or int16."""
    graph = Graph()
    x = graph.input((1, 3), dtype=dtype, scale=None if dtype == "float32" else 0.1)
    weights = graph.constant(np.ones((5, 3), np.int8), dtype="int8", scale=0.1)
    graph.tensors[weights].quantization.scale = [0.1] * num_scales
    graph.tensors[weights].quantization.zeroPoint = [0] * num_scales
    options = schema.FullyConnectedOptionsT() if name == "FULLY_CONNECTED" else None
    if options is not None:
        options.asymmetricQuantizeInputs = asymmetric
    graph.operator(name, [x, weights], graph.tensor((1, 5), dtype=dtype), options)
    return graph.model


@pytest.mark.parametrize(
    ("model", "release"),
    [
        (lambda: weighted("FULLY_CONNECTED"), "2.17"),
        (lambda: weighted("FULLY_CONNECTED", num_scales=1, asymmetric=True), "2.3"),
        (lambda: weighted("FULLY_CONNECTED", num_scales=1), "1.14"),
        (lambda: weighted("FULLY_CONNECTED", "int8"), "1.14"),
        (lambda: weighted("CONV_2D"), "2.4"),
        (lambda: weighted("CONV_2D", "int8"), "1.14"),
        (lambda: unary("GELU", dtype="int8", scale=0.1).model, "2.9"),
        (lambda: unary("GELU").model, "2.9"),
        (lambda: unary("LOG", dtype="int8", scale=0.1).model, "2.15"),
        (lambda: unary("LOG").model, "1.14"),
        (lambda: unary("SQRT", dtype="int16", scale=0.1).model, "2.21"),
        (lambda: unary("SQRT").model, "1.10"),
        (lambda: unary("EQUAL", dtype="int16", scale=0.1).model, "2.21"),
        (lambda: unary("LESS", dtype="int16", scale=0.1).model, "1.14"),
    ],
)
def test_versions_that_types_call_for_count_more_than_declared_ones(model, release):
    assert runtime_versions.minimum_runtime(model()) == release


def test_dynamic_file_needs_a_recent_runtime(converted):
    """The quantizer leaves the versions of the float file, which would say 2.9."""
    graph = graphs.read_graph(converted("dense", "dynamic").path.read_bytes())
    assert runtime_versions.minimum_runtime(graph) == "2.17"
