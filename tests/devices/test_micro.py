"""`check_micro` and `keras-attention micro`: equal answers pass, planted faults and other files are named."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import click.testing
import keras
import numpy as np
import pytest
import tiny_graphs
from ai_edge_litert import schema_py_generated as schema
from keras import layers

import keras_attention
from keras_attention import tflite
from keras_attention.tflite import ConversionError
from keras_attention.tflite import check_micro
from keras_attention.tflite import command_line
from keras_attention.tflite import editing
from keras_attention.tflite import golden
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import steps
from keras_attention.tflite.micro import header
from keras_attention.tflite.micro import operators
from keras_attention.tflite.micro import reference

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("tflite_micro") is None,
        reason='needs tflite-micro: pip install "keras-attention-tflite[micro]"',
    ),
    pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="converts on the default backend"),
]
LABELS = ["left", 'say "so"', "grün\\n", "??/ 🐟", "*/ //"]
RNG = np.random.default_rng(61)
_STEPS = {"int8_full": "int8", "int16x8": "int16"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A convolution, CBAM and dense layers in integers throughout, with golden pairs."""
    keras.utils.set_random_seed(7)
    image = keras.Input((9, 8, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    x = keras_attention.CBAM(ratio=2)(x)
    x = layers.Dense(13, activation="relu")(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(image, layers.Dense(5, activation="softmax", name="class")(x))
    samples = RNG.normal(size=(101, 9, 8, 3)).astype("float32")
    path = tmp_path_factory.mktemp("micro") / "full.tflite"
    result = tflite.convert(
        model,
        path,
        precision="int8_full",
        calibration=samples,
        manifest={"labels": LABELS},
        verbose=0,
    )
    result.write_report(path.with_name("report.json"))
    np.savez(path.with_name("samples.npz"), image=samples)
    return path


@pytest.fixture
def placed(source, tmp_path):
    """A copy that a test may change, without the manifest beside it."""
    return Path(shutil.copy(source, tmp_path / "model.tflite"))


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    runner = click.testing.CliRunner()
    return lambda *arguments: runner.invoke(command_line.main, ["micro", *map(str, arguments)])


def written(tmp_path, graph, *outputs):
    path = tmp_path / "tiny.tflite"
    path.write_bytes(graph.finish(*outputs))
    return path


def change(path, edit):
    """Rewrite the file after `edit(graph)`."""
    graph = graphs.read_graph(path.read_bytes())
    edit(graph)
    path.write_bytes(graphs.write_graph(graph))


def test_a_converted_file_passes(source):
    found = check_micro(str(source))
    assert found.passed and found.faults == (), found.faults
    assert (found.path, found.source, found.samples) == (source, "golden pairs", 8)
    assert found.kernels == "LiteRT's reference kernels"
    (output,) = found.outputs
    assert (output.name, output.values, output.differing_rounded_alike) == ("class", 40, 0)
    assert output.agreement == 1.0 and output.largest <= 2
    assert found.operators["CONV_2D"] >= 1 and {"AddConv2D", "AddSoftmax"} <= set(found.methods)
    assert len(found.methods) == len(found.operators)
    assert found.flash_bytes == source.stat().st_size > found.manifest_bytes > 500
    assert found.arena_bytes >= found.activation_bytes + found.persistent_bytes > found.activation_bytes > 216
    assert found.runtime.startswith("0.")
    assert found.rows()["arena, bytes"] == found.arena_bytes and found.rows()["passed"] is True


def test_the_arena_is_the_smallest(source):
    """In a process of its own: what is 16 bytes smaller is refused."""
    program = """
import sys
from tflite_micro import runtime
content, needed = open(sys.argv[1], "rb").read(), int(sys.argv[2])
runtime.Interpreter.from_bytes(content, arena_size=needed).invoke()
try:
    runtime.Interpreter.from_bytes(content, arena_size=needed - 16)
except RuntimeError:
    print("too small")
"""
    found = check_micro(source)
    command = [sys.executable, "-c", program, str(source), str(found.arena_bytes)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.stdout.strip() == "too small", result.stderr
    assert check_micro(source, arena_bytes=found.arena_bytes).passed
    short = check_micro(source, arena_bytes=found.arena_bytes - 1)
    (fault,) = short.faults
    assert f"{found.arena_bytes - 1:,} bytes is too small, the file needs {found.arena_bytes:,}" in fault


def test_given_inputs(source):
    with np.load(source.with_name("samples.npz")) as data:
        samples = data["image"]
    found = check_micro(source, inputs=samples)
    assert found.passed and (found.source, found.samples) == ("inputs", 101)
    assert check_micro(source, inputs={"image": samples[:3]}).samples == 3
    with pytest.raises(ConversionError, match=r"one array for each input.*'window'"):
        check_micro(source, inputs={"window": samples})
    with pytest.raises(ConversionError, match=r"shape \(samples, 9, 8, 3\)"):
        check_micro(source, inputs=samples[..., :2])
    with pytest.raises(ValueError, match="Pass one of them"):
        check_micro(source, inputs=samples, manifest=manifests.sidecar_path(source))


def test_a_changed_golden_answer_is_named(placed):
    def edit(graph):
        document = manifests.read_embedded(graph)
        answers = document["golden"]["pairs"][0]["file"]["class"]
        wrong = golden.decode_array(answers, "x", "int8", [1, 5])[:, ::-1] ^ 0x55
        document["golden"]["pairs"][0]["file"]["class"] = golden.encode_array(wrong)
        graphs.set_metadata(graph, manifests.ENTRY, json.dumps(document).encode())

    change(placed, edit)
    found = check_micro(placed)
    (fault,) = found.faults
    assert not found.passed and "output 'class' answers" in fault and "golden answers" in fault


def test_changed_weights_are_named(placed):
    def edit(graph):
        tensors = [t for t in graph.subgraphs[0].tensors if list(t.shape) == [5, 13]]
        (weights,) = (t for t in tensors if graphs.is_constant(graph, t))
        values = -graphs.constant_value(graph, weights)
        graph.buffers[weights.buffer].data = np.frombuffer(values.tobytes(), np.uint8)

    change(placed, edit)
    (fault,) = check_micro(placed).faults
    assert "output 'class' answers" in fault
    assert check_micro(placed, inputs=np.zeros((1, 9, 8, 3), "float32")).passed, "the runtimes agree"


def test_a_manifest_of_another_file(placed, source):
    beside = manifests.sidecar_path(source)
    change(placed, lambda graph: setattr(graph, "description", b"another"))
    found = check_micro(placed, manifest=beside)
    assert len(found.faults) == 1 and "another file" in found.faults[0]
    with pytest.raises(FileNotFoundError, match=r"no\.manifest\.json"):
        check_micro(placed, manifest="no.manifest.json")


def test_random_inputs_are_said_to_be_random(placed):
    change(placed, lambda graph: setattr(graph, "metadata", []))
    found = check_micro(placed)
    assert (found.passed, found.source, found.samples, found.manifest_bytes) == (True, "random", 8, 0)
    assert "Random inputs" in found.remarks[0]


def test_the_operator_that_differs_is_named(tmp_path):
    """RELU6 between tensors of different scales, which tflite-micro doesn't rescale; before it an ADD."""
    tiny = tiny_graphs.TinyGraph()
    x = tiny.quantized(tiny.input(1, 11), 0.1)
    total = tiny.quantized(tiny.op("ADD", x, x, shape=(1, 11), version=2), 0.2)
    y = tiny.quantized(tiny.op("RELU6", total, shape=(1, 11), version=2), 6 / 255, -128)
    path = written(tmp_path, tiny, y)
    (fault,) = check_micro(path).faults
    assert "RELU6 (operator 1), in 11 of 11 values" in fault and "reference kernels" in fault
    codes = {finding.code: finding for finding in tflite.check(path, target="microcontroller")}
    assert codes["KA403"].where == "RELU6 (operator 1)"


def test_operators_without_a_reference_kernel(tmp_path):
    """ELU has none, and that of SUM ignores the scales; ABS and MUL around them are compared with theirs."""
    tiny = tiny_graphs.TinyGraph()
    x = tiny.quantized(tiny.input(1, 11), 0.05)
    for name in ("ABS", "ELU", "NEG", "ABS", "ELU"):
        version = 2 if name == "ABS" else 1
        if name == "NEG":
            x = tiny.quantized(tiny.op("MUL", x, x, shape=(1, 11), version=2), 0.3, -128)
        else:
            x = tiny.quantized(tiny.op(name, x, shape=(1, 11), version=version), 0.06)
    total = tiny.op("SUM", x, tiny.constant([1]), shape=(1, 1), version=2, keepDims=True)
    path = written(tmp_path, tiny, x, tiny.quantized(total, 0.4))
    found = check_micro(path)
    assert found.kernels == "LiteRT's reference kernels (for ELU, SUM the default ones)"
    first, last = found.outputs
    assert first.differing == 0 and last.largest <= 1
    assert found.passed or "The first to differ is SUM (operator 5)" in found.faults[0]


def fully_connected(tmp_path, rows):
    """Products whose sums, in steps, are often close to the middle between two steps."""
    tiny = tiny_graphs.TinyGraph()
    x = tiny.quantized(tiny.input(*rows, 41), 0.05, 3)
    weights = tiny.quantized(
        tiny.constant(np.zeros((17, 41), np.float32)),
        RNG.uniform(0.01, 0.02, 17),
        values=RNG.integers(-127, 128, (17, 41)),
    )
    shape = (*rows, 17)
    product = tiny.op("FULLY_CONNECTED", x, weights, shape=shape, version=4, keepNumDims=True)
    return written(tmp_path, tiny, tiny.quantized(product, 0.1, -7))


@pytest.mark.parametrize("rows", [(1,), (1, 5)])
def test_the_rounding_of_products_is_told_apart(tmp_path, rows):
    path = fully_connected(tmp_path, rows)
    inputs = RNG.integers(-128, 128, (300, *rows[1:], 41)).astype("int8")
    found = check_micro(path, inputs=inputs)
    (output,) = found.outputs
    assert 0 < output.differing < 0.01 * output.values and output.largest == 1
    assert output.real == pytest.approx(0.1, rel=1e-4)
    assert output.differing_rounded_alike == 0 and found.passed
    assert (
        "in int8 twice" in found.remarks[-1]
        and found.rows()["differing where FULLY_CONNECTED rounds alike"] == 0
    )


def int16(tiny, index, scale):
    """Make a float tensor an int16 quantity."""
    tensor = tiny.subgraph.tensors[tiny.quantized(index, scale)]
    tensor.type = schema.TensorType.INT16
    return index


@pytest.mark.parametrize("has_bias", [False, True])
def test_the_rounding_of_products_in_int16_is_told_apart(tmp_path, has_bias):
    """As fine as the steps themselves: a multiplier of 16 bits beside one of 31."""
    tiny = tiny_graphs.TinyGraph()
    data = int16(tiny, tiny.input(1, 41), 0.0005)
    values = RNG.integers(-127, 128, (17, 41))
    scales = RNG.uniform(0.01, 0.02, 17)
    weights = tiny.quantized(tiny.constant(np.zeros((17, 41), np.float32)), scales, values=values)
    inputs = [data, weights]
    if has_bias:
        added = RNG.integers(-10_000, 10_000, 17)
        inputs.append(editing.add_constant(tiny.graph, tiny.subgraph, added))
    product = tiny.op("FULLY_CONNECTED", *inputs, shape=(1, 17), version=4, keepNumDims=True)
    path = written(tmp_path, tiny, int16(tiny, product, 0.001))
    found = check_micro(path, inputs=RNG.integers(-32768, 32768, (300, 41)).astype("int16"))
    (output,) = found.outputs
    assert found.passed and output.largest == 1 and output.differing_rounded_alike == 0
    assert 0.02 < output.differing / output.values < 0.2
    assert "multiplier of 16 bits" in found.remarks[-1]


def test_scalar_outputs(tmp_path):
    """No axis at all, with given and with random samples."""
    tiny = tiny_graphs.TinyGraph()
    data = tiny.input(1, 7)
    mean = tiny.op("MEAN", data, tiny.constant([0, 1]), shape=(), table="Reducer", keepDims=False)
    path = written(tmp_path, tiny, mean, tiny.op("ABS", data, shape=(1, 7)))
    found = check_micro(path, inputs=RNG.normal(size=(11, 7)).astype("float32"))
    assert found.passed and [output.values for output in found.outputs] == [11, 77]
    assert check_micro(path).passed


@pytest.mark.parametrize("precision", ["int8_full", "int16x8"])
def test_with_the_target_every_bit_is_the_same(tmp_path, precision):
    keras.utils.set_random_seed(11)
    given = keras.Input((17,), name="features")
    hidden = layers.Dense(61, activation="relu")(given)
    model = keras.Model(given, layers.Dense(53, use_bias=False, name="answer")(hidden))
    samples = RNG.normal(size=(101, 17)).astype("float32")
    differing = {}
    for target in ("cpu", "microcontroller"):
        path = tmp_path / f"{target}.tflite"
        options = {"precision": precision, "target": target, "io_dtype": _STEPS[precision]}
        made = tflite.convert(model, path, calibration=samples, verbose=0, **options)
        (output,) = check_micro(path, inputs=samples).outputs
        assert output.values == 101 * 53
        differing[target] = output.differing
        names = tiny_graphs.operator_names(graphs.read_graph(path.read_bytes()))
        assert ("CONV_2D" in names, "FULLY_CONNECTED" in names) == ((True, False), (False, True))[
            target == "cpu"
        ]
        said = "2 products written as convolutions, which tflite-micro rounds as LiteRT does"
        assert (said in made.report.changes.values()) == (target == "microcontroller")
    assert differing["cpu"] > 0 == differing["microcontroller"]


def test_only_products_of_integers_become_convolutions(source):
    content, count = reference.with_convolutions(source.read_bytes())
    names = [tiny_graphs.operator_names(graphs.read_graph(c)) for c in (source.read_bytes(), content)]
    assert count == names[0].count("FULLY_CONNECTED") > 0 == names[1].count("FULLY_CONNECTED")
    tiny = tiny_graphs.TinyGraph()
    y = tiny.op("FULLY_CONNECTED", tiny.input(1, 7), tiny.constant(np.ones((5, 7), np.float32)), shape=(1, 5))
    floats = tiny.finish(y)
    assert reference.with_convolutions(floats) == (floats, 0)


@pytest.mark.parametrize(
    ("name", "words"),
    [("GELU", "has no operator GELU"), ("EXP", r"EXP \(number 0\) failed to prepare"), ("MEAN", "SIGSEGV")],
)
def test_what_the_runtime_refuses(tmp_path, name, words):
    """One that it lacks, one that it has in float alone, and one without axes, which ends its process."""
    tiny = tiny_graphs.TinyGraph()
    x = tiny.quantized(tiny.input(1, 7), 0.1)
    path = written(tmp_path, tiny, tiny.quantized(tiny.op(name, x, shape=(1, 7)), 0.1))
    with pytest.raises(ConversionError, match=rf"tiny\.tflite' can't be run on tflite-micro(.|\n)*{words}"):
        check_micro(path)


def test_damaged_and_missing_files(placed):
    content = placed.read_bytes()
    placed.write_bytes(content[: len(content) // 2])
    with pytest.raises(ConversionError, match="damaged"):
        check_micro(placed)
    placed.write_bytes(b"no model")
    with pytest.raises(ConversionError, match=r"not a \.tflite file"):
        check_micro(placed)
    with pytest.raises(FileNotFoundError, match="absent"):
        check_micro(placed.with_name("absent.tflite"))
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match="`arena_bytes` must be an integer above 0"):
            check_micro(placed, arena_bytes=wrong)


def test_without_the_runtime(placed, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConversionError, match=r'pip install "keras-attention-tflite\[micro\]"'):
        check_micro(placed)


PROGRAM = """
#include <cstdio>
#include <initializer_list>
#include "model.h"
int main() {
  Resolver resolver;
  const int status = RegisterOperators(resolver);
  std::printf("%d %d %d\\n", status, resolver.count, static_cast<int>(kArenaBytes));
  std::int8_t steps = 0;
  for (float value : {-9.0f, -0.5f, 0.0f, 0.1f, 0.7f, 9.0f}) {
    if (QuantizeInput0(value, &steps)) std::printf("%d ", steps);
  }
  std::printf("\\n%.9g\\n", DequantizeOutput0(-100));
  for (const char* label : kOutput0Labels) std::printf("%s\\n", label);
}
"""


def compiled(folder, program, namespace, given=b""):
    """What a program prints that includes the folder's model.h, beside a stub of the resolver."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a compiler: apt-get install g++")
    stub = folder / "tensorflow" / "lite" / "micro" / "micro_mutable_op_resolver.h"
    stub.parent.mkdir(parents=True)
    methods = "".join(
        f"  TfLiteStatus {operators.method(name)}() {{ ++count; return kTfLiteOk; }}\n"
        for name in sorted(operators.OPERATORS)
    )
    stub.write_text(
        "enum TfLiteStatus { kTfLiteOk, kTfLiteError };\nnamespace tflite {\n"
        f"template <unsigned int N> struct MicroMutableOpResolver {{\n  int count = 0;\n{methods}}};\n}}\n"
    )
    text = program.replace("int main() {", f"using namespace {namespace};\nint main() {{")
    (folder / "main.cc").write_text(text)
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{folder}"]
    binary = folder / "program"
    command = [compiler, *flags, str(folder / "main.cc"), "-o", str(binary)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(binary)], input=given, capture_output=True, timeout=30)
    assert done.returncode == 0
    return done.stdout


STEPS = """
#include <cstdio>
#include "model.h"
template <typename T, typename Quantize>
void All(Quantize quantize) {
  float value = 0;
  for (int n = 0; n < COUNT && std::fread(&value, sizeof value, 1, stdin) == 1; ++n) {
    T steps = 77;
    const bool written = quantize(value, &steps);
    std::printf(written ? "%d\\n" : "refused %d\\n", static_cast<int>(steps));
  }
}
int main() {
  All<std::int8_t>(QuantizeInput0);
  All<std::int16_t>(QuantizeInput1);
  All<std::uint8_t>(QuantizeInput2);
  for (int steps = -128; steps < 128; ++steps) std::printf("%.9g\\n", DequantizeOutput0(steps));
}
"""


def beside_ties(scale, low, high, zero_point):
    """Made-up values in the middle between two steps, next to it, and far out."""
    middles = (np.arange(low - 3, high + 4)[:: max(1, (high - low) // 300)] - zero_point + 0.5) * scale
    middles = middles.astype("float32")
    around = [np.nextafter(middles, np.float32(side * np.inf)) for side in (-1, 1)]
    exact = np.array([-scale / 2, scale / 2, 0.0, -0.0, 1e30, -1e30, 1e34], "float32")
    return np.concatenate([middles, *around, exact])


def test_the_header_rounds_as_python_does(tmp_path):
    """Bit by bit, beside ties too, where a quotient in float is another step; NaN is refused."""
    spec = {"name": "x", "shape": [1, 7]}
    kinds = {
        "int8": (0.0123, 3, -128, 127),
        "int16": (0.000731, 0, -32768, 32767),
        "uint8": (0.7, 128, 0, 255),
    }
    inputs = [
        {**spec, "dtype": kind, "scale": float(np.float32(scale)), "zero_point": zero_point}
        for kind, (scale, zero_point, _, _) in kinds.items()
    ]
    found = {"sha256": "", "methods": ["AddAdd"], "arena_bytes": 16, "labels": {}}
    found["interface"] = {"inputs": inputs, "outputs": inputs[:1]}
    (tmp_path / "model.h").write_text(header.render(tmp_path / "model.tflite", found))
    given, wanted, in_float = [], [], 0
    for one, (_, zero_point, low, high) in zip(inputs, kinds.values(), strict=True):
        values = beside_ties(one["scale"], low, high, zero_point)
        known = steps.quantize(values, one["scale"], zero_point, one["dtype"])
        single = np.clip(np.round(values / np.float32(one["scale"])) + zero_point, low, high)
        in_float += int((single != known).sum())
        given.append(np.concatenate([values, np.array([np.nan, np.inf, -np.inf], "float32")]))
        given[-1].resize(2000)
        wanted += [*map(str, known), *["refused 77"] * 3, *[str(zero_point)] * (2000 - len(values) - 3)]
    data = np.concatenate(given).astype("<f4").tobytes()
    lines = compiled(tmp_path, STEPS.replace("COUNT", "2000"), "model_model", data).decode().splitlines()
    assert lines[: len(wanted)] == wanted and in_float > 20
    scale = inputs[0]["scale"]
    real = ((np.arange(-128, 128) - 3) * scale).astype("float32")
    np.testing.assert_array_equal(np.array(lines[len(wanted) :], "float32"), real)


def test_the_header_compiles_and_computes(source, tmp_path):
    """Against a stub of tflite-micro's resolver that has just the methods of the table."""
    odd = Path(shutil.copy(source, tmp_path / '2 grüne "Käse" \\ $(x).tflite'))
    found = check_micro(odd)
    found.write_header(tmp_path / "model.h")
    lines = compiled(tmp_path, PROGRAM, header.namespace(odd)).decode().splitlines()
    assert lines[0].split() == ["0", str(len(found.methods)), str(found.arena_bytes)]
    interface = graphs.interface(graphs.read_graph(odd.read_bytes()))
    spec, answer = interface["inputs"][0], interface["outputs"][0]
    values = np.array([-9.0, -0.5, 0.0, 0.1, 0.7, 9.0], "float32")
    known = steps.quantize(values, spec["scale"], spec["zero_point"], "int8")
    assert lines[1].split() == [str(step) for step in known] and len(set(known)) == 6
    assert float(lines[2]) == pytest.approx((-100 - answer["zero_point"]) * answer["scale"], rel=1e-6)
    assert lines[3:] == LABELS


def test_methods_are_those_of_the_resolver():
    irregular = {
        "CONV_2D": "AddConv2D",
        "BATCH_MATMUL": "AddBatchMatMul",
        "RELU6": "AddRelu6",
        "SPACE_TO_BATCH_ND": "AddSpaceToBatchNd",
        "L2_NORMALIZATION": "AddL2Normalization",
    }
    assert {name: operators.method(name) for name in irregular} == irregular


def test_the_table_is_that_of_the_installed_runtime():
    """Asks the runtime for each operator, each in a forked process, since some end it."""
    program = """
import os, sys
from ai_edge_litert import schema_py_generated as schema
sys.path.insert(0, sys.argv[1])
import integer_runs
integer_runs.without_keras(sys.argv[2])
import tiny_graphs
from tflite_micro import runtime

for name in sorted(vars(schema.BuiltinOperator)):
    if name.startswith(("_", "STABLEHLO")) or name in ("CUSTOM", "DELEGATE", "DILATE", "REDUCE_WINDOW"):
        continue
    tiny = tiny_graphs.TinyGraph()
    content = tiny.finish(tiny.op(name, tiny.input(1, 4), shape=(1, 4)))
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 2)
        try:
            runtime.Interpreter.from_bytes(content, arena_size=100_000)
        except RuntimeError:
            pass
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    if "Didn't find op" not in text:
        print(name)
"""
    folders = [str(Path(tiny_graphs.__file__).parent), str(Path(tflite.__file__).parent)]
    result = subprocess.run(
        [sys.executable, "-c", program, *folders], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert set(result.stdout.split()) - {"PLACEHOLDER_FOR_GREATER_OP_CODES"} == operators.OPERATORS


def test_command(run, source, placed, tmp_path):
    result = run(source, "--cpp", tmp_path / "model.h", "--inputs", source.with_name("samples.npz"))
    assert result.exit_code == 0, result.output
    for words in ("101 (inputs)", "AddConv2D()", "passed", "arena", "does, on 101 samples of yours"):
        assert words in result.output
    assert (tmp_path / "model.h").read_text().startswith("// For tflite-micro, from full.tflite")
    report = Path(shutil.copy(source.with_name("report.json"), tmp_path / "report.json"))
    few = run(source, "--report", report)
    assert few.exit_code == 0 and "does, on 8 golden pairs alone; differences in a few" in few.output
    ((device, rows),) = tflite.Report.read(report).devices.items()
    assert device.startswith("tflite-micro 0.") and rows == check_micro(source).rows()
    change(placed, lambda graph: setattr(graph, "description", b"another"))
    result = run(placed, "--report", report)
    assert result.exit_code == 1 and "report is of another file" in result.output
    shutil.copy(source, placed)
    result = run(placed, "--arena", "1000")
    assert result.exit_code == 1 and "arena of 1,000 bytes is too small" in result.output
    result = run(placed, "--cpp", placed)
    assert result.exit_code == 1 and "would overwrite" in result.output
    assert placed.read_bytes() == source.read_bytes()
    result = run(tmp_path / "absent.tflite")
    assert result.exit_code == 1 and result.output.startswith("Error: ")
