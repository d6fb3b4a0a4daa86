"""Attention layers for Keras 3 that keep their accuracy and speed as quantized .tflite files."""

import importlib
from typing import TYPE_CHECKING

import wrapt

from keras_attention import lazy

if TYPE_CHECKING:
    from keras_attention.attention.attention_pooling import AttentionPooling
    from keras_attention.attention.bahdanau_attention import BahdanauAttention
    from keras_attention.attention.luong_attention import LuongAttention
    from keras_attention.attention.multi_head_attention import MultiHeadAttention
    from keras_attention.attention.scaled_dot_product_attention import ScaledDotProductAttention
    from keras_attention.memory.dynamic_memory import DynamicMemory
    from keras_attention.memory.memory_attention import MemoryAttention
    from keras_attention.memory.memory_network import MemoryNetwork

__version__ = "0.1.0"

__all__ = [
    "AttentionPooling",
    "BahdanauAttention",
    "DynamicMemory",
    "LuongAttention",
    "MemoryAttention",
    "MemoryNetwork",
    "MultiHeadAttention",
    "ScaledDotProductAttention",
    "__version__",
]

_MODULES = {
    "AttentionPooling": "attention.attention_pooling",
    "BahdanauAttention": "attention.bahdanau_attention",
    "DynamicMemory": "memory.dynamic_memory",
    "LuongAttention": "attention.luong_attention",
    "MemoryAttention": "memory.memory_attention",
    "MemoryNetwork": "memory.memory_network",
    "MultiHeadAttention": "attention.multi_head_attention",
    "ScaledDotProductAttention": "attention.scaled_dot_product_attention",
}

if not TYPE_CHECKING:  # a type checker would take any name for one that exists
    __getattr__ = lazy.getter(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@wrapt.when_imported("keras")
def _register_layers(_: object) -> None:
    """Import all layers once there is Keras, so that it finds them in files: they register themselves."""
    for module in _MODULES.values():
        importlib.import_module(f"{__name__}.{module}")
