"""Checks on a report that comes from a file: each field there, and of its type."""

from __future__ import annotations

import dataclasses
import types
from typing import Any
from typing import Union
from typing import get_args
from typing import get_origin
from typing import get_type_hints

_METRIC = {"name": str, "keras": float, "tflite": float}
_ROWS: dict[str, dict[str, Any]] = {
    "candidates": {
        "precision": str,
        "size_bytes": int | None,
        "latency_ms": dict[str, float | None] | None,
        "agreement": float | None,
        "sqnr_db": float | None,
        "metric": dict[str, Any] | None,
        "delegate_partitions": int | None,
        "fully_delegated": bool | None,
        "passes": bool,
        "chosen": bool,
        "remark": str,
    },
    "sensitivity": {
        "layer": str,
        "operators": list[str],
        "sqnr_db": float,
        "treatment": str,
        "advice": str,
    },
    "by_output": {"output": str, "agreement": float, "sqnr_db": float | None},
    "worst_samples": {
        "index": int,
        "output": str,
        "keras": list[float],
        "tflite": list[float],
        "first": int,
        "max_abs_error": float,
        "agrees": bool,
    },
    "partition_map": {"index": int, "operator": str, "dtype": str, "partition": int | None},
}
_LARGEST = 2**63
_LATENCY = ("min", "median", "float32_min", "float32_median")


def check_values(values: Any, report: type[Any]) -> dict[str, Any]:
    """Return the arguments of a report's class from what JSON held.

    Raises:
        ValueError: a field is unknown, missing or of another type.
    """
    if not isinstance(values, dict):
        raise ValueError("it must hold an object with the fields of a report")
    hints = get_type_hints(report)
    unknown = sorted(values.keys() - hints.keys())
    if unknown:
        raise ValueError(f"field {unknown[0]!r} is unknown; was it written by a newer version?")
    for field in dataclasses.fields(report):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.name in values:
            _check(values[field.name], hints[field.name], field.name)
        elif required:
            raise ValueError(f"field {field.name!r} is missing")
    for name, row in _ROWS.items():
        for number, found in enumerate(values.get(name, ())):
            _check_keys(found, row, f"{name}[{number}]")
    for number, candidate in enumerate(values.get("candidates", ())):
        if candidate["metric"] is not None:
            _check_keys(candidate["metric"], _METRIC, f"candidates[{number}].metric")
        if candidate["latency_ms"] is not None:
            times = dict.fromkeys(_LATENCY[:2], float | None)
            _check_keys(candidate["latency_ms"], times, f"candidates[{number}].latency_ms")
    _check_keys(values["latency_ms"], dict.fromkeys(_LATENCY, float), "latency_ms")
    if values["metric"] is not None:
        _check_keys(values["metric"], _METRIC, "metric")
    return {
        name: tuple(value) if get_origin(hints[name]) is tuple else value for name, value in values.items()
    }


def _check_keys(found: dict[str, Any], row: dict[str, Any], place: str) -> None:
    for key, hint in row.items():
        if key not in found:
            raise ValueError(f"{place} lacks {key!r}")
        _check(found[key], hint, f"{place}.{key}")


def _check(value: Any, hint: Any, place: str) -> None:
    if not _fits(value, hint):
        wanted = getattr(hint, "__name__", "") if get_origin(hint) is None else str(hint)
        raise ValueError(f"{place} must be {wanted}. Received: {value!r:.60}")


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether JSON gave that type; whole numbers may stand for floats, lists for tuples."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, choice) for choice in inner)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(entry, inner[1]) for entry in value.values())
    if origin in (list, tuple):
        return isinstance(value, list) and all(_fits(entry, inner[0]) for entry in value)
    if hint in (int, float):
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
        return whole or (hint is float and isinstance(value, float))
    return isinstance(value, hint)
