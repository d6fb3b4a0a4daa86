"""`python -m benchmarks.bug_reports`: convert every case in every precision and print what came of it."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import dataclasses
import json
import sys
from pathlib import Path
from typing import get_args

import click
from rich.console import Console

from benchmarks import tables
from benchmarks.bug_reports import in_process
from benchmarks.bug_reports import reporting
from benchmarks.bug_reports import table
from benchmarks.bug_reports.case import FLOORS
from benchmarks.bug_reports.families import CASES
from benchmarks.bug_reports.families import FAMILIES
from keras_attention.tflite.arguments import Precision

PRECISIONS = [precision for precision in FLOORS if precision in get_args(Precision)]
_LOG_WIDTH = 160


@click.command(context_settings={"show_default": True})
@click.option("--precision", "precisions", multiple=True, type=click.Choice(PRECISIONS), help="Default: all.")
@click.option("--case", "names", multiple=True, type=click.Choice(list(CASES)), metavar="NAME")
@click.option("--family", "families", multiple=True, type=click.Choice(list(FAMILIES)))
@click.option(
    "--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the verdicts."
)
@click.option(
    "--write", "page", type=click.Path(exists=True, path_type=Path), help="Page to put the table in."
)
@click.option("--jobs", default=1, type=click.IntRange(1), help="Cases converted at the same time.")
@click.option("--in-process", "is_in_process", is_flag=True, help="Start no children for each call: faster.")
def main(
    precisions: tuple[str, ...],
    names: tuple[str, ...],
    families: tuple[str, ...],
    json_path: Path | None,
    page: Path | None,
    jobs: int,
    is_in_process: bool,
) -> None:
    """Convert the models of public bug reports; exit with 1 if any result is a fault.

    Each case is built and converted in a process of its own kind and its file run in another, so that
    a crash becomes a row of the table.
    """
    os.environ[in_process.VARIABLE] = str(int(is_in_process))
    console = Console() if sys.stdout.isatty() else Console(width=_LOG_WIDTH)
    chosen = set(names) | {case.name for family in families for case in FAMILIES[family]} or set(CASES)
    wanted = precisions or tuple(PRECISIONS)
    verdicts = table.judge_all([CASES[name] for name in CASES if name in chosen], wanted, jobs, console)
    reporting.print_table(console, verdicts, wanted)
    if json_path is not None:
        json_path.write_text(json.dumps([dataclasses.asdict(verdict) for verdict in verdicts], indent=1))
    if page is not None:
        text = f"{reporting.page_text(verdicts, wanted)}\n\n{tables.provenance()}"
        tables.replace_between(page, "bug-reports", text)
        console.print(f"written: {page}")
    sys.exit(any(verdict.outcome == "fault" for verdict in verdicts))


if __name__ == "__main__":
    main()
