"""What `convert` and `quantize` share: options, the checks of paths, and the reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeVar
from typing import get_args

import click

from keras_attention.tflite import arguments
from keras_attention.tflite import files
from keras_attention.tflite.commands.common import with_clear_errors
from keras_attention.tflite.data.paths import TARGETS
from keras_attention.tflite.errors import FidelityError
from keras_attention.tflite.manifest import sidecar_path
from keras_attention.tflite.report import check_ending

if TYPE_CHECKING:
    from keras_attention.tflite.finishing import Conversion

Command = TypeVar("Command", bound=Callable[..., None])

_OPTIONS = (
    click.option(
        "-o", "--output", type=click.Path(path_type=Path), required=True, help="The .tflite file to write."
    ),
    click.option(
        "--precision",
        type=click.Choice(get_args(arguments.Precision)),
        default="int8",
        show_default=True,
        help="float32: as it is. float16: weights in half precision. dynamic: int8 weights, activations "
        "quantized at run time. int8: int8 wherever the phone's CPU runs it in one piece. int8_full: "
        "every tensor int8, for NPUs and microcontrollers. int16x8: int16 activations, int8 weights. auto: "
        "makes those that suit --target, measures them, takes the best. int8, int8_full, int16x8 and auto "
        "need --calibration.",
    ),
    click.option(
        "--target",
        type=click.Choice(get_args(arguments.Target)),
        default="cpu",
        show_default=True,
        help="What --precision auto chooses for. microcontroller also goes with int8_full and int16x8: "
        "tflite-micro then answers to the bit as LiteRT does.",
    ),
    click.option(
        "--io-dtype",
        type=click.Choice(get_args(arguments.IoDtype)),
        help="Type of the float inputs and outputs: int8 or uint8 with int8_full, float32 or int16 with "
        "int16x8; float32 in all other files.",
    ),
    click.option(
        "--calibration",
        type=click.Path(path_type=Path),
        help="An .npz file with one array per input, by name (a single one may have any); an .npy or .csv "
        "file; or a folder of .csv files or images.",
    ),
    click.option(
        "--evaluation",
        type=click.Path(path_type=Path),
        help=f"The same, to compare on; an array '{TARGETS}' in .npz, or a subfolder for each class, adds "
        "the accuracy.",
    ),
    click.option(
        "--min-agreement", type=float, help="Refuse a file that answers otherwise more often, 0 to 1."
    ),
    click.option("--min-sqnr-db", type=float, help="Refuse a file with more noise than this, in dB."),
    click.option("--max-metric-drop", type=float, help="Refuse a file that loses more accuracy than this."),
    click.option("--task", type=click.Choice(get_args(arguments.Task)), help="What the outputs are."),
    click.option(
        "--sensitivity", is_flag=True, help="Also measure how much noise each layer makes by itself."
    ),
    click.option(
        "--report",
        "reports",
        type=click.Path(path_type=Path),
        multiple=True,
        help="Write the report here, as .json or .html, also when a floor refuses the file. May be repeated.",
    ),
    click.option(
        "--manifest",
        type=click.Path(path_type=Path),
        help="A .json file with what the app must know: labels, features, sampling rate, preprocessing ...",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
)


def shared_options(command: Command) -> Command:
    """Add the options that both commands have, in the order of `_OPTIONS`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run(
    make: Callable[..., Conversion],
    source: Path,
    *,
    output: Path,
    calibration: Path | None,
    evaluation: Path | None,
    reports: tuple[Path, ...],
    manifest: Path | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Call `convert` or `quantize` with what the command line holds, and write the reports."""

    def work() -> None:
        _check_paths(source, calibration, evaluation, manifest, output, reports)
        try:
            result = make(
                source,
                output,
                calibration=calibration,
                evaluation=evaluation,
                manifest=read_manifest(manifest),
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


def read_manifest(path: Path | None) -> Any:
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
    source: Path,
    calibration: Path | None,
    evaluation: Path | None,
    manifest: Path | None,
    output: Path,
    reports: tuple[Path, ...],
) -> None:
    """Refuse, before any work, a file to write that is also read or can't be written."""
    read = {"MODEL": source, "--calibration": calibration, "--evaluation": evaluation, "--manifest": manifest}
    for option in ("--calibration", "--evaluation"):
        given = read[option]
        if given is not None and not given.exists():
            raise ValueError(f"{option}: no such file or folder: {str(given)!r}")
    seen = [(option, path.resolve()) for option, path in read.items() if path is not None]
    written = [("--output", output), ("the manifest to write", sidecar_path(output))]
    for option, path in [*written, *(("--report", report) for report in reports)]:
        for other, known in seen:
            if path.resolve() == known:
                raise ValueError(f"{option} and {other} are the same file: {str(path)!r}")
        seen.append((option, path.resolve()))
    for path in reports:
        try:
            check_ending(path)
            files.check_writable(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"--report: {error}") from error
