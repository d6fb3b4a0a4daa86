"""Attention layers for Keras 3 that keep their accuracy and speed as quantized .tflite files."""

import importlib
from typing import TYPE_CHECKING

import wrapt

from keras_attention import lazy

if TYPE_CHECKING:
    from keras_attention.attention.bahdanau_attention import BahdanauAttention
    from keras_attention.attention.multi_head_attention import MultiHeadAttention
    from keras_attention.attention.scaled_dot_product_attention import ScaledDotProductAttention
    from keras_attention.blocks.transformer_decoder_block import TransformerDecoderBlock
    from keras_attention.blocks.transformer_encoder_block import TransformerEncoderBlock
    from keras_attention.long_sequences.axial_attention import AxialAttention
    from keras_attention.long_sequences.linear_attention import LinearAttention
    from keras_attention.long_sequences.local_attention import LocalAttention
    from keras_attention.long_sequences.sparse_attention import SparseAttention
    from keras_attention.masks import causal_mask
    from keras_attention.masks import combine_masks
    from keras_attention.masks import padding_mask
    from keras_attention.masks import sliding_window_mask
    from keras_attention.positions.alibi import ALiBi
    from keras_attention.positions.learned_position_embedding import LearnedPositionEmbedding
    from keras_attention.positions.relative_position_bias import RelativePositionBias
    from keras_attention.positions.rotary_embedding import RotaryEmbedding
    from keras_attention.positions.sinusoidal_position_encoding import SinusoidalPositionEncoding

__version__ = "0.1.0"

__all__ = [
    "ALiBi",
    "AxialAttention",
    "BahdanauAttention",
    "LearnedPositionEmbedding",
    "LinearAttention",
    "LocalAttention",
    "MultiHeadAttention",
    "RelativePositionBias",
    "RotaryEmbedding",
    "ScaledDotProductAttention",
    "SinusoidalPositionEncoding",
    "SparseAttention",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
    "__version__",
    "causal_mask",
    "combine_masks",
    "padding_mask",
    "sliding_window_mask",
]

_MODULES = {
    "ALiBi": "positions.alibi",
    "AxialAttention": "long_sequences.axial_attention",
    "BahdanauAttention": "attention.bahdanau_attention",
    "LearnedPositionEmbedding": "positions.learned_position_embedding",
    "LinearAttention": "long_sequences.linear_attention",
    "LocalAttention": "long_sequences.local_attention",
    "MultiHeadAttention": "attention.multi_head_attention",
    "RelativePositionBias": "positions.relative_position_bias",
    "RotaryEmbedding": "positions.rotary_embedding",
    "ScaledDotProductAttention": "attention.scaled_dot_product_attention",
    "SinusoidalPositionEncoding": "positions.sinusoidal_position_encoding",
    "SparseAttention": "long_sequences.sparse_attention",
    "TransformerDecoderBlock": "blocks.transformer_decoder_block",
    "TransformerEncoderBlock": "blocks.transformer_encoder_block",
    "causal_mask": "masks",
    "combine_masks": "masks",
    "padding_mask": "masks",
    "sliding_window_mask": "masks",
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
