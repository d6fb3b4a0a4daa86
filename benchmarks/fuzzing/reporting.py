"""The outcomes as a table: for people, and for the page in the docs."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks import tables
from benchmarks.fuzzing.driving import COMMANDS
from benchmarks.fuzzing.judging import ANSWERED
from benchmarks.fuzzing.judging import FAULT
from benchmarks.fuzzing.judging import REFUSED

Result = Mapping[str, str]
_SHOWN = 1000


def print_table(
    console: Console, kinds: Mapping[str, str], results: Sequence[Result], by_command: Sequence[Result]
) -> None:
    """Print kind of damage x command: answered / clear error / FAULT, then every fault."""
    table = Table("damage", "files", *COMMANDS)
    for row in _rows(kinds, results):
        table.add_row(*row)
    console.print(table)
    console.print(_summary(results, by_command))
    for fault in (*results, *by_command):
        if fault["outcome"] == FAULT:
            text = f"{fault['file']} ({kinds[fault['file']]}), {fault['command']}: {fault['text'][:_SHOWN]}"
            console.print(text, markup=False, style="red")


def as_markdown(
    kinds: Mapping[str, str], results: Sequence[Result], by_command: Sequence[Result], count: int, seed: int
) -> str:
    """Return the table and how it was made."""
    return "\n\n".join(
        [
            tables.markdown(("damage", "files", *COMMANDS), _rows(kinds, results)),
            f"Made by `python -m benchmarks.fuzzing --count {count} --seed {seed}`. A cell says: answered / "
            f"clear error / fault. {_summary(results, by_command)}\n{tables.provenance()}",
        ]
    )


def _rows(kinds: Mapping[str, str], results: Sequence[Result]) -> list[list[str]]:
    counts: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for result in results:
        counts[kinds[result["file"]], result["command"]][result["outcome"]] += 1
    files = collections.Counter(kinds.values())
    return [
        [kind, str(files[kind]), *(_cell(counts[kind, command]) for command in COMMANDS)]
        for kind in sorted(files)
    ]


def _cell(count: collections.Counter[str]) -> str:
    return " / ".join(str(count[outcome]) for outcome in (ANSWERED, REFUSED, FAULT))


def _summary(results: Sequence[Result], by_command: Sequence[Result]) -> str:
    faults = sum(result["outcome"] == FAULT for result in results)
    real = sum(result["outcome"] == FAULT for result in by_command)
    return (
        f"{len(results)} runs of the functions behind the commands, whose child processes were forked: "
        f"{faults} faults. {len(by_command)} runs of the commands as a user starts them: {real} faults."
    )
