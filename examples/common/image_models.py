"""Small classifiers of images: a convolutional network with attention of choice, a ViT and a Swin Transformer.

All take images `(batch, height, width, channels)` of values 0 to 255 under the name `image`, scale them inside the
model, and return one value per class under the name `label`. They are sized for images of 8 x 8 to about 96 x 96
pixels: what comes first makes at most 24 x 24 positions of larger images.
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
MOST_POSITIONS = 24
"""Rows or columns that the first layer leaves of a larger image."""


def mobile_cnn(
    input_shape: tuple[int, int, int],
    num_classes: int,
    attention: str | None = None,
    *,
    width: int = 32,
    depth: int = 2,
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
        width: Channels of the first stage; each stage has twice as many as the one before, at half the resolution.
        depth: Residual blocks of each stage.
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
    strides = _stem_strides(input_shape)
    x = layers.Conv2D(
        width, max(3, 2 * strides - 1), strides=strides, padding="same", use_bias=False, name="stem"
    )(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
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


def _residual_block(x: Any, filters: int, *, strides: int, gate: keras.Layer | None) -> Any:
    shortcut = x
    if strides > 1 or x.shape[-1] != filters:
        shortcut = layers.AveragePooling2D(strides, padding="same")(x) if strides > 1 else x
        shortcut = layers.BatchNormalization()(layers.Conv2D(filters, 1, use_bias=False)(shortcut))
    x = layers.DepthwiseConv2D(3, strides=strides, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.BatchNormalization()(layers.Conv2D(filters, 1, use_bias=False)(x))
    if gate is not None:
        x = gate(x)
    return layers.ReLU()(layers.Add()([x, shortcut]))


def _stem_strides(input_shape: tuple[int, int, int]) -> int:
    return max(1, -(-min(input_shape[:2]) // MOST_POSITIONS))


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
