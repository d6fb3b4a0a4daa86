"""The report as one HTML page that loads nothing: for a phone, a printer, or an e-mail."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2

from keras_attention.tflite import formatting
from keras_attention.tflite import operator_segments

SURE = 0.99
"""Least agreement for which the page says "right" without a remark."""
LONGEST_DB_BAR = 80
"""A bar of signal to noise is full here; more is rounding."""


def render(values: dict[str, Any]) -> str:
    """Return the page for what `Report.to_dict` gives, or for the same read back from JSON."""
    concerns = _concerns(values)
    return _template().render(
        report=values,
        concerns=concerns,
        verdict=_verdict(values, concerns),
        bars=_bars(values),
        samples=[_sample(sample, values["manifest"].get("labels")) for sample in values["worst_samples"]],
        segments=operator_segments.segments(values["partition_map"]),
        sure=SURE,
        longest_db_bar=LONGEST_DB_BAR,
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("decibels", "kilobytes", "milliseconds", "percent", "plain"):
        environment.filters[name] = getattr(formatting, name)
    return environment.get_template("report.html")


def _concerns(values: dict[str, Any]) -> list[str]:
    """Return the remarks, and what the numbers say that is not among them."""
    concerns = list(values["remarks"])
    if not values["agreement"] >= SURE:
        concerns.append(
            f"Only {formatting.percent(values['agreement'])} of the answers are those of "
            f"{values['reference']}. Check that the difference is small enough for the app."
        )
    if not values["fully_delegated"]:
        names = {row["operator"]: None for row in values["partition_map"] if row["partition"] is None}
        concerns.append(
            f"XNNPACK, the phone's CPU engine, leaves out: {', '.join(names) or 'some operators'}. Each "
            "hand-over costs time."
        )
    concerns += [
        f"{device} does not answer as it must: see Devices."
        for device, rows in values["devices"].items()
        if rows.get("passed") is False
    ]
    return concerns


def _verdict(values: dict[str, Any], concerns: list[str]) -> dict[str, str]:
    """Return the kind, which sets the colour, its word, and one sentence."""
    precision = values["precision"]
    if values["refusal"]:
        sentence = (
            f"The {precision} file is less exact than allowed, and was not written: {values['refusal']}."
        )
        return {"kind": "refused", "word": "Refused", "sentence": sentence}
    sentence = (
        f"The {precision} file answers as {values['reference']} does in "
        f"{formatting.percent(values['agreement'])} of {values['samples']:,} samples"
    )
    size, time = values["float32_size_bytes"], values["latency_ms"]["float32_min"]
    if values["size_bytes"] != size and size > 0 and time > 0:
        shares = values["size_bytes"] / size, values["latency_ms"]["min"] / time
        sentence += ", with {:.0%} of the size and {:.0%} of the time of the float32 file".format(*shares)
    if not concerns:
        return {"kind": "right", "word": "Right", "sentence": f"{sentence}."}
    count = "one remark" if len(concerns) == 1 else f"{len(concerns)} remarks"
    word = "Right" if values["agreement"] >= SURE else "To be checked"
    return {"kind": "remarks", "word": f"{word}, with {count}", "sentence": f"{sentence}."}


def _bars(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a group of bars per measure, one bar per candidate or per file."""
    files = [
        {
            "precision": f"{values['precision']}, this file",
            "size_bytes": values["size_bytes"],
            "latency_ms": values["latency_ms"],
            "agreement": values["agreement"],
            "sqnr_db": values["sqnr_db"],
            "chosen": True,
        }
    ]
    if values["candidates"]:
        files = [candidate for candidate in values["candidates"] if candidate["size_bytes"] is not None]
    if all(file["precision"].split(",")[0] != "float32" for file in files):
        reference = {
            "precision": "float32",
            "size_bytes": values["float32_size_bytes"],
            "latency_ms": {"min": values["latency_ms"]["float32_min"]},
            "agreement": None,
            "sqnr_db": values["float32_sqnr_db"],
            "chosen": False,
        }
        files = [reference, *files]
    measures: tuple[tuple[str, str, str, Callable[[Any], str], float | None], ...] = (
        ("Size", "shorter is better", "size_bytes", formatting.kilobytes, None),
        ("Latency", "one sample, one thread; shorter is better", "latency", formatting.milliseconds, None),
        (f"Agreement with {values['reference']}", "longer is better", "agreement", formatting.percent, 1.0),
        ("Signal to noise (SQNR)", "longer is better", "sqnr_db", formatting.decibels, LONGEST_DB_BAR),
    )
    groups = []
    for title, note, key, text, full in measures:
        values_of = [
            (file["latency_ms"] or {}).get("min") if key == "latency" else file[key] for file in files
        ]
        shown: list[tuple[dict[str, Any], float]] = [
            (file, value) for file, value in zip(files, values_of, strict=True) if value is not None
        ]
        longest = full or max((value for _, value in shown if math.isfinite(value)), default=0.0)
        rows = [
            {
                "label": file["precision"],
                "text": text(value),
                "width": _width(value, longest),
                "chosen": file["chosen"],
            }
            for file, value in shown
        ]
        groups.append({"title": title, "note": note, "rows": rows})
    return groups


def _width(value: float, longest: float) -> str:
    """Return a bar's length in per cent."""
    if not math.isfinite(value) or not longest > 0:
        return "0"
    return f"{100 * min(max(value / longest, 0.0), 1.0):.2f}"


def _sample(sample: dict[str, Any], labels: Any) -> dict[str, Any]:
    """Return a sample with one row per value, its two bars drawn from a common zero."""
    if isinstance(labels, dict):
        labels = labels.get(sample["output"])
    pairs = list(zip(sample["keras"], sample["tflite"], strict=False))
    known = (
        isinstance(labels, list | tuple) and len(labels) == len(pairs) and sample["first"] % len(pairs) == 0
    )
    finite = [value for pair in pairs for value in pair if math.isfinite(value)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    rows = [
        {
            "label": str(labels[place]) if known else f"[{sample['first'] + place}]",
            "keras": _bar(keras, low, high),
            "tflite": _bar(tflite, low, high),
        }
        for place, (keras, tflite) in enumerate(pairs)
    ]
    return {**sample, "rows": rows}


def _bar(value: float, low: float, high: float) -> dict[str, str]:
    if not math.isfinite(value):
        return {"text": formatting.plain(value), "start": "0", "width": "0"}
    span = (high - low) or 1.0
    start, end = (min(0.0, value) - low) / span, (max(0.0, value) - low) / span
    return {
        "text": formatting.plain(float(value)),
        "start": f"{100 * start:.2f}",
        "width": f"{100 * (end - start):.2f}",
    }
