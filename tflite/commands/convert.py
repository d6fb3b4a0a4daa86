"""`keras-attention convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from typing import get_args

import click

from keras_attention.tflite import arguments
from keras_attention.tflite import conversion
from keras_attention.tflite import files
from keras_attention.tflite.commands.common import TARGETS
from keras_attention.tflite.commands.common import read_samples
from keras_attention.tflite.commands.common import with_clear_errors
from keras_attention.tflite.errors import FidelityError


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The .tflite file to write."
)
@click.option(
    "--precision",
    type=click.Choice(get_args(arguments.Precision)),
    default="int8",
    show_default=True,
    help="dynamic needs no calibration; int8 does.",
)
@click.option(
    "--calibration",
    type=click.Path(path_type=Path),
    help="An .npz file with one array per input, by input name (a single array may have any name).",
)
@click.option(
    "--evaluation",
    type=click.Path(path_type=Path),
    help=f"The same, to compare on; an array named '{TARGETS}' adds the accuracy.",
)
@click.option("--min-agreement", type=float, help="Refuse a file that answers otherwise more often, 0 to 1.")
@click.option("--min-sqnr-db", type=float, help="Refuse a file with more noise than this, in dB.")
@click.option("--max-metric-drop", type=float, help="Refuse a file that loses more accuracy than this.")
@click.option("--task", type=click.Choice(get_args(arguments.Task)), help="What the outputs are.")
@click.option(
    "--max-unrolled-steps", type=int, default=512, show_default=True, help="Longest recurrence to unroll."
)
@click.option(
    "--batch-size", type=int, default=1, show_default=True, help="Samples that the file takes at a time."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="Write the report as JSON here, also when a floor refuses the file.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def convert(
    model: Path,
    output: Path,
    precision: arguments.Precision,
    calibration: Path | None,
    evaluation: Path | None,
    report: Path | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Convert the .keras file MODEL to a .tflite file and compare both on real inputs."""

    def work() -> None:
        _check_paths(model, calibration, evaluation, output, report)
        try:
            result = conversion.convert(
                model,
                output,
                precision=precision,
                calibration=read_samples("--calibration", calibration),
                evaluation=read_samples("--evaluation", evaluation),
                verbose=0 if quiet else 1,
                **options,
            )
        except FidelityError as error:
            if report is not None:
                error.report.write(report)
            raise
        if report is not None:
            result.write_report(report)

    with_clear_errors(work)


def _check_paths(
    model: Path, calibration: Path | None, evaluation: Path | None, output: Path, report: Path | None
) -> None:
    """Refuse, before any work, a file to write that is also read or can't be written."""
    read = {"MODEL": model, "--calibration": calibration, "--evaluation": evaluation}
    written = {"--output": output, "--report": report}
    for option, path in written.items():
        for other, source in {**read, **written}.items():
            if (
                path is not None
                and source is not None
                and other != option
                and path.resolve() == source.resolve()
            ):
                raise ValueError(f"{option} and {other} are the same file: {str(path)!r}")
    if report is not None:
        try:
            files.check_writable(report)
        except OSError as error:
            raise ValueError(f"--report: {error}") from error
