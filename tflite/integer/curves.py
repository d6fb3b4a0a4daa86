"""1 / x and 1 / sqrt(x) of a few numbers, as sums of exponentials.

The delegate has neither quotient nor root in int8, but ELU, which is e^x - 1 below zero. Both curves are sums
of falling exponentials with weights above zero, so that no rounding is amplified.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from keras_attention.tflite.integer.forms import Chain
from keras_attention.tflite.integer.scales import Range

FEW = 8
"""A dozen operators stand for one: not for more numbers than that."""
WIDEST = 32.0
"""Ratio of the ends of a range beyond which int8 has too few steps at the low end."""
MOST_TERMS = 3
_POINTS = 120
_GOOD = 0.002
"""Share of a value below which its error is less than the rounding."""
_LEAST_WEIGHT = 1e-3
"""The delegate refuses sums of numbers of very different size."""


def spans(bounds: Range, shift: float = 0.0) -> bool:
    """Tell whether int8 has steps enough for all values of the range."""
    low, high = bounds[0] + shift, bounds[1] + shift
    return 0.0 < low <= high <= WIDEST * low


def add_power(
    chain: Chain, x: int, bounds: Range, power: float, shift: float = 0.0, target: int | None = None
) -> int:
    """Append `(x + shift) ** -power` to a chain of tensors shaped like `x`, and return its result.

    Args:
        chain: the chain.
        x: tensor of a few numbers.
        bounds: their range, which `spans` takes.
        power: 1 or 0.5.
        shift: added to x first.
        target: tensor of the result; a new one where None.
    """
    low, high = bounds
    unit = low + shift
    rates, weights, constant = _fit(power, max((high + shift) / unit, 1.01))
    above = chain.add("SUB", x, low) if low else x
    terms = [
        chain.add("MUL", chain.add("ELU", chain.add("MUL", above, -rate / unit)), weight * unit**-power)
        for rate, weight in zip(rates, weights, strict=True)
    ]
    total = functools.reduce(lambda first, second: chain.add("ADD", first, second), terms)
    return chain.add("ADD", total, (sum(weights) + constant) * unit**-power, target=target)


@functools.cache
def _fit(power: float, ratio: float) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Return rates, weights and constant of `sum weights * exp(-rates * u) + constant`.

    For u from 0 to `ratio - 1` it is within 1 % of `(1 + u) ** -power` up to a ratio of 10, within 3 % up to
    32, and within 11 % up to 256.
    """
    u = np.geomspace(1.0, ratio, _POINTS) - 1.0
    wanted = (1.0 + u) ** -power
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    for count in range(1, MOST_TERMS + 1):
        for first, step in itertools.product(np.geomspace(0.2 / ratio, 1.0, 12), np.geomspace(2.0, 12.0, 10)):
            rates = first * step ** np.arange(count)
            curves = np.exp(-rates * u[:, None])
            columns = np.concatenate([curves, np.ones((_POINTS, 1))], axis=1) / wanted[:, None]
            weights = np.linalg.lstsq(columns, np.ones(_POINTS), rcond=None)[0]
            error = float(np.abs(columns @ weights - 1.0).max())
            if weights.min() >= _LEAST_WEIGHT and (best is None or error < best[0]):
                best = error, rates, weights
        if best is not None and best[0] < _GOOD:
            break
    if best is None:
        raise ValueError(f"no sum of exponentials is near x ** -{power} over a ratio of {ratio}")
    _, rates, weights = best
    return tuple(map(float, rates)), tuple(map(float, weights[:-1])), float(weights[-1])
