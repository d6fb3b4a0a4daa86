"""The command `keras-attention`."""

from __future__ import annotations

import click

import keras_attention
from keras_attention.tflite.commands.android import android
from keras_attention.tflite.commands.arm64 import arm64
from keras_attention.tflite.commands.benchmark import benchmark
from keras_attention.tflite.commands.check import check
from keras_attention.tflite.commands.convert import convert
from keras_attention.tflite.commands.export import export
from keras_attention.tflite.commands.inspect import inspect
from keras_attention.tflite.commands.micro import micro
from keras_attention.tflite.commands.quantize import quantize
from keras_attention.tflite.commands.report import report
from keras_attention.tflite.commands.verify import verify
from keras_attention.tflite.commands.web import web


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(keras_attention.__version__)
def main() -> None:
    """Turn Keras models into verified .tflite files, and look into such files."""


main.add_command(android)
main.add_command(arm64)
main.add_command(benchmark)
main.add_command(check)
main.add_command(convert)
main.add_command(export)
main.add_command(inspect)
main.add_command(micro)
main.add_command(quantize)
main.add_command(report)
main.add_command(verify)
main.add_command(web)


if __name__ == "__main__":
    main()
