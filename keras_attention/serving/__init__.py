"""Keras models for servers: ONNX files, Triton model repositories, OpenVINO files."""

from typing import TYPE_CHECKING

from keras_attention import lazy

if TYPE_CHECKING:
    from keras_attention.serving.exporting import export_onnx
    from keras_attention.serving.onnx_export import OnnxExport
    from keras_attention.serving.openvino_files import write_openvino
    from keras_attention.serving.triton import write_triton_repository

__all__ = ["OnnxExport", "export_onnx", "write_openvino", "write_triton_repository"]

_MODULES = {
    "OnnxExport": "onnx_export",
    "export_onnx": "exporting",
    "write_openvino": "openvino_files",
    "write_triton_repository": "triton",
}

if not TYPE_CHECKING:  # a type checker would take any name for one that exists
    __getattr__ = lazy.getter(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
