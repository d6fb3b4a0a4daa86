"""`keras-attention arm64`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from keras_attention import tflite
from keras_attention.tflite import files
from keras_attention.tflite.arm64 import bed as beds
from keras_attention.tflite.arm64 import checking
from keras_attention.tflite.arm64 import making
from keras_attention.tflite.arm64.processors import PROCESSORS
from keras_attention.tflite.commands.common import device_report
from keras_attention.tflite.commands.common import with_clear_errors


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--setup", is_flag=True, help="First make the test bed: once, half a minute, 135 MB.")
@click.option(
    "--bed",
    type=click.Path(path_type=Path),
    help="Folder of the test bed. Defaults to keras_attention/arm64 in your cache folder.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Samples to answer, as convert's --calibration. Defaults to the file's golden pairs.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=checking.SAMPLES,
    show_default=True,
    help="Answer so many at most.",
)
@click.option(
    "--cpu",
    "processors",
    multiple=True,
    type=click.Choice(list(PROCESSORS)),
    help="Emulate this processor; may be repeated. Defaults to all.",
)
@click.option("--no-count", is_flag=True, help="Don't count instructions.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=checking.SECONDS,
    show_default=True,
    help="Seconds for each processor.",
)
@device_report
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def arm64(
    file: Path | None,
    setup: bool,
    bed: Path | None,
    data: Path | None,
    samples: int,
    processors: tuple[str, ...],
    no_count: bool,
    timeout: float,
    report: Path | None,
    quiet: bool,
) -> None:
    """Run a .tflite FILE on emulated processors of phones; exit code 1 where an answer differs."""

    def work() -> None:
        if setup:
            _set_up(beds.default_folder() if bed is None else bed, quiet)
        elif file is None:
            raise click.UsageError("Name a .tflite FILE, or --setup.")
        if file is None:
            return
        if report is not None:
            _check_report(report, file)
        result = tflite.check_arm64(
            file,
            data=data,
            samples=samples,
            processors=processors or tuple(PROCESSORS),
            count=not no_count,
            timeout=timeout,
            bed=bed,
            verbose=0 if quiet else 1,
        )
        if not quiet:
            result.print()
        if report is not None:
            result.add_to_report(report)
        if not result.passed:
            if quiet:
                click.echo("\n".join(result.faults), err=True)
            sys.exit(1)

    with_clear_errors(work)


def _check_report(report: Path, file: Path) -> None:
    """Raise before the minutes of emulation where the report can't take the result."""
    if file.is_file():
        tflite.Report.read(report).with_device("", {}, file.read_bytes())
        files.check_writable(report)


def _set_up(folder: Path, quiet: bool) -> None:
    def say(step: int, text: str) -> None:
        if not quiet:
            click.echo(f"{step}/{making.STEPS} {text}")

    made = making.set_up(folder, say)
    if quiet:
        return
    versions = ", ".join(f"{name} {number}" for name, number in made.packages.items())
    click.echo(f"The arm64 test bed is ready at {made.folder}: {versions}")
    if made.counter:
        click.echo(f"note: instructions can't be counted, since {made.counter}.")
