"""`keras-attention convert`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from typing import get_args

import click

from keras_attention.tflite import arguments
from keras_attention.tflite import conversion
from keras_attention.tflite import files
from keras_attention.tflite.commands.common import with_clear_errors
from keras_attention.tflite.data.paths import TARGETS
from keras_attention.tflite.errors import FidelityError
from keras_attention.tflite.manifest import sidecar_path
from keras_attention.tflite.report import check_ending


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
    help="An .npz file with one array per input, by name (a single one may have any); an .npy or .csv "
    "file; or a folder of .csv files or images.",
)
@click.option(
    "--evaluation",
    type=click.Path(path_type=Path),
    help=f"The same, to compare on; an array '{TARGETS}' in .npz, or a subfolder for each class, adds the "
    "accuracy.",
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
    "reports",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Write the report here, as .json or .html, also when a floor refuses the file. May be repeated.",
)
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    help="A .json file with what the app must know: labels, features, sampling rate, preprocessing ...",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def convert(
    model: Path,
    output: Path,
    precision: arguments.Precision,
    calibration: Path | None,
    evaluation: Path | None,
    reports: tuple[Path, ...],
    manifest: Path | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Convert the .keras file MODEL to a .tflite file and compare both on real inputs."""

    def work() -> None:
        _check_paths(model, calibration, evaluation, manifest, output, reports)
        try:
            result = conversion.convert(
                model,
                output,
                precision=precision,
                calibration=calibration,
                evaluation=evaluation,
                manifest=_read_manifest(manifest),
                verbose=0 if quiet else 1,
                **options,
            )
        except FidelityError as error:
            for report in reports:
                error.report.write(report)
            raise
        for report in reports:
            result.write_report(report)

    with_clear_errors(work)


def _read_manifest(path: Path | None) -> Any:
    """Return the user's entries; `convert` checks what they are."""
    if path is None:
        return None
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(
            '--manifest must be a .json file that holds, for example, {"labels": ["walk", "run"]}. '
            f"{str(path)!r} can't be read: {error}"
        ) from error


def _check_paths(
    model: Path,
    calibration: Path | None,
    evaluation: Path | None,
    manifest: Path | None,
    output: Path,
    reports: tuple[Path, ...],
) -> None:
    """Refuse, before any work, a file to write that is also read or can't be written."""
    read = {"MODEL": model, "--calibration": calibration, "--evaluation": evaluation, "--manifest": manifest}
    for option in ("--calibration", "--evaluation"):
        source = read[option]
        if source is not None and not source.exists():
            raise ValueError(f"{option}: no such file or folder: {str(source)!r}")
    seen = [(option, path.resolve()) for option, path in read.items() if path is not None]
    written = [("--output", output), ("the manifest to write", sidecar_path(output))]
    for option, path in [*written, *(("--report", report) for report in reports)]:
        for other, source in seen:
            if path.resolve() == source:
                raise ValueError(f"{option} and {other} are the same file: {str(path)!r}")
        seen.append((option, path.resolve()))
    for path in reports:
        try:
            check_ending(path)
            files.check_writable(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"--report: {error}") from error
