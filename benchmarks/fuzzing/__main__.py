"""`python -m benchmarks.fuzzing --count 2000 --seed 0`: damaged files through three commands."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from benchmarks import tables
from benchmarks.fuzzing import reporting
from benchmarks.fuzzing import running

_LOG_WIDTH = 140


@click.command(context_settings={"show_default": True})
@click.option("--count", default=2000, type=click.IntRange(min=1), help="Damaged files.")
@click.option("--seed", default=0, help="Other seeds damage otherwise.")
@click.option("--real", default=24, type=click.IntRange(min=0), help="Runs of the real commands.")
@click.option("--seconds", default=20.0, help="Time for one command's child process.")
@click.option("--sources", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Sound files.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Copy files with faults here.")
@click.option(
    "--write", "page", type=click.Path(exists=True, path_type=Path), help="Page to put the table in."
)
def main(
    count: int,
    seed: int,
    real: int,
    seconds: float,
    sources: Path | None,
    keep: Path | None,
    page: Path | None,
) -> None:
    """Run `inspect`, `check` and `verify` on damaged files.

    Exits with 1 if any of them ends the process, runs code of the file, or gives an error without a reason.
    Three quarters are .tflite files. Child processes are forked instead of started, for speed; --real of
    them go through the commands as a user starts them.
    """
    console = Console() if sys.stdout.isatty() else Console(width=_LOG_WIDTH)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if sources is None:
            sources = folder / "sources"
            sources.mkdir()
            console.print("making sound files ...")
            subprocess.run([sys.executable, "-m", "benchmarks.fuzzing.sources", str(sources)], check=True)
        console.print(f"damaging {count} files ...")
        kinds = running.damage(sources, folder, count, seed, folder / "canary")
        results = running.run_forked(folder, seconds)
        by_command = running.run_commands(folder, sorted(kinds), real, seed)
        reporting.print_table(console, kinds, results, by_command)
        faults = [result for result in (*results, *by_command) if result["outcome"] == reporting.FAULT]
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            for fault in faults:
                shutil.copy(folder / fault["file"], keep)
    if page is not None:
        text = reporting.as_markdown(kinds, results, by_command, count, seed)
        tables.replace_between(page, "fuzzing", text)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
