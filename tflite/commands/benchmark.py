"""`keras-attention benchmark`."""

from __future__ import annotations

from pathlib import Path

import click

from keras_attention import tflite
from keras_attention.tflite import files as writing
from keras_attention.tflite.commands.common import with_clear_errors
from keras_attention.tflite.data.paths import read_numpy
from keras_attention.tflite.errors import ConversionError


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--threads", type=int, default=1, show_default=True, help="Threads of the runtime.")
@click.option("--seconds", type=float, default=1.0, show_default=True, help="Time to measure, per file.")
@click.option("--warmup", type=int, default=5, show_default=True, help="Runs before the clock starts.")
@click.option("--profile", is_flag=True, help="Time each operator too.")
@click.option(
    "--inputs",
    type=click.Path(path_type=Path),
    help="An .npz file with one array per input, by input name; its first sample is used.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the numbers as JSON here.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def benchmark(
    files: tuple[Path, ...],
    threads: int,
    seconds: float,
    warmup: int,
    profile: bool,
    inputs: Path | None,
    json_file: Path | None,
    quiet: bool,
) -> None:
    """Time .tflite FILES in turns on this machine, each against the first."""

    def work() -> None:
        if json_file is not None:
            if any(json_file.resolve() == path.resolve() for path in files):
                raise ValueError(f"--json would overwrite a file to measure: {str(json_file)!r}")
            writing.check_writable(json_file)
        result = tflite.benchmark(
            files,
            num_threads=threads,
            seconds=seconds,
            warmup=warmup,
            profile=profile,
            inputs=None if inputs is None else read_numpy("--inputs", inputs).inputs,
            verbose=0 if quiet else 1,
        )
        if not quiet:
            result.print()
        if json_file is not None:
            result.write(json_file)
        if result.failures:
            raise ConversionError("\n".join(result.failures.values()))

    with_clear_errors(work)
