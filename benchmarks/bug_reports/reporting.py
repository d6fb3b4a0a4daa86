"""The table case x precision, for the terminal and for the page."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks import tables
from benchmarks.bug_reports.families import CASES
from benchmarks.bug_reports.judging import Verdict

OUTCOMES = {"ok": "ok", "refused": "refused rightly", "fault": "fault"}
_COLOURS = {"ok": "green", "refused": "cyan", "fault": "bold red"}
_DETAIL = 300


def print_table(console: Console, verdicts: Sequence[Verdict], precisions: Sequence[str]) -> None:
    """Print the table, what the faults are, and how many there are of each outcome."""
    table = Table(title="Public bug reports", title_justify="left")
    table.add_column("case", no_wrap=True)
    for precision in precisions:
        table.add_column(precision)
    found = {(verdict.case, verdict.precision): verdict for verdict in verdicts}
    for name in dict.fromkeys(verdict.case for verdict in verdicts):
        table.add_row(name, *(_coloured(found.get((name, precision))) for precision in precisions))
    console.print(table)
    summary = Table("outcome", *precisions)
    for row in _summary(verdicts, precisions):
        summary.add_row(*row)
    console.print(summary)
    for line in _faults(verdicts):
        console.print(escape(line), style="red", highlight=False)


def page_text(verdicts: Sequence[Verdict], precisions: Sequence[str]) -> str:
    """Return summary, table and faults in Markdown."""
    found = {(verdict.case, verdict.precision): verdict for verdict in verdicts}
    names = dict.fromkeys(verdict.case for verdict in verdicts)
    rows = [
        [f"`{name}`", CASES[name].fault, *(_cell(found.get((name, kind))) for kind in precisions)]
        for name in names
    ]
    faults = [f"- {line}" for line in _faults(verdicts)]
    return "\n\n".join(
        [
            tables.markdown(["", *precisions], _summary(verdicts, precisions)),
            tables.markdown(["case", "with the stock tools", *precisions], rows),
            *(["Faults:", "\n".join(faults)] if faults else []),
        ]
    )


def _summary(verdicts: Sequence[Verdict], precisions: Sequence[str]) -> list[list[str]]:
    counts = collections.Counter((verdict.outcome, verdict.precision) for verdict in verdicts)
    return [
        [title, *(str(counts[outcome, kind]) for kind in precisions)] for outcome, title in OUTCOMES.items()
    ]


def _faults(verdicts: Sequence[Verdict]) -> list[str]:
    return [
        f"{verdict.case}, {verdict.precision}: {' '.join(verdict.detail.split())[:_DETAIL]}"
        for verdict in verdicts
        if verdict.outcome == "fault"
    ]


def _cell(verdict: Verdict | None) -> str:
    """One word, and for a file what its main bound is about."""
    if verdict is None:
        return ""
    if verdict.outcome != "ok" or not verdict.scores:
        return OUTCOMES[verdict.outcome]
    bounds = CASES[verdict.case].expect[verdict.precision].bounds
    if "min_sqnr_db" in bounds:
        return f"ok, {verdict.scores['min_sqnr_db']:.0f} dB"
    if "min_agreement" in bounds:
        return f"ok, {verdict.scores['min_agreement']:.0%} agree"
    return f"ok, off by {verdict.scores['max_abs']:.0e}"


def _coloured(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    colour = _COLOURS[verdict.outcome]
    return f"[{colour}]{_cell(verdict)}[/{colour}]"
