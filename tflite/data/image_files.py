"""Images of a folder, decoded and resized by Keras' own loader."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite.model_signature import TensorSpec

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_COLORS = {1: "grayscale", 3: "rgb", 4: "rgba"}


def about_scale(argument: str, spec: TensorSpec) -> list[str]:
    """Return the remark that a model of floats may want scaled images."""
    if not spec.dtype.startswith("float"):
        return []
    return [
        f"`{argument}`: images are taken with values of 0 to 255. A model that was trained on scaled images "
        "and doesn't scale them itself (Rescaling, Normalization) needs arrays of scaled images."
    ]


def read_images(argument: str, files: Sequence[tuple[Path, int]], spec: TensorSpec) -> Iterator[Any]:
    """Yield a list of one uint8 image, or a tuple with its target where labels are >= 0.

    Sizes are brought to the input's by bilinear interpolation.
    """
    shape = spec.shape
    size = shape[:2]
    if len(shape) not in (2, 3) or None in size or (len(shape) == 3 and (shape[2] or 3) not in _COLORS):
        raise ValueError(
            f"`{argument}` is a folder of images, but input {spec.name!r} has the shape {shape}, "
            "not (height, width, channels) with 1, 3 or 4 channels. Give open sizes by "
            "`input_shapes`, or pass arrays."
        )
    import keras  # here, since it takes seconds

    color = _COLORS[shape[2] or 3] if len(shape) == 3 else "grayscale"
    for file, label in files:
        try:
            image = keras.utils.load_img(file, color_mode=color, target_size=size, interpolation="bilinear")
        except OSError as error:  # Pillow's own errors are kinds of it
            # It read from memory, whose address says nothing.
            reason = "no image that Pillow knows" if "BytesIO" in str(error) else error
            raise ValueError(f"`{argument}`: the image {str(file)!r} can't be read: {reason}") from error
        values = keras.utils.img_to_array(image, data_format="channels_last", dtype="uint8")
        values = values if len(shape) == 3 else values[..., 0]
        yield [values] if label < 0 else (values, np.int64(label))
