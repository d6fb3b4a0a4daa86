"""Small classifiers of images: a convolutional network with attention of choice, ViT, Swin Transformer.

All take images `(batch, height, width, channels)` of values 0 to 255 under the name `image`, scale them
inside the model, and return one value per class under the name `label`. They are sized for images of 8 x 8 to
about 96 x 96 pixels: the first layer takes larger strides, or patches, on larger images.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

import keras_attention

ATTENTIONS: dict[str, Callable[..., keras.Layer]] = {
    "se": keras_attention.SqueezeExcite,
    "eca": keras_attention.EfficientChannelAttention,
    "channel": keras_attention.ChannelAttention,
    "spatial": keras_attention.SpatialAttention,
    "cbam": keras_attention.CBAM,
    "gc": keras_attention.GlobalContext,
    "coordinate": keras_attention.CoordinateAttention,
}
"""The layers that `mobile_cnn` can have, by short name."""


def mobile_cnn(
    input_shape: tuple[int, int, int],
    num_classes: int,
    attention: str | None = None,
    *,
    width: int = 64,
    depth: int | None = None,
    num_stages: int = 3,
    dropout: float = 0.2,
    logits: bool = False,
    input_dtype: str = "float32",
) -> keras.Model:
    """Residual blocks of depthwise and pointwise convolution, attention before each sum, mean over the image.

    Args:
        input_shape: Height, width and channels of the images.
        num_classes: Number of classes.
        attention: A key of `ATTENTIONS`, or `None` for a plain network.
        width: Channels of the first stage; each stage has twice as many as the one before, at half the size.
            With fewer than 64, int8 is not faster than float32 on small images.
        depth: Residual blocks of each stage; by default 1, and 2 for images of 16 pixels and more.
        num_stages: Number of stages.
        dropout: Share dropped before the last layer.
        logits: Whether the output is left without softmax.
        input_dtype: Type of the input, `"float32"` or `"uint8"`; values are 0 to 255 in both.

    """
    if attention is not None and attention not in ATTENTIONS:
        raise ValueError(
            f"`attention` must be None or one of {sorted(ATTENTIONS)}. Received: attention={attention!r}"
        )
    image, x = _image(input_shape, input_dtype)
    strides = _strides(input_shape, 24)
    depth = depth or (1 if min(input_shape[:2]) < 16 else 2)
    x = layers.Conv2D(
        width, max(3, 2 * strides - 1), strides=strides, padding="same", use_bias=False, name="stem"
    )(x)
    x = layers.ReLU()(_batch_norm()(x))
    for stage in range(num_stages):
        for block in range(depth):
            x = _residual_block(
                x,
                width * 2**stage,
                strides=2 if stage and not block else 1,
                gate=attention and ATTENTIONS[attention](name=f"attention_{stage + 1}_{block + 1}"),
            )
    x = layers.GlobalAveragePooling2D()(x)
    name = f"mobile_cnn_{attention}" if attention else "mobile_cnn"
    return _classifier(image, x, num_classes, dropout, logits=logits, name=name)


def vit_tiny(
    input_shape: tuple[int, int, int],
    num_classes: int,
    *,
    patch_size: int | None = None,
    width: int = 48,
    num_heads: int = 4,
    depth: int = 3,
    dropout: float = 0.1,
    logits: bool = False,
    input_dtype: str = "float32",
) -> keras.Model:
    """Vision Transformer: patches as vectors with learned positions, ViT blocks, mean over the patches.

    Args:
        input_shape: Height, width and channels of the images.
        num_classes: Number of classes.
        patch_size: Height and width of a patch; by default such that the shorter side has at most 12.
        width: Channels of each patch.
        num_heads: Heads of the attention.
        depth: Number of blocks.
        dropout: Share dropped in the blocks and before the last layer.
        logits: Whether the output is left without softmax.
        input_dtype: Type of the input, `"float32"` or `"uint8"`; values are 0 to 255 in both.

    """
    image, x = _image(input_shape, input_dtype)
    patch_size = patch_size or _strides(input_shape, 12)
    x = keras_attention.PatchEmbedding(patch_size, width, use_position_embedding=True, name="patches")(x)
    for block in range(depth):
        x = keras_attention.ViTBlock(2 * width, num_heads, dropout=dropout, name=f"attention_{block + 1}")(x)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    return _classifier(image, x, num_classes, dropout, logits=logits, name="vit_tiny")


def swin_tiny(
    input_shape: tuple[int, int, int],
    num_classes: int,
    *,
    patch_size: int | None = None,
    window_size: int = 4,
    width: int = 48,
    head_dim: int = 16,
    num_stages: int = 2,
    dropout: float = 0.1,
    logits: bool = False,
    input_dtype: str = "float32",
) -> keras.Model:
    """Swin Transformer: stages of two blocks, windows as they lie and shifted by half a window.

    Args:
        input_shape: Height, width and channels of the images.
        num_classes: Number of classes.
        patch_size: Height and width of a patch; by default such that the shorter side has at most 16.
        window_size: Height and width of the windows, in patches.
        width: Channels of the first stage; each stage has twice as many as the one before, at half the size.
        head_dim: Channels of each head.
        num_stages: Number of stages.
        dropout: Share dropped in the blocks and before the last layer.
        logits: Whether the output is left without softmax.
        input_dtype: Type of the input, `"float32"` or `"uint8"`; values are 0 to 255 in both.

    """
    image, x = _image(input_shape, input_dtype)
    patch_size = patch_size or _strides(input_shape, 16)
    x = keras_attention.PatchEmbedding(patch_size, width, flatten=False, name="patches")(x)
    for stage in range(num_stages):
        if stage:
            x = keras_attention.PatchMerging(name=f"merging_{stage}")(x)
        channels = width * 2**stage
        for block, shift_size in enumerate((0, window_size // 2), start=1):
            x = keras_attention.SwinBlock(
                2 * channels,
                channels // head_dim,
                window_size,
                shift_size,
                dropout=dropout,
                name=f"attention_{stage + 1}_{block}",
            )(x)
    x = layers.GlobalAveragePooling2D()(layers.LayerNormalization(epsilon=1e-5)(x))
    return _classifier(image, x, num_classes, dropout, logits=logits, name="swin_tiny")


BUILDERS: dict[str, Callable[..., keras.Model]] = {
    "mobile_cnn": mobile_cnn,
    "vit_tiny": vit_tiny,
    "swin_tiny": swin_tiny,
}


def _residual_block(x: Any, filters: int, *, strides: int, gate: keras.Layer | None) -> Any:
    shortcut = x
    if strides > 1 or x.shape[-1] != filters:
        # No average pool before it: XNNPACK has none in int8.
        shortcut = _batch_norm()(layers.Conv2D(filters, 1, strides=strides, use_bias=False)(x))
    x = layers.DepthwiseConv2D(3, strides=strides, padding="same", use_bias=False)(x)
    x = layers.ReLU()(_batch_norm()(x))
    x = _batch_norm()(layers.Conv2D(filters, 1, use_bias=False)(x))
    if gate is not None:
        x = gate(x)
    return layers.ReLU()(layers.Add()([x, shortcut]))


def _batch_norm() -> keras.Layer:
    # The statistics follow within a few dozen steps, as training on few images has but hundreds.
    return layers.BatchNormalization(momentum=0.9)


def _strides(input_shape: tuple[int, int, int], most: int) -> int:
    """The smallest that leaves at most that many positions of the shorter side."""
    return -(-min(input_shape[:2]) // most)


def _image(input_shape: tuple[int, int, int], input_dtype: str) -> tuple[Any, Any]:
    """The input, and its values brought to -1 to 1."""
    image = keras.Input(input_shape, dtype=input_dtype, name="image")
    return image, layers.Rescaling(1 / 127.5, offset=-1, name="scaled")(image)


def _classifier(
    image: Any, features: Any, num_classes: int, dropout: float, *, logits: bool, name: str
) -> keras.Model:
    features = layers.Dropout(dropout)(features)
    activation = None if logits else "softmax"
    # In float32 under mixed precision too.
    label = layers.Dense(num_classes, activation=activation, dtype="float32", name="label")(features)
    return keras.Model(image, label, name=name)
