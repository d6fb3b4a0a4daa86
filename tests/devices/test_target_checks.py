"""`check(target=...)`: for each rule files that break it, and files that don't."""

import click.testing
import keras
import numpy as np
import pytest
import tiny_graphs
from ai_edge_litert import schema_py_generated as schema
from keras import layers

from keras_attention.tflite import check
from keras_attention.tflite import command_line
from keras_attention.tflite.linting import file_rules
from keras_attention.tflite.linting import registry

RELU = schema.ActivationFunctionType.RELU
CONVOLUTION = {"table": "Conv2D", "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}


class Integers(tiny_graphs.TinyGraph):
    """A file whose operators compute in int8."""

    def data(self, *shape):
        return self.quantized(self.input(*shape), 0.1)

    def stored(self, *shape, value=1):
        index = self.constant(np.zeros(shape, np.float32))
        return self.quantized(index, 0.1, values=np.full(shape, value))

    def result(self, name, *inputs, shape, scale=0.1, **options):
        return self.quantized(self.op(name, *inputs, shape=shape, **options), scale)


def one(name, *extra, source=(1, 8), shape=None, **options):
    """A file of one operator on int8; `extra` are further inputs, as numbers."""

    def build():
        g = Integers()
        inputs = [g.data(*source), *(g.constant(values) for values in extra)]
        return g.finish(g.result(name, *inputs, shape=shape or source, **options))

    return build


def floats(name="TANH"):
    def build():
        g = tiny_graphs.TinyGraph()
        return g.finish(g.op(name, g.input(1, 8), shape=(1, 8)))

    return build


def float_sides():
    """QUANTIZE, an int8 ADD, DEQUANTIZE."""
    g = Integers()
    x = g.result("QUANTIZE", g.input(1, 8), shape=(1, 8))
    total = g.result("ADD", x, x, shape=(1, 8), scale=0.2)
    return g.finish(g.op("DEQUANTIZE", total, shape=(1, 8)))


def convolution(dilation=(1, 1), hybrid=False):
    def build():
        g = Integers()
        x = g.input(1, 8, 8, 3) if hybrid else g.data(1, 8, 8, 3)
        inputs = [x, g.stored(5, 3, 3, 3)]
        options = {**CONVOLUTION, "dilationHFactor": dilation[0], "dilationWFactor": dilation[1]}
        y = g.op("CONV_2D", *inputs, shape=(1, 8, 8, 5), **options)
        return g.finish(y if hybrid else g.quantized(y, 0.1))

    return build


def joined(value, count=1):
    def build():
        g = Integers()
        parts = [g.data(1, 8), *(g.stored(1, 8, value=value) for _ in range(count))]
        return g.finish(g.result("CONCATENATION", *parts, shape=(1, 8 * len(parts)), axis=1))

    return build


def sloped(*shape):
    def build():
        g = Integers()
        return g.finish(g.result("PRELU", g.data(1, 4, 4, 8), g.stored(*shape), shape=(1, 4, 4, 8)))

    return build


def packed(axis):
    def build():
        g = Integers()
        return g.finish(
            g.result("PACK", g.data(1, 8), g.data(1, 8), shape=(2, 1, 8), axis=axis, valuesCount=2)
        )

    return build


def split(axis):
    def build():
        g = Integers()
        parts = g.op("SPLIT", g.constant(np.int32(axis)), g.data(2, 8), shape=[(1, 8), (1, 8)], numSplits=2)
        return g.finish(*(g.quantized(part, 0.1) for part in parts))

    return build


def sliced(stride, mask=0):
    numbers = ([0, 0], [1, 8], [1, stride])
    return one("STRIDED_SLICE", *numbers, shape=(1, 8 // stride), newAxisMask=mask)


def dense(*rows):
    def build():
        g = Integers()
        x, weights = g.data(*rows, 7), g.stored(5, 7)
        return g.finish(g.result("FULLY_CONNECTED", x, weights, shape=(*rows, 5), keepNumDims=True))

    return build


def cut_at_six(scale):
    def build():
        g = Integers()
        return g.finish(g.result("RELU6", g.data(1, 8), shape=(1, 8), scale=scale))

    return build


def open_size():
    g = Integers()
    x = g.data(1, 8)
    g.subgraph.tensors[x].shapeSignature = [-1, 8]
    return g.finish(g.result("TANH", x, shape=(1, 8)))


def unpacked_halves():
    g = tiny_graphs.TinyGraph()
    half = g.constant(np.ones((1, 8), np.float32))
    g.subgraph.tensors[half].type = schema.TensorType.FLOAT16
    g.graph.buffers[g.subgraph.tensors[half].buffer].data = np.ones(16, np.uint8)
    weights = g.op("DEQUANTIZE", half, shape=(1, 8))
    return g.finish(g.op("ADD", g.input(1, 8), weights, shape=(1, 8)))


def in_sixteen_bits():
    g = Integers()
    y = g.result("REDUCE_MAX", g.data(1, 8), g.constant([1]), shape=(1,))
    for index in (*g.subgraph.inputs, y):
        g.subgraph.tensors[index].type = schema.TensorType.INT16
    return g.finish(y)


POOLED = {"table": "Pool2D", "source": (1, 4, 4, 8)}
FINE = one("ADD", 1.0)
TANH = one("TANH")
CASES = {
    "KA301": (
        [(floats(), "error: TANH: reads or writes float32"), (float_sides, "note: QUANTIZE: CPU")],
        [TANH, dense(1)],
    ),
    "KA302": (
        [
            (one("ELU"), "warning: ELU (operator 0): no such operator"),
            (one("BATCH_MATMUL"), "warning: BATCH"),
        ],
        [TANH, float_sides],
    ),
    "KA303": (
        [
            (one("MAX_POOL_2D", fusedActivationFunction=RELU, **POOLED), "warning: MAX: fused activation"),
            (convolution((1, 2)), "warning: CONV_2D: dilated by (1, 2)"),
            (joined(1), "warning: CONCATENATION: zeros"),
            (joined(0, 2), "warning: CONCATENATION: one of two"),
            (dense(1, 3), "warning: FULLY_CONNECTED: [1, 3, 5]"),
            (one("SOFTMAX", source=(1, 3, 8)), "warning: SOFTMAX: [1, 3, 8]"),
            (one("SOFTMAX", source=(1, 16_001)), "warning: SOFTMAX: 16,000"),
            (one("SUM", [0], source=(2, 8), shape=(8,)), "warning: SUM: batch"),
            (one("MEAN", [-1], source=(1, 3, 7), shape=(1, 3)), "warning: MEAN: multiple of 4"),
            (packed(0), "warning: PACK: batch"),
            (split(0), "warning: SPLIT: batch"),
            (one("PAD", [[1, 0], [0, 0]], shape=(2, 8)), "warning: PAD: batch"),
            (sloped(1, 4, 8), "warning: PRELU: [1, 4, 8]"),
            (sliced(2), "warning: STRIDED_SLICE: steps"),
            (sliced(1, mask=1), "warning: STRIDED_SLICE: new axis"),
        ],
        [
            one("MAX_POOL_2D", **POOLED),
            convolution((2, 2)),
            joined(0),
            dense(1),
            one("SOFTMAX", source=(1, 16_000)),
            one("SUM", [1], shape=(1,)),
            one("MEAN", [2], source=(1, 3, 8), shape=(1, 3)),
            one("MEAN", [1], source=(1, 3, 7), shape=(1, 7)),
            packed(1),
            split(1),
            one("PAD", [[0, 0], [1, 0]], shape=(1, 9)),
            sloped(1, 1, 8),
            sliced(1),
        ],
    ),
    "KA304": (
        [
            (open_size, "warning: TANH: open size"),
            (one("TANH", source=(2, 3, 4, 5)), "warning: [2, 3, 4, 5]"),
        ],
        [one("TANH", source=(1, 3, 4, 5)), one("TANH", source=(3, 4, 5))],
    ),
    "KA305": (
        [(TANH, "note: file: all 1 operators"), (one("ELU"), "note: ELU: 0 of 1")],
        [lambda: Integers().finish()],
    ),
    "KA401": (
        [
            (one("GELU"), "error: GELU (operator 0): refuses"),
            (one("TILE", [1, 2], shape=(1, 16)), "error: TILE"),
        ],
        [TANH, one("ELU")],
    ),
    "KA402": (
        [
            (one("EXP"), "error: EXP: only in float"),
            (convolution(hybrid=True), "error: CONV_2D: found at run time"),
            (unpacked_halves, "error: DEQUANTIZE: float16"),
            (in_sixteen_bits, "error: REDUCE_MAX: int16"),
            (open_size, "error: input: [-1, 8]"),
        ],
        [TANH, convolution(), floats("EXP"), float_sides, one("REDUCE_MAX", [1], shape=(1,))],
    ),
    "KA403": ([(cut_at_six(6 / 255), "error: RELU6 (operator 0): scale")], [cut_at_six(0.1), TANH]),
    "KA404": (
        [(floats(), "warning: 1 operators: 1 TANH"), (unpacked_halves, "warning: 2 operators: DEQUANTIZE")],
        [TANH],
    ),
    "KA405": ([(TANH, "note: file: 16 bytes of RAM")], [lambda: Integers().finish()]),
}


def target_of(code):
    return "edgetpu" if code.startswith("KA3") else "microcontroller"


def found(code, content):
    findings = file_rules.check_content(content, target_of(code))
    return [finding for finding in findings if finding.code == code]


def pairs(side):
    return [
        pytest.param(code, case, id=f"{code}-{number}")
        for code, cases in CASES.items()
        for number, case in enumerate(cases[side])
    ]


@pytest.mark.parametrize(("code", "case"), pairs(0))
def test_fault_is_found(code, case):
    build, words = case
    findings = found(code, build())
    assert findings, "nothing was found"
    severity, *places, message = (part.strip() for part in words.split(":"))
    text = " ".join(f"{finding.where} {finding.message} {finding.cure}" for finding in findings)
    assert {finding.severity for finding in findings} == {severity}
    assert all(part in text for part in (*places, message)), text


@pytest.mark.parametrize(("code", "build"), pairs(1))
def test_sound_file_is_left_alone(code, build):
    assert found(code, build()) == []


def test_every_rule_has_a_case():
    assert {code for code in registry.TITLES if code[:3] in ("KA3", "KA4")} == set(CASES)


def test_the_first_operator_that_stops_the_compiler():
    """TANH, ELU, TANH, behind a QUANTIZE that the CPU does."""
    g = Integers()
    x = g.result("QUANTIZE", g.input(1, 8), shape=(1, 8))
    for name in ("TANH", "ELU", "TANH"):
        x = g.result(name, x, shape=(1, 8))
    (note,) = found("KA305", g.finish(x))
    assert note.where == "ELU (operator 2)" and "1 of 3 operators" in note.message


def test_the_most_that_is_held_at_once():
    """x of 8 bytes is read by both products; of these and their sum three are there at once."""
    g = Integers()
    x = g.data(1, 8)
    first = g.result("MUL", x, x, shape=(1, 8))
    second = g.result("MUL", x, first, shape=(1, 8))
    (note,) = found("KA405", g.finish(g.result("ADD", first, second, shape=(1, 8))))
    assert "take 24 bytes of RAM" in note.message


def test_a_target_has_its_own_rules(tmp_path):
    """What speaks of phones is left out, what speaks of the file stays."""
    path = tmp_path / "tiny.tflite"
    path.write_bytes(one("TANH", source=(2, 1, 3, 5, 7))())
    codes = {target: [f.code for f in check(path, target=target)] for target in (None, *registry.TARGETS)}
    assert {"KA204", "KA215"} <= set(codes[None]) and not {"KA3", "KA4"} & {c[:3] for c in codes[None]}
    assert set(codes["edgetpu"]) == {"KA214", "KA304", "KA305"}
    assert set(codes["microcontroller"]) == {"KA214", "KA405"}
    assert [f.code for f in check(path, target="edgetpu", select=["KA304"])] == ["KA304"]


def test_wrong_targets(tmp_path):
    path = tmp_path / "tiny.tflite"
    path.write_bytes(TANH())
    with pytest.raises(ValueError, match=r"`target` must be None or one of \('edgetpu', .*Received: 'phone'"):
        check(path, target="phone")
    window = keras.Input((7,))
    with pytest.raises(ValueError, match=r"is for the path of a \.tflite file"):
        check(keras.Model(window, layers.Dense(3)(window)), target="edgetpu")
    absent = tmp_path / ("a long name " * 9) / "absent.tflite"
    with pytest.raises(FileNotFoundError, match=r"`model_or_path` must be .*absent\.tflite"):
        check(absent, target="edgetpu")
    keras_file = tmp_path / f"{'k' * 99}.keras"
    keras_file.write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"Received: .*kkk\.keras"):
        check(keras_file, target="edgetpu")


def test_command(tmp_path):
    path = tmp_path / "tiny.tflite"
    path.write_bytes(one("GELU")())
    run = click.testing.CliRunner().invoke
    assert run(command_line.main, ["check", str(path)]).exit_code == 0
    result = run(command_line.main, ["check", str(path), "--target", "microcontroller"])
    assert result.exit_code == 1 and "KA401" in result.output
