"""Several models in one file."""

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from keras import layers

from keras_attention.tflite import ConversionError
from keras_attention.tflite import convert_signatures
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import inspect
from keras_attention.tflite import merging
from keras_attention.tflite import saved_model
from keras_attention.tflite import signatures
from keras_attention.tflite import tensorflow_converter
from keras_attention.tflite.jobs import signatures as job
from keras_attention.tflite.model_signature import read_signature


def encoder_and_step():
    """Two models with a shared layer that holds most of the weights."""
    keras.utils.set_random_seed(3)
    frame = keras.Input((61,), name="frame")
    shared = layers.Dense(97, activation="relu", name="shared")
    encoder = keras.Model(frame, layers.Dense(5, name="code")(shared(frame)))
    state = keras.Input((7,), name="state")
    hidden = layers.GRUCell(7, name="cell")(shared(frame), state)[0]
    step = keras.Model([frame, state], {"answer": layers.Dense(3)(hidden), "next": hidden})
    return encoder, step


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_two_models(precision, tmp_path):
    encoder, step = encoder_and_step()
    rng = np.random.default_rng(4)
    frames = rng.normal(size=(67, 61)).astype(np.float32)
    states = rng.uniform(-1, 1, (67, 7)).astype(np.float32)
    path = tmp_path / "both.tflite"
    result = convert_signatures(
        {"encode": encoder, "step": step},
        path,
        precision=precision,
        calibration={"encode": frames, "step": [frames, states]},
        verbose=0,
    )
    assert path.read_bytes() == result.content
    assert list(result.reports) == ["encode", "step"]
    assert inspect(path).signatures == ("encode", "step")
    alone = sum(report.size_bytes for report in result.reports.values())
    assert len(result.content) < alone - (61 * 97 * 4 if precision == "float32" else 61 * 97)
    tolerance = 1e-5 if precision == "float32" else 0.05
    interpreter = Interpreter(model_path=str(path))
    code = interpreter.get_signature_runner("encode")(frame=frames[:1])["code"]
    np.testing.assert_allclose(code, encoder(frames[:1]), atol=tolerance)
    outputs = interpreter.get_signature_runner("step")(frame=frames[:1], state=states[:1])
    expected = step([frames[:1], states[:1]])
    assert set(outputs) == {"answer", "next"}
    for name, values in outputs.items():
        np.testing.assert_allclose(values, expected[name], atol=tolerance)


def loop_file(folder):
    """A file whose recurrent layer kept its loop, two inner graphs."""
    inputs = keras.Input((5, 3), name="steps")
    model = keras.Model(inputs, layers.GRU(11)(inputs))
    signature = read_signature(model)
    outputs, lowering = saved_model.export_saved_model(model, signature, folder, 0)
    assert list(lowering.loops.values()) == [5]
    graph = graphs.read_graph(tensorflow_converter.convert_saved_model(folder))
    graphs.set_interface(graph, signature.names(), outputs)
    assert len(graph.subgraphs) == 3
    return graphs.write_graph(graph)


@pytest.mark.filterwarnings("ignore::UserWarning")  # TensorFlow's own, which a user sees in no process of his
def test_files_whose_parts_have_other_numbers_in_each(float_file, tmp_path):
    """Four files, one of them twice and one with inner graphs."""
    contents = {"a": float_file("dense"), "b": float_file("lstm"), "c": float_file("dense")}
    contents["d"] = loop_file(tmp_path / "saved_model")
    merged = merging.merge(contents)
    graph = graphs.read_graph(merged)
    assert graphs.signature_names(graph) == ["a", "b", "c", "d"]
    assert len(merged) < sum(len(contents[name]) for name in "abd") + 2_000
    (tmp_path / "merged.tflite").write_bytes(merged)
    for number, content in enumerate(contents.values()):
        (tmp_path / f"{number}.tflite").write_bytes(content)
    assert job.run(tmp_path, {"signatures": list(contents)}, lambda *_: None) == {}

    (tmp_path / "0.tflite").write_bytes(_with_other_weights(contents["a"]))
    with pytest.raises(ValueError, match="signature 'a' answers otherwise in the merged file than alone"):
        job.run(tmp_path, {"signatures": list(contents)}, lambda *_: None)


def _with_other_weights(content):
    graph = graphs.read_graph(content)
    largest = max(graph.buffers, key=lambda buffer: 0 if buffer.data is None else len(buffer.data))
    largest.data = np.roll(largest.data, 4)
    return graphs.write_graph(graph)


def test_inner_graphs_are_renumbered():
    class Options:
        condSubgraphIndex = 1
        bodySubgraphIndex = 2
        other = 5

    merging._shift(options := Options(), 3)
    assert (options.condSubgraphIndex, options.bodySubgraphIndex, options.other) == (4, 5, 5)
    merging._shift(None, 3)


@pytest.mark.parametrize(
    ("models", "data", "error", "message"),
    [
        ([], None, TypeError, "`models` must map signatures to models.*Received: list"),
        ({}, None, TypeError, "`models` must map"),
        ({"a b": None}, None, ValueError, "must be names of letters.*Received: 'a b'"),
        ({"a": None}, {"b": 1}, ValueError, r"`calibration` must map signatures.*\['a'\].*Received: \['b'\]"),
        ({"a": None}, np.zeros(3), ValueError, "`calibration` must map .*Received: ndarray"),
    ],
)
def test_wrong_arguments(models, data, error, message):
    with pytest.raises(error, match=message):
        convert_signatures(models, calibration=data)


def test_an_unequal_merge_is_not_written(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise ConversionError("signature 'encode' answers otherwise")

    monkeypatch.setattr(signatures.child, "run_job", fails)
    monkeypatch.setattr(signatures, "convert", lambda model, **_: model)
    monkeypatch.setattr(signatures.merging, "merge", lambda contents: b"merged")
    path = tmp_path / "both.tflite"
    with pytest.raises(ConversionError, match="answers otherwise"):
        convert_signatures({"encode": _Converted()}, path)
    assert not path.exists()


class _Converted:
    content = b"single"
    report = None
