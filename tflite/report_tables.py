"""The tables of a report for the terminal: the candidates of "auto", and the layers that lose the most."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from keras_attention.tflite.formatting import decibels
from keras_attention.tflite.formatting import kilobytes
from keras_attention.tflite.formatting import milliseconds
from keras_attention.tflite.formatting import percent
from keras_attention.tflite.formatting import plain

MOST_LAYERS = 10
"""Layers shown; the report in JSON or HTML holds all."""


def candidates(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a row for each file that was tried, as `Report.candidates` holds them."""
    table = Table(title="Candidates", title_justify="left")
    table.add_column("precision", overflow="fold")
    for name in ("size", "latency", "agrees", "SQNR", "pieces", "passes"):
        table.add_column(name, justify="right", no_wrap=True)
    remarks = any(row["remark"] for row in rows)
    if remarks:
        table.add_column("remark", overflow="fold")
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
            *([escape(row["remark"])] if remarks else []),
            style="bold" if row["chosen"] else None,
        )
    table.caption = "* chosen. Latency: the least. Pieces: of XNNPACK; + where operators are left outside."
    return table


def sensitivity(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the layers that lose the most, worst first, as `Report.sensitivity` holds them."""
    table = Table(title="Which layers lose the most", title_justify="left")
    table.add_column("layer", overflow="fold")
    table.add_column("SQNR", justify="right")
    table.add_column("in the file")
    table.add_column("advice")
    for row in rows[:MOST_LAYERS]:
        table.add_row(
            escape(row["layer"]),
            decibels(row["sqnr_db"]),
            escape(row["treatment"]),
            escape(row["advice"]),
        )
    if len(rows) > MOST_LAYERS:
        table.caption = f"{len(rows) - MOST_LAYERS} more in the report as .json or .html"
    return table
