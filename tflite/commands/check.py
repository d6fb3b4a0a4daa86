"""`keras-attention check`."""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keras_attention import tflite
from keras_attention.tflite import quiet
from keras_attention.tflite.commands.common import with_clear_errors
from keras_attention.tflite.linting import registry
from keras_attention.tflite.linting.finding import Finding
from keras_attention.tflite.linting.running import Target

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--select", metavar="CODES", help="Only these, such as KA103,KA2.")
@click.option("--ignore", metavar="CODES", help="All but these.")
@click.option(
    "--target",
    type=click.Choice(registry.TARGETS),
    help="Check a .tflite file for this instead of a phone.",
)
@click.option("--strict", is_flag=True, help="Exit with code 1 on warnings too.")
def check(
    file: Path, form: str, select: str | None, ignore: str | None, target: Target | None, strict: bool
) -> None:
    """Look for what goes wrong on a phone, in a .keras or .tflite FILE.

    Exits with code 1 where an error was found. Each code has a page in docs/checks.
    """
    findings: list[Finding] = []

    def work() -> None:
        with quiet.without_remarks_at_start():  # a model is loaded by Keras
            findings.extend(tflite.check(file, select=_codes(select), ignore=_codes(ignore), target=target))

    with_clear_errors(work)
    counts: collections.Counter[str] = collections.Counter(finding.severity for finding in findings)
    if form == "json":
        click.echo(json.dumps(_plain(file, findings, counts), indent=2))
    else:
        _print(file, findings, counts)
    if counts["error"] or (strict and counts["warning"]):
        sys.exit(1)


def _codes(text: str | None) -> list[str] | None:
    return None if text is None else [code.strip() for code in text.split(",")]


def _plain(file: Path, findings: Sequence[Finding], counts: collections.Counter[str]) -> dict[str, object]:
    return {
        "file": str(file),
        "errors": counts["error"],
        "warnings": counts["warning"],
        "notes": counts["note"],
        "findings": [{**vars(finding), "page": finding.page} for finding in findings],
    }


def _print(file: Path, findings: Sequence[Finding], counts: collections.Counter[str]) -> None:
    console = Console()
    if findings:
        table = Table(title=str(file), title_justify="left", show_lines=True)
        for heading in ("code", "where", "found", "cure"):
            table.add_column(heading, overflow="fold", no_wrap=heading == "code")
        for finding in findings:
            style = _STYLES[finding.severity]
            table.add_row(
                Text(f"{finding.code}\n{finding.severity}", style=style),
                Text(finding.where),
                Text(finding.message),
                Text(finding.cure),
            )
        console.print(table)
    summary = ", ".join(
        f"{counts[severity]} {severity}{'' if counts[severity] == 1 else 's'}" for severity in _STYLES
    )
    console.print(f"{summary}. Each code is explained in docs/checks.", highlight=False)
