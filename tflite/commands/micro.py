"""`keras-attention micro`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from keras_attention import tflite
from keras_attention.tflite import files as writing
from keras_attention.tflite.commands.common import device_report
from keras_attention.tflite.commands.common import with_clear_errors
from keras_attention.tflite.data.paths import read_numpy


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--inputs",
    type=click.Path(path_type=Path),
    help="An .npz file with one array per input, by input name, instead of the golden pairs.",
)
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    help="Take the golden pairs from this .manifest.json instead.",
)
@click.option("--arena", type=int, metavar="BYTES", help="Memory for the arena; fail where more is needed.")
@device_report
@click.option("--cpp", type=click.Path(path_type=Path), help="Write a C++ header for the file here.")
def micro(
    file: Path,
    inputs: Path | None,
    manifest: Path | None,
    arena: int | None,
    report: Path | None,
    cpp: Path | None,
) -> None:
    """Run a .tflite FILE on tflite-micro, beside LiteRT; exit code 1 where an answer differs."""

    def work() -> None:
        if cpp is not None:
            if cpp.resolve() == file.resolve():
                raise ValueError(f"--cpp would overwrite the file to run: {str(cpp)!r}")
            writing.check_writable(cpp)
        read = None if report is None else tflite.Report.read(report)
        given = None if inputs is None else read_numpy("--inputs", inputs).inputs
        result = tflite.check_micro(file, inputs=given, manifest=manifest, arena_bytes=arena)
        result.print()
        if cpp is not None:
            result.write_header(cpp)
        if read is not None and report is not None:
            device = f"tflite-micro {result.runtime}"
            read.with_device(device, result.rows(), file.read_bytes()).write(report)
        if not result.passed:
            sys.exit(1)

    with_clear_errors(work)
