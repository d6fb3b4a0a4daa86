"""The predicted size of a file with unrolled layers is that of the real file, within 20 %."""

from typing import get_args

import keras
import numpy as np
import pytest
from keras import layers

from keras_attention.tflite import convert
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite import loop_rules
from keras_attention.tflite import quantization
from keras_attention.tflite import saved_model
from keras_attention.tflite import tensorflow_converter
from keras_attention.tflite.arguments import Precision
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.jobs.convert import prepare
from keras_attention.tflite.model_signature import read_signature
from keras_attention.tflite.size_prediction import predict_file_bytes
from keras_attention.tflite.size_prediction import predict_unrolled_bytes

TOLERANCE = 0.2
LAYERS = {
    "lstm": lambda: layers.LSTM(53),
    "gru_sequences": lambda: layers.GRU(19, return_sequences=True),
    "gru_reset_before": lambda: layers.GRU(19, reset_after=False),
    "simple": lambda: layers.SimpleRNN(17),
    "both_ways": lambda: layers.Bidirectional(layers.LSTM(23, return_sequences=True)),
    "stack": lambda: layers.RNN([layers.LSTMCell(13), layers.GRUCell(11)]),
}


def model_of(layer, length, masking=False):
    inputs = keras.Input((length, 5), name="x")
    return keras.Model(inputs, layer(layers.Masking()(inputs) if masking else inputs))


def files_of(model, folder):
    """The file in every precision, and the record of the lowering."""
    signature = read_signature(model)
    outputs, lowering = saved_model.export_saved_model(model, signature, folder, 512)
    names = layer_names.of_model(model.layers)
    content = prepare(tensorflow_converter.convert_saved_model(folder), signature.names(), outputs, names)
    (spec,) = signature.inputs
    samples = {spec.name: np.random.default_rng(3).normal(size=(17, *spec.shape)).astype(np.float32)}
    contents = {
        precision: quantization.quantize(
            content, precision, samples, io_dtype="int8" if precision == "int8_full" else "float32"
        ).content
        for precision in get_args(Precision)
        if precision != "auto"
    }
    stripped = {}
    for precision, content in contents.items():
        graph = graphs.read_graph(content)
        graphs.strip_names(graph)
        stripped[precision] = graphs.write_graph(graph)
    return stripped, lowering


@pytest.mark.filterwarnings("ignore::UserWarning")  # TensorFlow's own, which a user sees in no process of his
@pytest.mark.parametrize(("name", "masking"), [*((name, False) for name in LAYERS), ("both_ways", True)])
def test_prediction(name, masking, tmp_path):
    length = 13
    model = model_of(layer := LAYERS[name](), length, masking)
    contents, lowering = files_of(model, tmp_path / "saved_model")
    size = predict_unrolled_bytes(layer, length, is_masked=masking)
    assert sum(lowering.sizes.values()) == pytest.approx(size, abs=2)
    for precision, content in contents.items():
        predicted = predict_file_bytes(model, size, precision)
        assert predicted == pytest.approx(len(content), rel=TOLERANCE), precision
    assert len(contents["float16"]) < len(contents["float32"])


def test_int8_and_the_report(converted):
    for name, precision in (("wide_lstm", "int8"), ("conv_lstm", "int8")):
        report = converted(name, precision).result.report
        assert report.predicted_size_bytes == pytest.approx(report.size_bytes, rel=TOLERANCE)
    assert converted("dense", "int8").result.report.predicted_size_bytes == 0


@pytest.mark.parametrize("precision", ["dynamic", "int8"])
def test_refusal_names_layer_steps_size_and_cure(precision):
    with pytest.raises(ConversionError) as caught:
        loop_rules.check_loops({"tower/memory": 700}, {"tower/memory": 1_234_567}, precision, 512)
    for part in ("'tower/memory'", "700 steps", "max_unrolled_steps=512", "1.2 MB", "max_unrolled_steps=700"):
        assert part in str(caught.value)


def test_a_long_loop_in_float_is_remarked_upon():
    (remark,) = loop_rules.check_loops({"memory": 700}, {"memory": 900_000}, "float32", 512)
    assert "'memory' keeps its loop over 700 steps" in remark
    assert "max_unrolled_steps=700, which adds about 0.9 MB" in remark


def test_the_refusal_of_convert_has_the_predicted_size():
    model = model_of(layers.LSTM(7, name="memory"), 23)
    wanted = predict_unrolled_bytes(model.get_layer("memory"), 23)
    assert 20_000 < wanted < 40_000
    with pytest.raises(ConversionError, match=rf"adds about {wanted / 1e6:.2g} MB to the file"):
        convert(model, precision="dynamic", max_unrolled_steps=22, verbose=0)
