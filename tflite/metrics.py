"""How far a converted model's outputs are from Keras': pure NumPy, no runtime.

Definitions stand in docs/conversion.md; every number in a report comes from here.
"""

from __future__ import annotations

import numpy as np

EXACT_DB = 200.0
"""The ratio that stands for "no difference at all"; JSON knows no infinity."""
BINARY_THRESHOLD = 0.5
"""Score from which an output of one unit decides for the class."""
REGRESSION_TOLERANCE = 0.01
"""Share of Keras' output range within which two regression values agree."""


def sqnr_db(reference: np.ndarray, result: np.ndarray) -> float:
    """Return the signal-to-quantization-noise ratio 10 log10(sum ref^2 / sum (ref - res)^2) in dB.

    Equal arrays give 200; a reference of zeros that is not met, or a NaN, gives -200.
    """
    reference = np.asarray(reference, np.float64)
    noise = float(np.sum(np.square(reference - np.asarray(result, np.float64))))
    signal = float(np.sum(np.square(reference)))
    if noise == 0.0:
        return EXACT_DB
    if not np.isfinite(noise) or signal == 0.0:
        return -EXACT_DB
    return float(np.clip(10.0 * np.log10(signal / noise), -EXACT_DB, EXACT_DB))


def agreement(reference: np.ndarray, result: np.ndarray, task: str) -> float:
    """Return the share of samples (positions) on which both arrays agree; arguments as for `agreeing`."""
    return float(np.mean(agreeing(reference, result, task)))


def agreeing(reference: np.ndarray, result: np.ndarray, task: str) -> np.ndarray:
    """Tell for each sample (position) whether both arrays agree.

    Args:
        reference: Keras' outputs.
        result: the converted model's outputs, of the same shape.
        task: "classification": the same decision, per position. "regression": the value is within 1 % of
            the range of Keras' outputs. "labels": the same integer.
    """
    if task == "labels":
        return np.asarray(reference) == np.asarray(result)
    if task == "classification":
        finite = np.isfinite(result).reshape((*decisions(result).shape, -1)).all(axis=-1)
        return np.asarray((decisions(reference) == decisions(result)) & finite)
    reference = np.asarray(reference, np.float64)
    spread = float(reference.max() - reference.min())
    scale = spread if spread > 0.0 else float(np.abs(reference).max())
    difference = np.abs(reference - np.asarray(result, np.float64))
    return np.asarray(difference <= REGRESSION_TOLERANCE * scale)


def max_abs_error(reference: np.ndarray, result: np.ndarray) -> float:
    """Return the largest absolute difference; infinite where the result is not finite."""
    difference = np.abs(np.asarray(reference, np.float64) - np.asarray(result, np.float64))
    return float(difference.max()) if np.isfinite(difference).all() else float("inf")


def decisions(outputs: np.ndarray) -> np.ndarray:
    """Return the class that each position decides for: the argmax over the last axis, or score >= 0.5."""
    if outputs.ndim >= 2 and outputs.shape[-1] >= 2:
        return np.asarray(outputs.argmax(-1))
    scores = outputs[..., 0] if outputs.ndim >= 2 else outputs
    return np.asarray(scores >= BINARY_THRESHOLD).astype(np.int64)


def accuracy(targets: np.ndarray, outputs: np.ndarray) -> float:
    """Return the share of positions that decide for the target (class indices or one-hot rows)."""
    is_one_hot = targets.shape == outputs.shape and outputs.ndim >= 2 and outputs.shape[-1] >= 2
    decided = decisions(outputs)
    wanted = targets.argmax(-1) if is_one_hot else targets.reshape(decided.shape)
    return float(np.mean(decided == wanted))


def label_accuracy(targets: np.ndarray, outputs: np.ndarray) -> float:
    """Return the share of integer outputs that are the targets."""
    return float(np.mean(outputs == targets.reshape(outputs.shape)))


def mean_absolute_error(targets: np.ndarray, outputs: np.ndarray) -> float:
    """Return the mean absolute error, in the targets' unit."""
    return float(np.mean(np.abs(np.asarray(targets, np.float64).reshape(outputs.shape) - outputs)))
