"""Python values as literals and comments of Java and Kotlin. The only place that escapes."""

from __future__ import annotations

import math
from collections.abc import Iterable

_LONGEST = 5_000
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text(value: str, language: str) -> str:
    r"""Return a string literal in ASCII.

    Java reads \u escapes before anything else, so what ends a line or a string is never written as one.

    Raises:
        ValueError: it is too long for a constant of a class file.
    """
    if len(value) > _LONGEST:
        raise ValueError(
            f"A name may have at most {_LONGEST} characters in an app. "
            f"Received: {value[:20]!r}... of {len(value)}"
        )
    return '"' + "".join(_character(character, language) for character in value) + '"'


def _character(character: str, language: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character == "$" and language == "kotlin":
        return "\\$"
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def comment(value: str) -> str:
    """Return text that can't end a comment, start one, or be an escape."""
    plain = "".join(character if " " <= character <= "~" else "?" for character in value)
    return (
        plain.replace("\\", "/").replace("*/", "* /").replace("/*", "/ *").replace("@", "(at)").strip()[:200]
    )


def number(value: float) -> str:
    """Return a finite number as a literal of type double, which reads back as the same number."""
    if not math.isfinite(value):
        raise ValueError(f"An app can't use a number that isn't finite. Received: {value}")
    return repr(float(value))


def integers(values: Iterable[int], language: str) -> str:
    """Return an array of ints."""
    return _array(map(str, values), "int", language)


def numbers(values: Iterable[float], language: str) -> str:
    """Return an array of doubles."""
    return _array(map(number, values), "double", language)


def _array(values: Iterable[str], kind: str, language: str) -> str:
    listed = ", ".join(values)
    return f"{kind}ArrayOf({listed})" if language == "kotlin" else f"new {kind}[] {{{listed}}}"
