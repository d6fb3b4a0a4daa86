"""The accuracy page of the activity models, from the metrics.json that the example wrote.

python examples/activity_recognition.py --folds 5 --out runs/transformer_folds
python -m benchmarks.activity_accuracy runs/transformer_folds runs/bahdanau_folds ...
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks import tables

PUBLISHED = (
    "Published on the same ten subjects (2 s windows, 5 folds, best of four learners): 0.873 by subject, "
    "0.996 in time ([arXiv:1802.01489v1](https://arxiv.org/abs/1802.01489v1))."
)


@click.command()
@click.argument(
    "runs", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--out", type=click.Path(path_type=Path), default="docs/benchmarks/activity_accuracy.md")
def main(runs: tuple[Path, ...], out: Path) -> None:
    """Write one table of the cross-validations in the folders RUNS."""
    results = [json.loads((run / "metrics.json").read_text()) for run in runs]
    missing = [str(run) for run, result in zip(runs, results, strict=True) if "folds" not in result]
    if missing:
        raise click.UsageError(f"RUNS must come from the example with --folds. Received: {missing}")
    count = max(len(result["folds"]) for result in results)
    header = ["model", "split", *(f"fold {number + 1}" for number in range(count)), "mean", "seconds a fold"]
    text = (
        "# Activity recognition: accuracy\n\n"
        f"Made by `python -m benchmarks.activity_accuracy {' '.join(map(str, runs))}`.\n"
        f"{tables.provenance()}\n"
        "Share of right windows of 128 samples (2.56 s at 50 Hz), half overlapping, Keras in float32. By "
        "subject, each fold tests two subjects that training has never seen; in time, each fold tests a "
        f"fifth of every recording.\n{PUBLISHED}\n\n"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + tables.markdown(header, [_row(result) for result in results]) + "\n")
    Console().print(f"written: {out}")


def _row(result: dict[str, Any]) -> list[str]:
    recipe, folds = result["recipe"], result["folds"]
    name = f"{recipe['model']} ({recipe['epochs']} epochs, seed {recipe['seed']})"
    shares = [f"{fold['windows']:.3f}" for fold in folds]
    seconds = [fold["training_seconds"] for fold in folds]
    return [
        name,
        result.get("split", "subject"),
        *shares,
        f"**{result['mean']['windows']:.3f}**",
        f"{min(seconds):.0f} to {max(seconds):.0f}",
    ]


if __name__ == "__main__":
    main()
