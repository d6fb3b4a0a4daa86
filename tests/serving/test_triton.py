"""A Triton repository: its configuration against Triton's message, versions, labels, refusals."""

import importlib.util
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attention import serving
from keras_attention.serving import triton_config
from keras_attention.serving.onnx_export import OnnxExport
from keras_attention.tflite.model_signature import TensorSpec


def load_schema():
    """Triton's `ModelConfig`, of the client's package, whose gRPC side needs not be installed."""
    found = importlib.util.find_spec("tritonclient")
    if found is None:
        pytest.skip("tritonclient is missing: pip install tritonclient")
    (folder,) = found.submodule_search_locations
    path = Path(folder) / "grpc" / "model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("model_config_pb2", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_export(**changes):
    """What `export_onnx` returns, without the work."""
    given = {
        "name": "Übung 1",
        "path": None,
        "content": b"the model",
        "batch_size": None,
        "inputs": (TensorSpec("window", (128, 6), "float32"), TensorSpec("age", (), "int32")),
        "outputs": (TensorSpec('class "name"', (7,), "float32"), TensorSpec("map", (32,), "float32")),
        "entries": {"labels": {'class "name"': [f"Übung {number}" for number in range(7)]}},
        **changes,
    }
    fields = OnnxExport.__dataclass_fields__
    empty = {name: () for name in fields if name not in given}
    return OnnxExport(**{**empty, **given})


def test_the_configuration_is_one_of_triton(tmp_path):
    from google.protobuf import text_format

    schema = load_schema()
    folder = serving.write_triton_repository(
        make_export(), tmp_path, max_batch_size=8, preferred_batch_sizes=[4, 8], instances=2, kind="cpu"
    )
    assert folder == tmp_path / "bung_1" / "1"
    assert (folder / "model.onnx").read_bytes() == b"the model"
    config = text_format.Parse((folder.parent / "config.pbtxt").read_text(), schema.ModelConfig())
    assert (config.name, config.backend, config.max_batch_size) == ("bung_1", "onnxruntime", 8)
    window, age = config.input
    assert (window.name, window.data_type, list(window.dims)) == ("window", schema.TYPE_FP32, [128, 6])
    assert (age.data_type, list(age.dims), list(age.reshape.shape)) == (schema.TYPE_INT32, [1], [])
    assert age.HasField("reshape"), "a value for each sample has no axis in the file"
    classes, where = config.output
    assert (classes.name, list(classes.dims), list(where.dims)) == ('class "name"', [7], [32])
    assert not where.label_filename
    labels = (folder.parent / classes.label_filename).read_text(encoding="utf-8").splitlines()
    assert labels == [f"Übung {number}" for number in range(7)]
    assert list(config.dynamic_batching.preferred_batch_size) == [4, 8]
    assert (config.instance_group[0].count, config.instance_group[0].kind) == (
        2,
        schema.ModelInstanceGroup.KIND_CPU,
    )


def test_the_messages_have_the_numbers_of_triton():
    schema = load_schema()
    for name, fields in triton_config.MESSAGES.items():
        known = getattr(schema, name).DESCRIPTOR.fields_by_name
        assert {field: number for field, (number, _) in fields.items()} == {
            field: known[field].number for field in fields
        }
    for name in triton_config.DATA_TYPES.values():
        assert (
            schema.DataType.Value(name)
            == triton_config.new().DESCRIPTOR.file.enum_types_by_name["DataType"].values_by_name[name].number
        )


def test_a_fixed_batch_is_part_of_the_shape(tmp_path):
    folder = serving.write_triton_repository(make_export(batch_size=4), tmp_path, name="fixed")
    config = triton_config.parse((folder.parent / "config.pbtxt").read_text())
    assert (config.max_batch_size, list(config.input[0].dims)) == (0, [4, 128, 6])
    assert list(config.input[1].dims) == [4]
    assert not config.HasField("dynamic_batching")


def test_versions_are_added_and_never_changed(tmp_path):
    first = serving.write_triton_repository(make_export(), tmp_path, name="m")
    config = first.parent / "config.pbtxt"
    settings = config.read_text().replace("max_batch_size: 32", "max_batch_size: 16")
    config.write_text(settings)
    second = serving.write_triton_repository(make_export(content=b"trained again"), tmp_path, name="m")
    assert (first.name, second.name) == ("1", "2")
    assert (first / "model.onnx").read_bytes() == b"the model"
    assert (second / "model.onnx").read_bytes() == b"trained again"
    assert config.read_text() == settings
    with pytest.raises(FileExistsError, match=r"Version 2 of 'm' exists already.*Leave `version` out for 3"):
        serving.write_triton_repository(make_export(), tmp_path, name="m", version=2)
    other = make_export(inputs=(TensorSpec("window", (64, 6), "float32"),))
    with pytest.raises(FileExistsError, match="describes a model with other inputs"):
        serving.write_triton_repository(other, tmp_path, name="m")
    relabelled = make_export(entries={"labels": {'class "name"': list("abcdefg")}})
    with pytest.raises(FileExistsError, match="holds other labels"):
        serving.write_triton_repository(relabelled, tmp_path, name="m")
    assert sorted(path.name for path in first.parent.iterdir()) == ["1", "2", "config.pbtxt", "labels_0.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "../up"}, r"`name` must be 1 to 128 letters.*Pass 'up', for example"),
        ({"name": ""}, r"`name` must be 1 to 128 letters.*Pass 'model'"),
        ({"version": 0}, r"`version` must be an integer from 1"),
        ({"max_batch_size": True}, r"`max_batch_size` must be an integer"),
        ({"max_batch_size": 4, "preferred_batch_sizes": [8]}, r"must not exceed max_batch_size=4"),
        ({"max_queue_delay_microseconds": -1}, r"must be an integer from 0"),
        ({"kind": "tpu"}, r"`kind` must be one of"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        serving.write_triton_repository(make_export(), tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_are_no_lines(tmp_path):
    broken = make_export(entries={"labels": {'class "name"': ["a\nb", *"cdefgh"]}})
    with pytest.raises(ValueError, match="Triton keeps labels as lines"):
        serving.write_triton_repository(broken, tmp_path)


def test_the_file_that_is_served_has_the_configuration_s_tensors(tmp_path):
    """The whole way, and the answers of the served file."""
    onnxruntime = pytest.importorskip("onnxruntime", reason='pip install "keras-attention-tflite[onnx]"')
    pytest.importorskip("tf2onnx", reason='pip install "keras-attention-tflite[onnx]"')
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((5,), name="x"), keras.layers.Dense(3, name="y")], name="small")
    export = serving.export_onnx(model, verbose=0)
    folder = serving.write_triton_repository(export, tmp_path)
    config = triton_config.parse((folder.parent / "config.pbtxt").read_text())
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    for tensors, values in ((config.input, session.get_inputs()), (config.output, session.get_outputs())):
        assert [(t.name, list(t.dims)) for t in tensors] == [(v.name, v.shape[1:]) for v in values]
    samples = np.random.default_rng(1).normal(size=(7, 5)).astype("float32")
    (answers,) = session.run(None, {config.input[0].name: samples})
    np.testing.assert_allclose(answers, keras.ops.convert_to_numpy(model(samples)), atol=1e-5)
