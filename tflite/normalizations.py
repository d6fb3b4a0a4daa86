"""What the manifest's "preprocessing" asks an app to do to raw values, where it is said in numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Normalization:
    """(x - mean) / std, entry by entry of the last axis.

    Attributes:
        mean: one number for each entry of the input's last axis.
        std: the same.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Normalizations:
    """What was read.

    Attributes:
        by_input: input name -> its normalization; inputs that need none are left out.
        remarks: what the user should know, one sentence each.
    """

    by_input: dict[str, Normalization]
    remarks: tuple[str, ...]


def read(preprocessing: Any, shapes: Mapping[str, Sequence[int | None]]) -> Normalizations:
    """Return the normalization of each input.

    {"mean": m, "std": s} or {"mean": m, "variance": v}, and no other key, normalizes the only input; with
    several inputs, or to name it, such an object lies under the input's name. Numbers hold for all entries of
    the last axis, lists have one for each. Other values are for people, and repeated in a remark.

    Args:
        preprocessing: the manifest's entry, any JSON value; None without.
        shapes: input name -> shape with the batch axis; None where a size is still open.

    Raises:
        ValueError: a normalization doesn't fit its input: what is wrong, and what is allowed.
    """
    if preprocessing is None:
        return Normalizations({}, ())
    if _is_normalization(preprocessing):
        if len(shapes) != 1:
            raise ValueError(
                "The manifest's 'preprocessing' must name the input that it normalizes, one of "
                f"{list(shapes)}. "
                "Write {'NAME': {'mean': ..., 'std': ...}} in `convert(manifest=...)`."
            )
        preprocessing = {next(iter(shapes)): preprocessing}
    entries = preprocessing if isinstance(preprocessing, Mapping) else {"": preprocessing}
    understood = {
        name: value for name, value in entries.items() if name in shapes and _is_normalization(value)
    }
    rest = preprocessing if not understood else {n: v for n, v in entries.items() if n not in understood}
    remarks = (
        (
            "The manifest's 'preprocessing' is left to the app, being no normalization by mean and "
            f"std: {rest}",
        )
        if rest
        else ()
    )
    found = {name: _normalization(value, name, shapes[name]) for name, value in understood.items()}
    return Normalizations(found, remarks)


def _is_normalization(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) in ({"mean", "std"}, {"mean", "variance"})


def _normalization(value: Mapping[str, Any], name: str, shape: Sequence[int | None]) -> Normalization:
    where = f"The manifest's 'preprocessing' of input {name!r}"
    size = shape[-1] if len(shape) > 1 else 1
    mean = _numbers(value["mean"], size, f"{where}, 'mean',")
    if "std" in value:
        std = _numbers(value["std"], size, f"{where}, 'std',")
    else:
        variance = _numbers(value["variance"], size, f"{where}, 'variance',")
        std = tuple(math.sqrt(number) if number > 0 else 0.0 for number in variance)
    if min(std) <= 0:
        raise ValueError(
            f"{where} divides by {min(std):g}. A std must be above 0; for a constant feature take 1."
        )
    return Normalization(mean, std)


def _numbers(value: Any, size: int | None, where: str) -> tuple[float, ...]:
    values = value if isinstance(value, list) else [value] * (size or 1)
    # Statistics that were kept with their axes, as in [[[1, 2, 3]]].
    while len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    fits = all(isinstance(number, int | float) and not isinstance(number, bool) for number in values)
    if not fits or not values or (size is not None and len(values) != size):
        raise ValueError(
            f"{where} must be a number or a list of {size}, one per entry of the input's last axis. "
            f"Received: {value!r}"
        )
    return tuple(float(number) for number in values)
