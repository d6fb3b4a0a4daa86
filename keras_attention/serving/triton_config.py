"""The config.pbtxt of a Triton model: a protobuf message in text form.

The part of Triton's `ModelConfig` that is written here is declared below, with Triton's own field numbers,
so that quoting, types and unknown fields are protobuf's business; tests hold it against Triton's message.
"""

from __future__ import annotations

import functools
from typing import Any

_ENUMS: dict[str, dict[str, int]] = {
    "DataType": {
        "TYPE_INVALID": 0,
        "TYPE_BOOL": 1,
        "TYPE_UINT8": 2,
        "TYPE_UINT16": 3,
        "TYPE_UINT32": 4,
        "TYPE_UINT64": 5,
        "TYPE_INT8": 6,
        "TYPE_INT16": 7,
        "TYPE_INT32": 8,
        "TYPE_INT64": 9,
        "TYPE_FP16": 10,
        "TYPE_FP32": 11,
    },
    "Kind": {"KIND_AUTO": 0, "KIND_GPU": 1, "KIND_CPU": 2},
}
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "ModelTensorReshape": {"shape": (1, "repeated int64")},
    "ModelInput": {
        "name": (1, "string"),
        "data_type": (2, "DataType"),
        "dims": (4, "repeated int64"),
        "reshape": (5, "ModelTensorReshape"),
    },
    "ModelOutput": {
        "name": (1, "string"),
        "data_type": (2, "DataType"),
        "dims": (3, "repeated int64"),
        "label_filename": (4, "string"),
        "reshape": (5, "ModelTensorReshape"),
    },
    "ModelInstanceGroup": {"count": (2, "int32"), "kind": (4, "Kind")},
    "ModelDynamicBatching": {
        "preferred_batch_size": (1, "repeated int32"),
        "max_queue_delay_microseconds": (2, "uint64"),
    },
    "ModelConfig": {
        "name": (1, "string"),
        "backend": (17, "string"),
        "max_batch_size": (4, "int32"),
        "input": (5, "repeated ModelInput"),
        "output": (6, "repeated ModelOutput"),
        "instance_group": (7, "repeated ModelInstanceGroup"),
        "dynamic_batching": (11, "ModelDynamicBatching"),
    },
}
"""Message -> field -> number and type."""
DATA_TYPES = {
    "bool": "TYPE_BOOL",
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    **{f"{sign}int{bits}": f"TYPE_{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""NumPy's name -> Triton's."""
_PACKAGE = "keras_attention_triton"


def new() -> Any:
    """Return an empty `ModelConfig`."""
    return _message_class()()


def to_text(config: Any) -> str:
    """Return a `ModelConfig` as the text of a config.pbtxt."""
    from google.protobuf import text_format

    return str(text_format.MessageToString(config, as_utf8=False))


def parse(text: str) -> Any:
    """Return the `ModelConfig` of a config.pbtxt, what is not of this module's part left out.

    Raises:
        ValueError: it is no protobuf message in text form.
    """
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, new(), allow_unknown_field=True)
    except text_format.ParseError as error:
        raise ValueError(f"it is no protobuf text ({error})") from error


@functools.cache
def _message_class() -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf import descriptor_pool
    from google.protobuf import message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ModelConfig"))


def _add_field(message: Any, name: str, number: int, kind: str) -> None:
    from google.protobuf import descriptor_pb2

    types = descriptor_pb2.FieldDescriptorProto
    repeated, _, base = kind.rpartition(" ")
    field = message.field.add(name=name, number=number)
    field.label = types.LABEL_REPEATED if repeated else types.LABEL_OPTIONAL
    if base in MESSAGES or base in _ENUMS:
        field.type = types.TYPE_MESSAGE if base in MESSAGES else types.TYPE_ENUM
        field.type_name = f".{_PACKAGE}.{base}"
    else:
        field.type = getattr(types, f"TYPE_{base.upper()}")
