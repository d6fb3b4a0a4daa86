"""Triton repositories: the configuration is one that Triton reads, and nothing that is there is changed."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from keras_attention.serving import OnnxExport
from keras_attention.serving import triton_config
from keras_attention.serving import write_triton_repository
from keras_attention.serving.triton import model_name
from keras_attention.tflite.model_signature import TensorSpec

EXPORT = OnnxExport(
    content=b"the bytes of a model",
    path=None,
    name="net",
    opset=18,
    batch_size=None,
    inputs=(
        TensorSpec('win"dow\\ \n ü', (7, 3), "float32"),
        TensorSpec("token", (), "int32"),
        TensorSpec("bytes", (5,), "uint8"),
    ),
    outputs=(TensorSpec("</script>", (2,), "float32"), TensorSpec("class", (), "int64")),
    errors={},
    operators={},
    latency_ms=1.0,
    source="random",
    entries={"labels": {"</script>": ["gut", '"sehr" gut ü 🙂']}},
    remarks=(),
    samples={"token": np.zeros(1)},
    answers=(),
    max_error=1e-4,
)


@pytest.fixture(scope="module")
def triton_messages():
    """Triton's own messages, loaded without the client around them, which needs gRPC."""
    found = importlib.util.find_spec("tritonclient")
    if found is None:
        pytest.skip("pip install --no-deps tritonclient")
    path = Path(found.submodule_search_locations[0]) / "grpc" / "model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("triton_model_config", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_repository(tmp_path):
    version = write_triton_repository(EXPORT, tmp_path / "new" / "repository", max_batch_size=13)
    home = tmp_path / "new" / "repository" / "net"
    assert version == home / "1"
    assert (version / "model.onnx").read_bytes() == EXPORT.content
    assert (home / "labels_0.txt").read_text("utf-8") == 'gut\n"sehr" gut ü 🙂\n'
    assert sorted(path.name for path in home.iterdir()) == ["1", "config.pbtxt", "labels_0.txt"]
    assert [path.name for path in home.parent.iterdir()] == ["net"], "nothing is left behind"

    config = triton_config.parse((home / "config.pbtxt").read_text("utf-8"))
    assert (config.name, config.backend, config.max_batch_size) == ("net", "onnxruntime", 13)
    window, token, given = config.input
    assert window.name == EXPORT.inputs[0].name
    assert list(window.dims) == [7, 3]
    assert not window.HasField("reshape")
    assert list(token.dims) == [1], "Triton wants an axis"
    assert token.HasField("reshape")
    assert not token.reshape.shape
    assert given.data_type == triton_config._ENUMS["DataType"]["TYPE_UINT8"]
    assert [tensor.label_filename for tensor in config.output] == ["labels_0.txt", ""]
    assert config.dynamic_batching.max_queue_delay_microseconds == 100


def test_a_fixed_batch_is_an_axis_of_the_model(tmp_path):
    write_triton_repository(dataclasses.replace(EXPORT, batch_size=11), tmp_path)
    config = triton_config.parse((tmp_path / "net" / "config.pbtxt").read_text("utf-8"))
    assert config.max_batch_size == 0
    assert [list(tensor.dims) for tensor in config.input] == [[11, 7, 3], [11], [11, 5]]
    assert not config.HasField("dynamic_batching")


def test_triton_reads_the_configuration(tmp_path, triton_messages):
    from google.protobuf import text_format

    options = {"preferred_batch_sizes": [4, 8], "instances": 2, "kind": "cpu"}
    write_triton_repository(EXPORT, tmp_path, **options)
    text = (tmp_path / "net" / "config.pbtxt").read_text("utf-8")
    config = text_format.Parse(text, triton_messages.ModelConfig())  # refuses unknown fields and values
    assert [tensor.name for tensor in config.input] == [spec.name for spec in EXPORT.inputs]
    assert [tensor.data_type for tensor in config.input] == [
        triton_messages.TYPE_FP32,
        triton_messages.TYPE_INT32,
        triton_messages.TYPE_UINT8,
    ]
    assert config.output[0].label_filename == "labels_0.txt"
    assert list(config.dynamic_batching.preferred_batch_size) == [4, 8]
    assert config.instance_group[0].kind == triton_messages.ModelInstanceGroup.KIND_CPU
    ours = triton_config.parse(text)
    assert ours.SerializeToString(deterministic=True) == config.SerializeToString(deterministic=True)


def test_the_declared_fields_are_those_of_triton(triton_messages):
    def kinds(descriptor):
        return {
            (field.name, field.number, field.type, field.is_repeated)
            for field in descriptor.fields
            if field.name in triton_config.MESSAGES[descriptor.name]
        }

    config = triton_config.new().DESCRIPTOR.file
    assert len(triton_config.MESSAGES) == 6
    for name, fields in triton_config.MESSAGES.items():
        declared = kinds(config.message_types_by_name[name])
        assert len(declared) == len(fields)
        assert declared == kinds(triton_messages.DESCRIPTOR.message_types_by_name[name])
    theirs = {value.name: value.number for value in triton_messages.DataType.DESCRIPTOR.values}
    assert triton_config._ENUMS["DataType"].items() <= theirs.items()
    assert (
        triton_config._ENUMS["Kind"].items() <= dict(triton_messages.ModelInstanceGroup.Kind.items()).items()
    )


def test_versions_are_added_and_never_changed(tmp_path):
    write_triton_repository(EXPORT, tmp_path, version=3)
    config = tmp_path / "net" / "config.pbtxt"
    edited = config.read_text("utf-8").replace("max_batch_size: 32", "max_batch_size: 8")
    edited += 'version_policy { all { } } parameters { key: "x" value { string_value: "y" } }\n'
    config.write_text(edited, "utf-8")
    better = dataclasses.replace(EXPORT, content=b"a better model")
    assert write_triton_repository(better, tmp_path).name == "4"
    assert config.read_text("utf-8") == edited, "the user's settings stay"
    assert (tmp_path / "net" / "3" / "model.onnx").read_bytes() == EXPORT.content
    with pytest.raises(FileExistsError, match=r"Version 4 of 'net' exists already.*out for 5"):
        write_triton_repository(better, tmp_path, version=4)
    assert (tmp_path / "net" / "4" / "model.onnx").read_bytes() == better.content
    assert sorted(path.name for path in (tmp_path / "net").iterdir()) == [
        "3",
        "4",
        "config.pbtxt",
        "labels_0.txt",
    ]


def test_another_model_does_not_go_under_the_same_name(tmp_path):
    write_triton_repository(EXPORT, tmp_path)
    wider = dataclasses.replace(EXPORT, inputs=(TensorSpec("x", (9,), "float32"),))
    with pytest.raises(FileExistsError, match="other inputs, outputs or batches"):
        write_triton_repository(wider, tmp_path)
    renamed = dataclasses.replace(EXPORT, entries={"labels": {"</script>": ["good", "bad"]}})
    with pytest.raises(FileExistsError, match="holds other labels"):
        write_triton_repository(renamed, tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match=r"holds no config\.pbtxt"):
        write_triton_repository(EXPORT, tmp_path, name="mine")
    assert [path.name for path in (tmp_path / "net").iterdir() if path.name.isdigit()] == ["1"]


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "größe", "a b", "x" * 129, "a\n"])
def test_names_that_triton_can_not_have(tmp_path, name):
    with pytest.raises(ValueError, match="`name` must be 1 to 128 letters of ASCII"):
        write_triton_repository(EXPORT, tmp_path, name=name)
    assert not list(tmp_path.iterdir())
    assert model_name(name).isascii()
    write_triton_repository(EXPORT, tmp_path, name=model_name(name))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": 0}, "`version` must be an integer from 1 "),
        ({"version": True}, "`version` must be an integer from 1 "),
        ({"max_batch_size": 2**31}, "`max_batch_size` must be an integer from 1 "),
        ({"preferred_batch_sizes": [64]}, "must not exceed max_batch_size=32"),
        ({"max_queue_delay_microseconds": -1}, "`max_queue_delay_microseconds` must be an integer from 0 "),
        ({"kind": "tpu"}, "`kind` must be one of"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        write_triton_repository(EXPORT, tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("label", ["two\nlines", " space", "tab\x0b"])
def test_labels_that_are_no_line(tmp_path, label):
    broken = dataclasses.replace(EXPORT, entries={"labels": {"</script>": ["gut", label]}})
    with pytest.raises(ValueError, match="lines of a file"):
        write_triton_repository(broken, tmp_path)
