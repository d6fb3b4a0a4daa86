"""Attention layers for Keras 3 that keep their accuracy and speed as quantized .tflite files."""

import importlib
from typing import TYPE_CHECKING

import wrapt

from keras_attention import lazy

if TYPE_CHECKING:
    from keras_attention.attention.bahdanau_attention import BahdanauAttention
    from keras_attention.attention.multi_head_attention import MultiHeadAttention
    from keras_attention.attention.scaled_dot_product_attention import ScaledDotProductAttention
    from keras_attention.long_sequences.axial_attention import AxialAttention
    from keras_attention.long_sequences.linear_attention import LinearAttention
    from keras_attention.long_sequences.local_attention import LocalAttention
    from keras_attention.long_sequences.sparse_attention import SparseAttention

__version__ = "0.1.0"

__all__ = [
    "AxialAttention",
    "BahdanauAttention",
    "LinearAttention",
    "LocalAttention",
    "MultiHeadAttention",
    "ScaledDotProductAttention",
    "SparseAttention",
    "__version__",
]

_MODULES = {
    "AxialAttention": "long_sequences.axial_attention",
    "BahdanauAttention": "attention.bahdanau_attention",
    "LinearAttention": "long_sequences.linear_attention",
    "LocalAttention": "long_sequences.local_attention",
    "MultiHeadAttention": "attention.multi_head_attention",
    "ScaledDotProductAttention": "attention.scaled_dot_product_attention",
    "SparseAttention": "long_sequences.sparse_attention",
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
