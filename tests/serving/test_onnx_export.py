"""ONNX files answer as Keras does: the examples' models, odd names, and what must be refused."""

import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attention import serving
from keras_attention.serving import comparison
from keras_attention.serving import exporting
from keras_attention.serving import packages
from keras_attention.serving import sample_inputs
from keras_attention.serving import tracing
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.model_signature import read_signature

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
onnx = pytest.importorskip("onnx", reason='pip install "keras-attention-tflite[onnx]"')
onnxruntime = pytest.importorskip("onnxruntime", reason='pip install "keras-attention-tflite[onnx]"')


@pytest.fixture(scope="module")
def example_models():
    """Every model of the examples, small, with weights that a training could have left."""
    if not EXAMPLES.is_dir():
        pytest.skip("only in a checkout")
    sys.path.insert(0, str(EXAMPLES))
    try:
        from common import activity_models
        from common import image_models
    finally:
        sys.path.remove(str(EXAMPLES))
    keras.utils.set_random_seed(7)
    mean, variance = np.arange(6.0), np.arange(6.0) + 1
    models = [
        activity_models.transformer(mean, variance, width=8, num_blocks=1),
        activity_models.bahdanau(mean, variance, width=8, units=8),
    ]
    for attention in (None, *image_models.ATTENTIONS):
        models.append(image_models.mobile_cnn((8, 8, 3), 5, attention, width=8, num_stages=1))
    models.append(image_models.vit_tiny((8, 8, 3), 5, width=16, depth=1))
    models.append(image_models.swin_tiny((8, 8, 3), 5, width=16, num_stages=1))
    generator = np.random.default_rng(3)
    for model in models:
        for variable in model.weights:
            if variable.name in ("gamma", "moving_variance"):
                variable.assign(generator.uniform(0.5, 2.0, variable.shape))
            elif variable.name in ("beta", "bias", "moving_mean"):
                variable.assign(generator.normal(0.0, 0.5, variable.shape))
    return models


def test_every_example_model(example_models, tmp_path):
    """All of them in one file, which spares a process for each."""
    inputs = {
        "window": keras.Input(example_models[0].input_shape[1:], name="window"),
        "image": keras.Input((8, 8, 3), name="image"),
    }
    outputs = {model.name: model(inputs[model.inputs[0].name]) for model in example_models}
    assert len(outputs) == 12
    generator = np.random.default_rng(5)
    samples = {
        "window": generator.normal(size=(7, 128, 6)),
        "image": generator.uniform(0.0, 255.0, (7, 8, 8, 3)),
    }
    path = tmp_path / "all.onnx"
    export = serving.export_onnx(keras.Model(inputs, outputs), path, samples=samples, verbose=0)

    assert set(export.errors) == set(outputs)
    assert all(error.max_error <= 1e-4 for error in export.errors.values())
    assert all(error.allowed == 1e-4 for error in export.errors.values()), "all are probabilities"
    assert {"Erf", "LSTM"} <= set(export.operators), "exact GELU, and the whole LSTM as one operator"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    batch = {name: values[:2].astype("float32") for name, values in samples.items()}
    answers = dict(zip(export.errors, session.run(None, batch), strict=True))
    for model in example_models:
        wanted = keras.ops.convert_to_numpy(model(batch[model.inputs[0].name], training=False))
        assert np.ptp(wanted, axis=0).max() > 1e-3, "the answers depend on the sample"
        np.testing.assert_allclose(answers[model.name], wanted, atol=1e-4)


def test_odd_names_and_half_precision(tmp_path):
    """Two inputs with names that mean something elsewhere, a manifest, layers in half precision."""
    names = ["Gewicht (kg) 'ü\"", "Identity:0"]
    inputs = [keras.Input((3,), name=names[0]), keras.Input((), name=names[1], dtype="int32")]
    embedded = keras.layers.Embedding(11, 5, dtype="mixed_float16")(inputs[1])
    joined = keras.layers.Concatenate()([keras.layers.Dense(5, dtype="mixed_float16")(inputs[0]), embedded])
    scores = keras.layers.Dense(2, activation="softmax", dtype="float32")(joined)
    model = keras.Model(inputs, {"</script>": scores, "a/b c": keras.ops.argmax(scores, axis=-1)})
    manifest = {"labels": {"</script>": ["gut", 'ganz "gut"']}, "description": "Zeile\nzwei 🙂"}
    path = tmp_path / "Modell ü.onnx"
    export = serving.export_onnx(model, path, manifest=manifest, max_error=1e-5, verbose=0)

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [(value.name, value.shape) for value in session.get_inputs()] == [
        (names[0], ["batch", 3]),
        (names[1], ["batch"]),
    ]
    assert [value.name for value in session.get_outputs()] == ["</script>", "a/b c"]
    assert [value.shape for value in session.get_outputs()] == [["batch", 2], ["batch"]]
    kept = session.get_modelmeta().custom_metadata_map
    assert kept["description"] == "Zeile\nzwei 🙂"
    assert kept["labels"] == '{"</script>": ["gut", "ganz \\"gut\\""]}'
    assert any("mixed_float16" in remark for remark in export.remarks)
    assert export.samples[names[1]].max() > 5, "tokens from the whole vocabulary"
    with pytest.raises(FileExistsError, match="--overwrite"):
        serving.export_onnx(model, path, verbose=0)


def test_a_wrong_graph_is_caught(monkeypatch, tmp_path):
    """The file is that of a model whose weights are a little off; the child that makes it is played."""
    inputs = keras.Input((5,), name="x")
    model = keras.Model(inputs, keras.layers.Dense(3, activation="tanh", name="y")(inputs))
    kernel, bias = model.get_weights()

    def run_job(folder, job, progress, *, ahead):
        with np.load(folder / "samples.npz") as data:
            values = data["arr_0"]
        np.savez(folder / "answers_single.npz", np.tanh(values @ kernel + bias)[:3])
        np.savez(folder / "answers_batch.npz", np.tanh(values @ (kernel + 0.01) + bias))
        (folder / "model.onnx").write_bytes(b"")
        return {}

    monkeypatch.setattr(exporting.child, "run_job", run_job)
    path = tmp_path / "wrong.onnx"
    with pytest.raises(ConversionError, match=r"'y' by 0\.0\d+, where 0\.0001 is allowed"):
        serving.export_onnx(model, path, verbose=0)
    assert not path.exists()


@pytest.fixture
def convert():
    """The conversion in this process: what it refuses needs no child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the converter's own, of NumPy and protobuf
        from keras_attention.serving import onnx_conversion

        def convert(model, output_shapes=((5,),)):
            signature = read_signature(model)
            frozen = tracing.freeze(model, signature, None)
            return onnx_conversion.convert(
                frozen.content,
                dict(zip(frozen.inputs, signature.names(), strict=True)),
                dict(zip(frozen.outputs, frozen.names, strict=True)),
                opset=18,
                output_shapes=output_shapes,
                batch_size=None,
                metadata={},
            )

        yield convert


def test_argmax_prefers_zero_to_negative_zero(convert):
    """Keras looks at the sign bit, which ONNX can't read."""
    inputs = keras.Input((5,), name="x")
    model = keras.Model(
        inputs, [keras.ops.argmax(inputs, axis=-1), keras.ops.cast(keras.ops.signbit(inputs), "int32")]
    )
    session = onnxruntime.InferenceSession(convert(model, [(), (5,)]), providers=["CPUExecutionProvider"])
    values = np.array([[-0.0, -1.0, 0.0, -np.inf, -2.0], [-3.0, np.inf, 1.0, 0.0, 7.0]], "float32")
    classes, signs = session.run(None, {"x": values})
    assert classes.tolist() == [2, 1]
    assert signs.tolist() == [[1, 1, 0, 1, 1], [1, 0, 0, 0, 0]]


class _Unknown(keras.Layer):
    def call(self, inputs):
        return keras.ops.erfinv(keras.ops.tanh(inputs))


class _Python(keras.Layer):
    def call(self, inputs):
        import tensorflow as tf

        return tf.ensure_shape(tf.numpy_function(np.sin, [inputs], tf.float32), inputs.shape)


class _Branching(keras.Layer):
    def call(self, inputs):
        return inputs if bool(keras.ops.sum(inputs) > 0) else -inputs

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape, inputs.dtype)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (_Unknown, r"doesn't have: Erfinv \(at '.*guilty.*'\)"),
        (_Python, "'.*guilty.*' calls a Python function"),
    ],
)
def test_operators_that_a_server_lacks(convert, layer, message):
    model = keras.Sequential([keras.Input((5,)), layer(name="guilty")])
    with pytest.raises(ValueError, match=message):
        convert(model)


def test_a_condition_of_python(tmp_path):
    model = keras.Sequential([keras.Input((5,)), _Branching()])
    with pytest.raises(ConversionError, match=r"(?s)can't be traced.*Python `bool`.*keras\.ops\.where"):
        serving.export_onnx(model, tmp_path / "x.onnx", verbose=0)


def test_states_are_refused(tmp_path):
    model = keras.Sequential(
        [keras.Input(batch_shape=(1, 4, 3)), keras.layers.LSTM(2, stateful=True, name="memory")]
    )
    with pytest.raises(ConversionError, match=r"'.*memory' is stateful"):
        serving.export_onnx(model, tmp_path / "x.onnx", verbose=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opset": 9}, "`opset` must be an integer from 15 to 18. Received: 9"),
        ({"batch_size": 0}, "`batch_size` must be an integer >= 1 or None. Received: 0"),
        ({"max_error": float("nan")}, "`max_error` must be a finite number above 0. Received: nan"),
        ({"max_error": True}, "`max_error` must be a finite number above 0. Received: True"),
    ],
)
def test_wrong_arguments(arguments, message):
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match=message):
        serving.export_onnx(model, verbose=0, **arguments)


def test_a_missing_package(monkeypatch):
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConversionError, match=r'pip install "keras-attention-tflite\[onnx\]"'):
        serving.export_onnx(keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)]), verbose=0)


def test_random_samples_are_in_the_range_of_the_model():
    """Pixels for a model that scales them, raw readings for one that normalizes them."""
    pixels, readings = keras.Input((7, 5, 3), name="pixels"), keras.Input((13,), name="readings")
    levels = keras.Input((7, 5, 3), name="levels", dtype="uint8")
    layers = keras.layers
    outputs = [
        layers.Rescaling(1 / 127.5, offset=-1)(pixels),
        layers.Normalization(mean=900.0, variance=4.0)(readings),
        layers.Rescaling(1 / 255)(levels),
    ]
    model = keras.Model({"pixels": pixels, "readings": readings, "levels": levels}, outputs)
    inputs = sample_inputs.make(model, read_signature(model), 11).inputs
    assert 0 <= inputs["pixels"].min() < 40
    assert 215 < inputs["pixels"].max() <= 255
    assert abs(inputs["readings"].mean() - 900) < 1
    assert 1.5 < inputs["readings"].std() < 2.5
    assert inputs["levels"].max() > 250


def test_the_bound_grows_with_the_answers_and_integers_are_counted():
    reference = comparison.Answers(
        [np.array([[100.0, -400.0]]), np.array([[3, 5, 7, 11]])], ["value", "class"]
    )
    result = [np.array([[100.0, -400.03]]), np.array([[3, 5, 7, 13]])]
    errors = comparison.compare(reference, [result], 1e-4)
    assert errors["value"].allowed == pytest.approx(0.04)
    assert errors["value"].max_error == pytest.approx(0.03)
    assert errors["class"].max_error == 0.25
    with pytest.raises(ConversionError, match=r"'class' by 0\.25, where 0\.01 is allowed"):
        comparison.check(errors, "The file")
    lost = comparison.compare(reference, [[np.array([[np.nan, 0.0]]), result[1]]], 1e-4)
    with pytest.raises(ConversionError, match="'value' by inf"):
        comparison.check(lost, "The file")
