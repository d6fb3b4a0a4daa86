"""Cost of attention over the length: `python -m benchmarks.long_sequences`.

Three tables: time and memory of every layer for long sequences, with the exponent of the length in the time;
the .tflite file of `MultiHeadAttention` whole and in blocks; one training step on TensorFlow of the same two.
Memory is the peak of a child process, one for each measurement. Takes half an hour; `--quick` some minutes.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import functools
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import keras
import numpy as np
from rich.console import Console

import keras_attention
from benchmarks import long_sequences_child as child
from benchmarks import tables
from benchmarks.bug_reports import in_process as jobs_here
from keras_attention import tflite
from keras_attention.tflite import child as child_process
from keras_attention.tflite.lowering import long_attention

CHANNELS, HEADS = 64, {"num_heads": 4, "key_dim": 16}
WINDOW, BLOCK, SPARSE = 128, 128, 64
FULL, BLOCKS = "`MultiHeadAttention`", f"`MultiHeadAttention(block_size={BLOCK})`"
LAYERS: dict[str, Callable[[Any], Any]] = {
    FULL: lambda x: keras_attention.MultiHeadAttention(**HEADS)(x, x),
    BLOCKS: lambda x: keras_attention.MultiHeadAttention(**HEADS, block_size=BLOCK)(x, x),
    f"`LocalAttention(window_size={WINDOW})`": lambda x: keras_attention.LocalAttention(
        **HEADS, window_size=WINDOW
    )(x, x),
    "`LinearAttention`": lambda x: keras_attention.LinearAttention(**HEADS)(x, x),
    f"`SparseAttention(block_size={SPARSE})`": lambda x: keras_attention.SparseAttention(
        **HEADS, block_size=SPARSE
    )(x, x),
    "`AxialAttention`": lambda x: _over_grid(x, keras_attention.AxialAttention(**HEADS)),
}
"""Name -> function that makes the output from a symbolic input `(length, channels)`."""
LENGTHS = tuple(2**power for power in range(8, 15))
LONG = 4096
MEASURED = f"{os.cpu_count()} cores where no number of threads is given"
MOST_BYTES = 6e9
"""A layer that would need more is not run."""


def _over_grid(x: Any, layer: Any) -> Any:
    """Attend over the rows and columns of a grid that is as square as the length lets it be."""
    width = 2 ** (x.shape[1].bit_length() // 2)
    grid = keras.layers.Reshape((x.shape[1] // width, width, x.shape[2]))(x)
    return keras.layers.Reshape(x.shape[1:])(layer(grid))


def make_model(name: str, length: int) -> Any:
    """Return the layer, seeded, as a model."""
    keras.utils.set_random_seed(length)
    inputs = keras.Input((length, CHANNELS), name="sequence")
    return keras.Model(inputs, LAYERS[name](inputs))


@click.command(context_settings={"show_default": True})
@click.option("--layer", "names", multiple=True, type=click.Choice(list(LAYERS)), default=list(LAYERS))
@click.option(
    "--rounds", type=click.IntRange(1), default=7, help="Rounds in which layers and lengths take turns."
)
@click.option("--quick", is_flag=True, help="Short sequences, two rounds.")
@click.option("--out", type=click.Path(path_type=Path), default="docs/benchmarks/long_sequences.md")
def main(names: tuple[str, ...], rounds: int, quick: bool, out: Path) -> None:
    """Measure time and memory over the length and write the page to --out."""
    console = Console()
    lengths, long, rounds = (LENGTHS[:3], 512, 2) if quick else (LENGTHS, LONG, rounds)
    sections = [_by_length(console, names, lengths, rounds), _files(console, long), _training(console, long)]
    command = " ".join(["python -m benchmarks.long_sequences", *(shlex.quote(part) for part in sys.argv[1:])])
    page = f"# Long sequences\n\nMade by `{command}`.\n{tables.provenance(MEASURED)}\n\n"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page + "\n\n".join(sections) + "\n")
    console.print(f"written: {out}")


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Return the power of the length that fits best, by least squares of logarithms, over the upper half."""
    first = len(lengths) // 2
    slope, _ = np.polyfit(np.log(lengths[first:]), np.log(values[first:]), 1)
    return float(slope)


def would_need(lengths: Sequence[int], memory: Sequence[float], length: int) -> float:
    """Return the bytes to expect at a length, from what shorter ones took and growth with the square."""
    return memory[-1] * (length / lengths[len(memory) - 1]) ** 2 if memory else 0.0


def _by_length(console: Console, names: Sequence[str], lengths: Sequence[int], rounds: int) -> str:
    memory: dict[str, list[float]] = {name: [] for name in names}
    runs = {}
    refused = []
    for length in lengths:
        x = child.sequence(length, CHANNELS)
        for name in names:
            expected = would_need(lengths, memory[name], length) if name == FULL else 0.0
            if expected > MOST_BYTES:
                refused.append(f"{name} at {length:,} would need {expected / 1e9:.0f} GB or so: not run.")
                continue
            memory[name].append(child.measure("inference", name, length)["bytes"])
            runs[name, length] = functools.partial(child.compiled(make_model(name, length)), x)
            console.print(f"{length} {name}: {memory[name][-1] / 1e6:.0f} MB")
    best = _minima(runs, rounds)
    header = ("layer", *(f"{length:,}" for length in lengths))
    times, sizes = [], []
    for name in names:
        taken = [best[name, length] for length in lengths if (name, length) in best]
        grows = exponent(lengths[: len(taken)], taken)
        times.append([name, *_cells(taken, 1e3, ".1f", lengths), f"{grows:.2f}"])
        sizes.append([name, *_cells(memory[name], 1e-6, ".0f", lengths)])
    return "\n\n".join(
        [
            "## Time and memory over the length",
            f"{CHANNELS} channels, 4 heads of 16, a batch of one, inference on TensorFlow in a graph without "
            f"XLA, on all cores. {' '.join(refused)}".rstrip(),
            f"Milliseconds, the minimum of {rounds} rounds in which all layers and lengths take turns in one "
            "process. The exponent of the length is fitted by least squares of logarithms, over the upper "
            "half of the lengths.",
            tables.markdown((*header, "exponent"), times),
            "MB above what the process held before the call, the peak of one child process for each number.",
            tables.markdown(header, sizes),
        ]
    )


def _cells(values: Sequence[float], factor: float, form: str, lengths: Sequence[int]) -> list[str]:
    return [*(format(value * factor, form) for value in values), *["not run"] * (len(lengths) - len(values))]


def _minima(runs: dict[Any, Callable[[], Any]], rounds: int) -> dict[Any, float]:
    """Return the shortest time of each, all taking turns; the first call of each, not timed, compiles it."""
    for run in runs.values():
        run()
    best = dict.fromkeys(runs, np.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def convert_whole(model: Any, path: Path, samples: np.ndarray) -> None:
    """Convert without the blocks of long attention; in this process, where they can be switched off."""
    before = long_attention.MOST_NUMBERS, child_process.run_job, child_process.Ahead
    os.environ[jobs_here.VARIABLE] = "1"
    jobs_here.install(str(path))
    long_attention.MOST_NUMBERS = sys.maxsize
    try:
        tflite.convert(model, path, precision="float32", evaluation=samples, verbose=0)
    finally:
        long_attention.MOST_NUMBERS, child_process.run_job, child_process.Ahead = before
        del os.environ[jobs_here.VARIABLE]


def _files(console: Console, length: int) -> str:
    samples = np.random.default_rng(length).normal(size=(2, length, CHANNELS)).astype("float32")
    with tempfile.TemporaryDirectory() as folder:
        whole_path, path = Path(folder) / "whole.tflite", Path(folder) / "blocks.tflite"
        convert_whole(make_model(FULL, length), whole_path, samples)
        tflite.convert(make_model(BLOCKS, length), path, precision="float32", evaluation=samples, verbose=0)
        result = tflite.benchmark([whole_path, path], seconds=5.0, verbose=0)
    whole = result.files[0]
    rows = [
        [
            name,
            f"{file.memory_bytes / 1e6:.0f} MB",
            f"{file.memory_bytes / whole.memory_bytes:.2f}",
            f"{file.min_ms:.1f} ms",
            f"{file.ratio:.2f}",
            f"{file.size_bytes / 1e3:.0f} kB",
            str(file.partitions),
        ]
        for name, file in zip((FULL, BLOCKS), result.files, strict=True)
    ]
    header = ("layer", "memory", "share", "latency min", "ratio", "size", "partitions")
    table = tables.markdown(header, rows)
    console.print(table)
    return (
        f"## The float32 .tflite file at {length:,} steps\n\nThe first file is converted without the blocks "
        "that long attention gets in any case. Memory is the peak of a process of its own while it loads and "
        "runs the file, above what it held before. Latency is on one thread, the files taking turns; the "
        f"ratio is the median over the rounds.\n\n{table}"
    )


def _training(console: Console, length: int) -> str:
    found = {name: child.measure("training", name, length) for name in (FULL, BLOCKS)}
    rows = [
        [
            name,
            f"{one['bytes'] / 1e6:.0f} MB",
            f"{one['bytes'] / found[FULL]['bytes']:.2f}",
            f"{one['peak'] / 1e6:.0f} MB",
            f"{one['seconds'] * 1e3:.0f} ms",
        ]
        for name, one in found.items()
    ]
    whole, blocks = found[FULL], found[BLOCKS]
    gradients = np.abs(whole["gradients"] - blocks["gradients"]).max()
    table = tables.markdown(("layer", "memory", "share", "whole process", "time min"), rows)
    console.print(table)
    return (
        f"## One training step at {length:,} steps on TensorFlow\n\n`train_on_batch` of a model of the layer "
        "alone: one sample, mean squared error, SGD. Memory is the peak of a child process in its first "
        f"step, tracing included, above what it held before. The loss, {whole['loss']:.4f}, differs by "
        f"{abs(whole['loss'] - blocks['loss']):.1e}; the gradients of the weights, at most "
        f"{np.abs(whole['gradients']).max():.1e}, by {gradients:.1e}.\n\n{table}"
    )


if __name__ == "__main__":
    main()
