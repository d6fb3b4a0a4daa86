"""The answers of .tflite files on emulated phones' processors, as a table in docs/arm64.md.

    keras-attention arm64 --setup
    python -m benchmarks.arm64_answers runs/*.tflite

The files bring their golden pairs along.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks import tables
from keras_attention import tflite
from keras_attention.tflite import formatting
from keras_attention.tflite.arm64.comparison import Difference

HEADER = ("file", "processor", "output", "reference kernels", "XNNPACK", "same class", "passed", "millions")


@click.command(context_settings={"show_default": True})
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--bed", type=click.Path(path_type=Path), help="Folder of the arm64 test bed.")
@click.option("--page", type=click.Path(exists=True, path_type=Path), default="docs/arm64.md")
def main(files: tuple[Path, ...], bed: Path | None, page: Path) -> None:
    """Run FILES on all processors and put the table between the marks of --page."""
    rows = []
    for file in files:
        check = tflite.check_arm64(file, bed=bed)
        check.print()
        rows += _rows(file.stem, check)
    versions = ", ".join(f"{name} {number}" for name, number in check.versions.items())
    text = (
        "Largest differences from this machine's answers, and what is allowed, over the golden pairs, with "
        "the executed instructions of a run. Made by `python -m benchmarks.arm64_answers`.\n"
        f"{tables.provenance('one thread')}\nEmulated: {versions}.\n\n{tables.markdown(HEADER, rows)}"
    )
    tables.replace_between(page, "arm64", text)


def _rows(name: str, check: tflite.Arm64Check) -> list[list[str]]:
    return [
        [
            name,
            processor.name,
            output.name,
            _say(output.reference, output.in_steps),
            _say(output.xnnpack, output.in_steps),
            formatting.percent(output.agreement),
            formatting.plain(output.passed),
            f"{(processor.total or 0) / 1e6:.2f}",
        ]
        for processor in check.processors
        for output in processor.outputs
    ]


def _say(difference: Difference, in_steps: bool) -> str:
    if difference.equal:
        return "equal to the bit"
    unit = " steps" if in_steps else ""
    return f"{difference.largest:.2g} of {difference.allowed:.2g}{unit}"


if __name__ == "__main__":
    main()
