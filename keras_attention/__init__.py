"""Attention layers for Keras 3 that keep their accuracy and speed as quantized .tflite files."""

from keras_attention.bahdanau_attention import BahdanauAttention
from keras_attention.multi_head_attention import MultiHeadAttention
from keras_attention.scaled_dot_product_attention import ScaledDotProductAttention

__version__ = "0.1.0"

__all__ = [
    "BahdanauAttention",
    "MultiHeadAttention",
    "ScaledDotProductAttention",
    "__version__",
]
