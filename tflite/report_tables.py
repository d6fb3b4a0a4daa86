"""The tables of a report for the terminal: the candidates of "auto", and the layers that lose the most."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from keras_attention.tflite.formatting import decibels
from keras_attention.tflite.formatting import folded
from keras_attention.tflite.formatting import kilobytes
from keras_attention.tflite.formatting import milliseconds
from keras_attention.tflite.formatting import percent
from keras_attention.tflite.formatting import plain

MOST_LAYERS = 10
"""Layers shown; the report in JSON or HTML holds all."""

_NAME = 36


def candidates(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a row for each file that was tried, as `Report.candidates` holds them, without remarks."""
    table = Table(title="Candidates", title_justify="left", caption_justify="left")
    table.add_column("precision")
    for name in ("size", "latency", "agrees", "SQNR", "pieces", "passes"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        outside = " +" if row["fully_delegated"] is False else ""
        table.add_row(
            ("* " if row["chosen"] else "") + escape(row["precision"]),
            kilobytes(row["size_bytes"]),
            milliseconds((row["latency_ms"] or {}).get("min")),
            percent(row["agreement"]),
            decibels(row["sqnr_db"]),
            plain(row["delegate_partitions"]) + outside,
            plain(row["passes"]),
            style="bold" if row["chosen"] else None,
        )
    table.caption = "* chosen. Latency: the least. Pieces: of XNNPACK; + where operators are left outside."
    return table


def remarks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is to be said of candidates, a sentence each: too long for the table."""
    return [f"{row['precision']}: {row['remark']}" for row in rows if row["remark"]]


def sensitivity(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the layers that lose the most, worst first, as `Report.sensitivity` has them."""
    table = Table(title="Which layers lose the most", title_justify="left", caption_justify="left")
    table.add_column("layer", overflow="fold")
    table.add_column("SQNR", justify="right", no_wrap=True)
    table.add_column("in the file")
    for row in rows[:MOST_LAYERS]:
        table.add_row(escape(folded(row["layer"], _NAME)), decibels(row["sqnr_db"]), escape(row["treatment"]))
    if len(rows) > MOST_LAYERS:
        table.caption = f"{len(rows) - MOST_LAYERS} more in the report as .json or .html"
    return table


def device(name: str, rows: Mapping[str, Any]) -> Table:
    """Return what was found on a device, as one entry of `Report.devices` has it."""
    table = Table(title=f"On {escape(name)}", title_justify="left", show_header=False)
    table.add_column("what", overflow="fold")
    table.add_column("value", overflow="fold")
    for what, value in rows.items():
        table.add_row(escape(what), escape(plain(value)))
    return table


def advice(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what helps the layers of the table, each advice once, with the layers that it is for."""
    layers: dict[str, list[str]] = {}
    for row in rows[:MOST_LAYERS]:
        if row["advice"]:
            layers.setdefault(row["advice"], []).append(row["layer"])
    return [f"{', '.join(names)}: {text}" for text, names in layers.items()]
