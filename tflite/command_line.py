"""The command `keras-attention`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from typing import get_args

import click
import numpy as np

import keras_attention
from keras_attention.tflite import arguments
from keras_attention.tflite import conversion
from keras_attention.tflite import files
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.errors import FidelityError
from keras_attention.tflite.inspection import inspect as inspect_file

TARGETS = "targets"
"""Name of the array in an .npz file that holds what the model should answer."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(keras_attention.__version__)
def main() -> None:
    """Turn Keras models into verified .tflite files, and look into such files."""


@main.command()
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
                calibration=_read_samples("--calibration", calibration),
                evaluation=_read_samples("--evaluation", evaluation),
                verbose=0 if quiet else 1,
                **options,
            )
        except FidelityError as error:
            if report is not None:
                error.report.write(report)
            raise
        if report is not None:
            result.write_report(report)

    _with_clear_errors(work)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
def inspect(file: Path) -> None:
    """Show inputs, outputs, quantization, operators, delegate partitions and size of a .tflite FILE."""
    _with_clear_errors(lambda: inspect_file(file).print())


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


def _read_samples(option: str, path: Path | None) -> Any:
    """Return an .npz file's arrays in the form that `convert` takes."""
    if path is None:
        return None
    if not path.is_file():
        raise click.ClickException(f"{option} must be an .npz file. No such file: {str(path)!r}")
    try:
        with path.open("rb") as stream:
            data = np.load(stream, allow_pickle=False)
            if not hasattr(data, "files"):
                raise ValueError("it holds a single array, not named ones")
            arrays = {name: data[name] for name in data.files}
    except Exception as error:  # NumPy raises many kinds on damaged files
        reason = "it holds pickled objects" if "pickle" in str(error) else str(error)
        raise click.ClickException(
            f"{option} must be an .npz file as numpy.savez writes it. {str(path)!r} can't be read: {reason}"
        ) from error
    targets = arrays.pop(TARGETS, None)
    if not arrays:
        raise click.ClickException(f"{option}: {str(path)!r} holds no array of inputs.")
    inputs: Any = arrays if len(arrays) > 1 else next(iter(arrays.values()))
    return inputs if targets is None else (inputs, targets)


def _with_clear_errors(work: Callable[[], None]) -> None:
    """Turn the errors that are the user's to solve into one line on standard error and exit code 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary folders are removed
    try:
        work()
    except (ConversionError, ValueError, TypeError, OSError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
