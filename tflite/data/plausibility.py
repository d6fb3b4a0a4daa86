"""Whether samples look like what the model was trained for: refused where they can't be, else remarked on.

Refused is what is far off by numbers: data against the statistics of a Normalization layer, calibration
against evaluation. What merely looks odd (noise, copies, few samples) is remarked on, never refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from keras_attention.tflite.data.arrays import even_choice
from keras_attention.tflite.data.normalization import Statistics
from keras_attention.tflite.data.summary import moments
from keras_attention.tflite.data.summary import outlier_remarks
from keras_attention.tflite.data.summary import some_values

FEW = 20
_ENOUGH = 8
"""Fewer samples than this say too little of a scale to refuse them for being small."""
_DEVIATIONS = 6.0
_SPREADS = 20.0
_SCALES = 10.0
_OUTSIDE = 0.01
_COPIES = 0.1
_VALUES_OF_NOISE = 1_000_000

Arrays = Mapping[str, np.ndarray]


def check_plausible(
    calibration: Arrays | None, evaluation: Arrays | None, statistics: Mapping[str, Statistics]
) -> list[str]:
    """Return remarks on samples that look odd.

    Args:
        calibration: input name -> checked array, or None.
        evaluation: the same for other samples to compare on, or None.
        statistics: input name -> statistics of a Normalization layer; empty where nothing is known.

    Raises:
        ValueError: calibration can't be data of this model; input, both numbers and the cure are named.
    """
    remarks: list[str] = []
    for name, known in statistics.items():
        if calibration is not None and (fault := _off_statistics(calibration[name], known)):
            raise ValueError(f"`calibration`, input {name!r}: {fault}")
        if evaluation is not None and (fault := _off_statistics(evaluation[name], known)):
            remarks.append(f"`evaluation`, input {name!r}: {fault}")
    if calibration is None:
        return remarks
    if evaluation is not None:
        for name in calibration:
            remarks += _compare(name, calibration[name], evaluation[name])
    return remarks + outlier_remarks("calibration", calibration) + _odd(calibration)


def _off_statistics(values: np.ndarray, known: Statistics) -> str | None:
    """Say how the data is far off in most channels; None if it is not, or nothing can be said."""
    if values.dtype.kind not in "fiu":
        return None
    reduced = tuple(axis for axis, size in enumerate(known.mean.shape) if size == 1)
    mean, std = moments(values, reduced)
    says = np.broadcast_to(known.std > 0.0, mean.shape)
    width = np.where(known.std > 0.0, known.std, 1.0)
    shifted = np.abs(mean - known.mean) > _DEVIATIONS * width
    spread = std > _SPREADS * width
    if len(values) >= _ENOUGH:
        spread |= std < width / _SPREADS
    far = (shifted | spread) & says
    if not says.any() or far.sum() * 2 <= says.sum():
        return None
    where = tuple(np.argwhere(far)[0])
    own, wanted = (mean[where], std[where]), (known.mean[where], width[where])
    kept = [str(index) for index, size in zip(where, known.mean.shape, strict=True) if size > 1]
    channel = f"channel {', '.join(kept)}" if kept else "the data"
    return (
        f"{channel} has mean {own[0]:.3g} and deviation {own[1]:.3g}, but the layer {known.layer!r} was "
        f"adapted to mean {wanted[0]:.3g} and deviation {wanted[1]:.3g} (so in {int(far.sum())} of "
        f"{int(says.sum())} channels). Pass data in the units and order of training: not yet scaled, and not "
        "random."
    )


def _scale(values: np.ndarray) -> float:
    """Return the size of the values, a single outlier aside."""
    return float(np.percentile(np.abs(some_values(values)), 99.9))


def _compare(name: str, calibration: np.ndarray, evaluation: np.ndarray) -> list[str]:
    """Refuse calibration of another scale than evaluation; remark on values beyond its range."""
    if calibration.dtype.kind != "f":
        return []
    ours, others = _scale(calibration), _scale(evaluation)
    enough = min(len(calibration), len(evaluation)) >= _ENOUGH
    if enough and ours > 0.0 and others > 0.0 and max(ours / others, others / ours) > _SCALES:
        raise ValueError(
            f"`calibration`, input {name!r}: its values reach {ours:.3g}, those of `evaluation` {others:.3g} "
            f"(99.9 % of absolute values), a ratio above {_SCALES:g}. Both must be in the units that "
            "the model was trained with; uint8 codes and images of 0 to 255 are not values of 0 to 1. "
            "Scale the wrong one."
        )
    low, high = calibration.min(), calibration.max()
    outside = np.count_nonzero((evaluation < low) | (evaluation > high)) / evaluation.size
    if outside <= _OUTSIDE:
        return []
    return [
        f"`calibration`, input {name!r}: {outside:.1%} of the values of `evaluation` lie outside its range, "
        f"{low:.3g} to {high:.3g}, and are clipped in an int8 file. Add samples that cover them."
    ]


def _odd(calibration: Arrays) -> list[str]:
    """Return remarks on few samples, copies and noise."""
    remarks = []
    count = len(next(iter(calibration.values())))
    if count < FEW:
        remarks.append(f"`calibration` holds {count} samples; 100 to 1,000 real ones find the ranges better.")
    floats = {name: values for name, values in calibration.items() if values.dtype.kind == "f"}
    if floats and count > 1:
        rows = (b"".join(values[row].tobytes() for values in floats.values()) for row in range(count))
        different = len({hash(row) for row in rows})
        if different == 1:
            remarks.append(f"`calibration`: all {count} samples are equal. Pass different recordings.")
        elif count - different > _COPIES * count:
            remarks.append(
                f"`calibration`: {count - different} of {count} samples are copies, which add nothing."
            )
    remarks += [
        f"`calibration`, input {name!r} looks like random numbers ({kind}). Ranges found on noise do not fit "
        "real data: pass recordings as the app will see them."
        for name, values in floats.items()
        if (kind := noise_kind(values)) is not None
    ]
    return remarks


def noise_kind(values: np.ndarray) -> str | None:
    """Return "standard normal" or "uniform" if the values look drawn independently from it, else None.

    The test asks for 1,000 values or more, and for all of: moments of the distribution (mean, deviation,
    kurtosis; for uniform also the ends, 0 or -1 to 1, or 0 to 255); no correlation between neighbours along
    any axis; and means per position that differ by chance alone. Signals and images are correlated along
    time and space, and features differ from each other, so that real data fails at least one.
    """
    values = values[even_choice(len(values), max(2, _VALUES_OF_NOISE * len(values) // values.size))]
    count, size = len(values), values.size
    if size < 1000 or count < 2:
        return None
    sample = values.astype(np.float64)
    mean, std = float(sample.mean()), float(sample.std())
    if std == 0.0:
        return None
    standard = (sample - mean) / std
    kurtosis = float(np.mean(standard**4))
    error = 5.0 / size**0.5
    low, high = float(sample.min()), float(sample.max())
    ends = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
    kind = None
    if (
        abs(mean) < error
        and abs(std - 1.0) < error
        and abs(kurtosis - 3.0) < 0.3 + 3.0 * (24.0 / size) ** 0.5
    ):
        kind = "standard normal"
    elif 1.75 < kurtosis < 1.85 and any(
        start <= low and high <= end and high - low > 0.99 * (end - start) for start, end in ends
    ):
        kind = "uniform"
    if kind is None:
        return None
    for axis in range(sample.ndim):
        length = sample.shape[axis]
        if length > 1:
            first, second = (np.take(standard, range(i, length - 1 + i), axis) for i in (0, 1))
            if abs(float(np.mean(first * second))) > 5.0 / first.size**0.5:
                return None
    positions = standard.mean(axis=0)
    by_chance = 1.0 / count**0.5
    alike = float(np.sqrt(np.mean(positions**2))) < by_chance * (1.0 + 3.0 / positions.size**0.5)
    return kind if alike else None
