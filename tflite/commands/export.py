"""`keras-attention export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keras_attention.tflite import quiet
from keras_attention.tflite.commands import conversion_options
from keras_attention.tflite.commands.common import with_clear_errors


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--onnx", type=click.Path(path_type=Path), help="The .onnx file to write.")
@click.option(
    "--triton",
    type=click.Path(path_type=Path),
    help="A model repository of Triton Inference Server, to which the model is added as a new version.",
)
@click.option("--openvino", type=click.Path(path_type=Path), help="The .xml file to write, a .bin beside it.")
@click.option("--name", help="Of the model in the Triton repository.  [default: the name of MODEL's file]")
@click.option("--version", type=int, help="Of the model in the Triton repository.  [default: the next]")
@click.option(
    "--max-batch-size",
    type=int,
    default=32,
    show_default=True,
    help="The most samples that Triton puts together.",
)
@click.option(
    "--max-queue-delay",
    type=int,
    default=100,
    show_default=True,
    help="How long a sample may wait in Triton for others, in microseconds.",
)
@click.option(
    "--samples",
    type=click.Path(path_type=Path),
    help="Real inputs to compare on: an .npz file with one array per input, by name (a single one may have "
    "any); an .npy or .csv file; or a folder of .csv files or images.  [default: random values]",
)
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    help="A .json file with what the app must know: labels, features, sampling rate, preprocessing ...",
)
@click.option("--batch-size", type=int, help="A fixed number of samples at a time.  [default: any number]")
@click.option("--opset", type=int, default=18, show_default=True, help="Version of ONNX' operator set.")
@click.option(
    "--max-error",
    type=float,
    default=1e-4,
    show_default=True,
    help="Refuse a file whose answers are further from Keras', for outputs of up to 1; for larger ones it is "
    "a share of the largest.",
)
@click.option("--overwrite", is_flag=True, help="Replace the files of --onnx and --openvino.")
@click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Print nothing but errors.")
def export(model: Path, **options: Any) -> None:
    """Export the .keras file MODEL for servers, as ONNX, OpenVINO or Triton have it.

    What is written was compared with Keras on the same inputs.
    """
    with_clear_errors(lambda: _run(model, **options))


def _run(
    model: Path,
    *,
    onnx: Path | None,
    triton: Path | None,
    openvino: Path | None,
    name: str | None,
    version: int | None,
    max_batch_size: int,
    max_queue_delay: int,
    samples: Path | None,
    manifest: Path | None,
    batch_size: int | None,
    opset: int,
    max_error: float,
    overwrite: bool,
    is_quiet: bool,
) -> None:
    if onnx is None and triton is None and openvino is None:
        raise ValueError("Nothing to write: pass --onnx FILE, --triton DIR, --openvino FILE.xml, or several.")
    if triton is None and (name is not None or version is not None):
        raise ValueError("--name and --version are of --triton DIR, which is missing.")
    with quiet.without_remarks_at_start():
        import keras  # noqa: F401  the first time, here
    from keras_attention import serving
    from keras_attention.serving import openvino_files
    from keras_attention.serving.triton import check_name
    from keras_attention.serving.triton import model_name

    name = model_name(model.stem) if name is None else name
    check_name(name)

    if samples is not None and not samples.exists():
        raise ValueError(f"--samples: no such file or folder: {str(samples)!r}")
    if openvino is not None:
        openvino_files.check_paths(openvino, overwrite)
    verbose = 0 if is_quiet else 1
    result = serving.export_onnx(
        model,
        onnx,
        samples=samples,
        batch_size=batch_size,
        opset=opset,
        manifest=conversion_options.read_manifest(manifest),
        max_error=max_error,
        overwrite=overwrite,
        verbose=verbose,
    )
    if triton is not None:
        written = serving.write_triton_repository(
            result,
            triton,
            name=name,
            version=version,
            max_batch_size=max_batch_size,
            max_queue_delay_microseconds=max_queue_delay,
        )
        _say(f"Triton: {written}", is_quiet)
    if openvino is not None:
        errors = serving.write_openvino(result, openvino, overwrite=overwrite, verbose=verbose)
        worst = max(error.max_error for error in errors.values())
        _say(f"OpenVINO: {openvino}, max error {worst:.2g}", is_quiet)


def _say(text: str, is_quiet: bool) -> None:
    if not is_quiet:
        click.echo(text)
