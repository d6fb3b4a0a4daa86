"""Numbers as people read them, with their units; what isn't known is a dash."""

from __future__ import annotations

import math
import re
from typing import Any

from keras_attention.tflite import metrics

UNKNOWN = "\N{EN DASH}"
NOT_FINITE = "not finite"


def decibels(ratio: float | None) -> str:
    """Return a ratio such as "36.1 dB"; "equal" where there is no difference."""
    if ratio is None:
        return UNKNOWN
    return "equal" if ratio >= metrics.EXACT_DB else f"{ratio:.1f} dB"


def kilobytes(size: int | None) -> str:
    """Return a size such as "136.7 kB"."""
    return UNKNOWN if size is None else f"{size / 1000:,.1f} kB"


def milliseconds(time: float | None) -> str:
    """Return a time such as "0.047 ms"."""
    return UNKNOWN if time is None else f"{time:,.3f} ms"


def percent(share: float | None) -> str:
    """Return a share such as "99.48%", cut and not rounded, so that only all are 100%."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    hundredths = math.floor(share * 10_000 + 1e-9)
    return f"{hundredths / 100:.4g}%"


def folded(name: str, width: int) -> str:
    """Return a name in lines of at most `width` characters where "/", "_", "-" and "." in it allow that.

    Tables break at blanks, and a name without any in the middle of a word.
    """
    lines = [""]
    for part in re.split(r"(?<=[/_.-])", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def plain(value: Any) -> str:
    """Return a number in four digits, anything else as its text."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else NOT_FINITE
    return str(value)
