"""Calibration and evaluation of the same scale: no codes instead of values, no normalization forgotten."""

from __future__ import annotations

import numpy as np

from keras_attention.tflite.samples import Samples

UNLIKE = 20.0
"""Ratio of usual sizes above which two sets of samples can't be of the same kind."""


def check_alike(calibration: Samples, evaluation: Samples) -> None:
    """Refuse calibration samples whose values are of another size than those to compare on.

    Raises:
        ValueError: naming the input and both sizes.
    """
    for name, values in calibration.inputs.items():
        if values.dtype.kind != "f":
            continue
        sizes = _usual_size(values), _usual_size(evaluation.inputs[name])
        if min(sizes) > 0 and max(sizes) > UNLIKE * min(sizes):
            raise ValueError(
                f"`calibration`, input {name!r}: its values are usually of size {sizes[0]:.3g}, those of "
                f"`evaluation` of size {sizes[1]:.3g}. Pass both as the model takes them: normalized alike, "
                "and not as codes of a quantized file."
            )


def _usual_size(values: np.ndarray) -> float:
    """Return the median size of the values that are not 0: neither outliers nor padding count."""
    sizes = np.abs(values[values != 0])
    return float(np.median(sizes)) if sizes.size else 0.0
