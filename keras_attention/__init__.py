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
    from keras_attention.blocks.transformer_decoder_block import TransformerDecoderBlock
    from keras_attention.blocks.transformer_encoder_block import TransformerEncoderBlock
    from keras_attention.images.cbam import CBAM
    from keras_attention.images.channel_attention import ChannelAttention
    from keras_attention.images.coordinate_attention import CoordinateAttention
    from keras_attention.images.efficient_channel_attention import EfficientChannelAttention
    from keras_attention.images.global_context import GlobalContext
    from keras_attention.images.patch_embedding import PatchEmbedding
    from keras_attention.images.patch_merging import PatchMerging
    from keras_attention.images.spatial_attention import SpatialAttention
    from keras_attention.images.squeeze_excite import SqueezeExcite
    from keras_attention.images.swin_block import SwinBlock
    from keras_attention.images.vit_block import ViTBlock
    from keras_attention.images.window_attention import WindowAttention
    from keras_attention.long_sequences.axial_attention import AxialAttention
    from keras_attention.long_sequences.linear_attention import LinearAttention
    from keras_attention.long_sequences.local_attention import LocalAttention
    from keras_attention.long_sequences.sparse_attention import SparseAttention
    from keras_attention.masks import causal_mask
    from keras_attention.masks import combine_masks
    from keras_attention.masks import padding_mask
    from keras_attention.masks import sliding_window_mask
    from keras_attention.memory.dynamic_memory import DynamicMemory
    from keras_attention.memory.memory_attention import MemoryAttention
    from keras_attention.memory.memory_network import MemoryNetwork
    from keras_attention.migration.legacy_files import load_legacy_model
    from keras_attention.migration.moving import from_keras
    from keras_attention.migration.moving import to_keras
    from keras_attention.positions.alibi import ALiBi
    from keras_attention.positions.learned_position_embedding import LearnedPositionEmbedding
    from keras_attention.positions.relative_position_bias import RelativePositionBias
    from keras_attention.positions.rotary_embedding import RotaryEmbedding
    from keras_attention.positions.sinusoidal_position_encoding import SinusoidalPositionEncoding

__version__ = "0.1.0"

__all__ = [
    "CBAM",
    "ALiBi",
    "AttentionPooling",
    "AxialAttention",
    "BahdanauAttention",
    "ChannelAttention",
    "CoordinateAttention",
    "DynamicMemory",
    "EfficientChannelAttention",
    "GlobalContext",
    "LearnedPositionEmbedding",
    "LinearAttention",
    "LocalAttention",
    "LuongAttention",
    "MemoryAttention",
    "MemoryNetwork",
    "MultiHeadAttention",
    "PatchEmbedding",
    "PatchMerging",
    "RelativePositionBias",
    "RotaryEmbedding",
    "ScaledDotProductAttention",
    "SinusoidalPositionEncoding",
    "SparseAttention",
    "SpatialAttention",
    "SqueezeExcite",
    "SwinBlock",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
    "ViTBlock",
    "WindowAttention",
    "__version__",
    "causal_mask",
    "combine_masks",
    "from_keras",
    "load_legacy_model",
    "padding_mask",
    "sliding_window_mask",
    "to_keras",
]

_MODULES = {
    "ALiBi": "positions.alibi",
    "AttentionPooling": "attention.attention_pooling",
    "AxialAttention": "long_sequences.axial_attention",
    "BahdanauAttention": "attention.bahdanau_attention",
    "CBAM": "images.cbam",
    "ChannelAttention": "images.channel_attention",
    "CoordinateAttention": "images.coordinate_attention",
    "DynamicMemory": "memory.dynamic_memory",
    "EfficientChannelAttention": "images.efficient_channel_attention",
    "GlobalContext": "images.global_context",
    "LearnedPositionEmbedding": "positions.learned_position_embedding",
    "LinearAttention": "long_sequences.linear_attention",
    "LocalAttention": "long_sequences.local_attention",
    "LuongAttention": "attention.luong_attention",
    "MemoryAttention": "memory.memory_attention",
    "MemoryNetwork": "memory.memory_network",
    "MultiHeadAttention": "attention.multi_head_attention",
    "PatchEmbedding": "images.patch_embedding",
    "PatchMerging": "images.patch_merging",
    "RelativePositionBias": "positions.relative_position_bias",
    "RotaryEmbedding": "positions.rotary_embedding",
    "ScaledDotProductAttention": "attention.scaled_dot_product_attention",
    "SinusoidalPositionEncoding": "positions.sinusoidal_position_encoding",
    "SparseAttention": "long_sequences.sparse_attention",
    "SpatialAttention": "images.spatial_attention",
    "SqueezeExcite": "images.squeeze_excite",
    "SwinBlock": "images.swin_block",
    "TransformerDecoderBlock": "blocks.transformer_decoder_block",
    "TransformerEncoderBlock": "blocks.transformer_encoder_block",
    "ViTBlock": "images.vit_block",
    "WindowAttention": "images.window_attention",
    "causal_mask": "masks",
    "combine_masks": "masks",
    "from_keras": "migration.moving",
    "load_legacy_model": "migration.legacy_files",
    "padding_mask": "masks",
    "sliding_window_mask": "masks",
    "to_keras": "migration.moving",
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
