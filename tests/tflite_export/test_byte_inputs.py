"""Inputs of uint8: DEQUANTIZE of step 1 in the place of CAST, and back, the same numbers either way."""

import keras
import numpy as np
import pytest
from tiny_graphs import TinyGraph
from tiny_graphs import operator_names

from keras_attention import tflite
from keras_attention.tflite import byte_inputs
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime

SHAPE = (1, 5, 7)


def cast_graph(kind, *, to="float32", twice=False, read_otherwise=False):
    tiny = TinyGraph()
    x = tiny.input(*SHAPE, kind=kind)
    real = tiny.op("CAST", x, shape=SHAPE, kind=to)
    outputs = [tiny.op("ADD", real, tiny.constant(0.5), shape=SHAPE) if to == "float32" else real]
    if twice:
        outputs.append(tiny.op("CAST", x, shape=SHAPE))
    if read_otherwise:
        outputs.append(tiny.op("RESHAPE", x, tiny.constant([5, 7]), shape=(5, 7), kind=kind))
    return tiny.finish(*outputs)


def changed(content, change):
    graph = graphs.read_graph(content)
    change(graph)
    return graphs.write_graph(graph)


def names(content):
    return operator_names(graphs.read_graph(content))


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("twice", [False, True])
def test_bytes_are_dequantized_and_cast_again(kind, twice):
    content = cast_graph(kind, twice=twice)
    limits = np.iinfo(kind)
    values = np.random.default_rng(5).integers(limits.min, limits.max + 1, SHAPE).astype(kind)
    values.flat[:2] = limits.min, limits.max
    new = changed(content, byte_inputs.dequantize)
    assert sorted(names(new)) == ["ADD", *["DEQUANTIZE"] * (1 + twice)]
    back = changed(new, byte_inputs.cast)
    assert names(back) == names(content)
    for file in (content, new, back):
        for answer, offset in zip(runtime.run_samples(file, {"i0": values}), (0.5, 0.0), strict=False):
            np.testing.assert_array_equal(answer, values.astype(np.float32) + np.float32(offset))


@pytest.mark.parametrize(
    "content",
    [
        cast_graph("int32"),
        cast_graph("uint8", to="int32"),
        cast_graph("uint8", read_otherwise=True),
    ],
    ids=["wider", "to_integers", "read_otherwise"],
)
def test_other_casts_stay(content):
    assert names(changed(content, byte_inputs.dequantize)) == names(content)


def test_a_quantized_input_stays():
    content = changed(cast_graph("uint8"), byte_inputs.dequantize)
    graph = graphs.read_graph(content)
    graph.subgraphs[0].tensors[graph.subgraphs[0].inputs[0]].quantization.scale[0] = 0.5
    assert "DEQUANTIZE" in names(changed(graphs.write_graph(graph), byte_inputs.cast))


@pytest.mark.parametrize("precision", ["float32", "float16", "dynamic", "int8"])
def test_a_model_of_bytes_is_one_piece_and_quantized_again(precision, tmp_path):
    image = keras.Input((11, 13, 3), dtype="uint8", name="image")
    x = keras.layers.Conv2D(17, 3, strides=2)(keras.layers.Rescaling(1 / 127.5, offset=-1)(image))
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(x))
    model = keras.Model(image, keras.layers.Dense(5)(x))
    images = np.random.default_rng(7).integers(0, 256, (32, 11, 13, 3), np.uint8)
    result = tflite.convert(
        model,
        tmp_path / "model.tflite",
        precision=precision,
        calibration=images if precision == "int8" else None,
        evaluation=images,
        verbose=0,
    )
    assert result.report.delegate_partitions == 1 and result.report.fully_delegated
    (entry,) = graphs.interface(graphs.read_graph(result.content))["inputs"]
    assert (entry["dtype"], entry["scale"], entry["zero_point"]) == ("uint8", 1.0, 0)
    findings = {finding.code: finding for finding in tflite.check(tmp_path / "model.tflite")}
    assert "pass the bytes as they are" in str(findings["KA214"])
    if precision == "float32":
        assert "KA209" not in findings, "the file is not quantized"
        again = tflite.quantize(tmp_path / "model.tflite", calibration=images, verbose=0)
        assert again.report.fully_delegated and again.report.sqnr_db > 25


def test_no_cast_is_said_to_stay_float():
    image = keras.Input((5, 7, 3), dtype="uint8", name="image")
    x = keras.layers.Conv2D(4, 3)(keras.layers.Rescaling(1 / 255)(image))
    model = keras.Model(image, keras.layers.Dense(3)(keras.layers.Flatten()(x)))
    images = np.random.default_rng(7).integers(0, 256, (32, 5, 7, 3), np.uint8)
    report = tflite.convert(model, precision="int16x8", calibration=images, verbose=0).report
    assert "DEQUANTIZE" in report.operators and "CAST" not in " ".join(report.remarks)
