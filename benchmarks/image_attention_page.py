"""The page that `benchmarks.image_attention` writes, from its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import tables
from common import image_models

PRECISIONS = ("float32", "float16", "dynamic", "int8", "int8_full")
PHOTO_SIZE = 96


def render(results: dict[str, dict[str, Any]]) -> str:
    """Return the whole page."""
    names = {name: _long_name(name) for name in results}
    seeds = max(len(row["accuracies"]) for row in results.values())
    plain = {
        name: f"plain_{row['plain']}" for name, row in results.items() if name in image_models.ATTENTIONS
    }
    plain_names = sorted(set(plain.values()))
    means = {name: float(np.mean(row["accuracies"])) for name, row in results.items()}
    gains = {name: means[name] - means[other] for name, other in plain.items()}
    errors = {name: _standard_error(results[name], results[other]) for name, other in plain.items()}
    accuracy = [
        [
            names[name],
            f"{row['parameters']:,}",
            f"{row['operations'] / 1e6:.2f}",
            f"**{means[name]:.4f}** ± {np.std(row['accuracies'], ddof=1):.4f}",
            f"{min(row['accuracies']):.4f} to {max(row['accuracies']):.4f}",
            f"{100 * gains[name]:+.2f} ± {100 * errors[name]:.2f} ({names[plain[name]]})"
            if name in plain
            else "",
        ]
        for name, row in results.items()
    ]
    highest = max(means.values())
    best = " and ".join(names[name] for name, mean in means.items() if np.isclose(mean, highest))
    clear = {name for name in gains if abs(gains[name]) > 2 * errors[name]}
    better, worse = (
        [names[name] for name in gains if name in clear and (gains[name] > 0) == up] for up in (1, 0)
    )
    equal = [names[name] for name in gains if name not in clear]
    below = sum(gain < 0 for gain in gains.values())
    verdict = (
        f"Best: {best}, {highest:.4f}. Better than the plain network of as many parameters by more than two "
        f"standard errors: {', '.join(better) or 'none'}; worse: {', '.join(worse) or 'none'}; no difference "
        f"that {seeds} seeds could show: {', '.join(equal) or 'none'}. {below} of {len(gains)} gains are "
        "below zero. One test image is 0.28 points, and nearly all are told apart without attention: this "
        "says little of harder images."
    )
    parts = [
        "# Which attention for my CNN?",
        "Made by `python -m benchmarks.image_attention`. How to try them on your own images: "
        "[Image classification](../image_classification.md).",
        "## Accuracy",
        "`mobile_cnn` with each attention in its blocks, ViT and Swin Transformer on the 8 x 8 digits of "
        "scikit-learn: 1,437 to train on, 360 to test on (`train_test_split(test_size=0.2, stratify=..., "
        f"random_state=0)`), {seeds} seeds each, mean and standard deviation; hyper-parameters chosen on a "
        "part of the training digits. MFLOP: millions of additions and multiplications for an image, counted "
        "from the operators of the float32 file. Gain: percentage points above the plain network that is "
        "just wide enough to have as many parameters, within 2 %, and its standard error.",
        tables.markdown(
            ["network", "parameters", "MFLOP", "test accuracy", "lowest to highest", "gain"], accuracy
        ),
        verdict,
        "## Files",
        "The networks of seed 0 without softmax, against Keras on the 360 test digits. Ratios are times "
        "against the float32 file, measured in turns. Partitions of float32, float16, dynamic, int8 and "
        "int8_full (int8 inputs and outputs): `1` alone means that XNNPACK runs the whole graph in one, "
        f"`+` that operators are left outside. {tables.provenance()}",
        tables.markdown(
            [
                "network",
                "float32 ms",
                "int8",
                "agreement",
                "accuracy",
                "int8_full",
                "agreement",
                "partitions",
            ],
            [[names[name], *_file_cells(row["digits"])] for name, row in results.items()],
        ),
        "## Larger images",
        f"The same networks at their default size for photographs of {PHOTO_SIZE} x {PHOTO_SIZE} in colour "
        "(`mobile_cnn`: two blocks in each stage instead of one), untrained.",
        tables.markdown(
            ["network", "parameters", "float32 ms", "int8 ms", "int8 / float32", "SQNR", "partitions"],
            [
                [names[name].split(",")[0], *_photo_cells(row["photos"])]
                for name, row in results.items()
                if name == plain_names[0] or name not in plain_names
            ],
        ),
    ]
    refusals = [
        f"- {names[name]}, {kind}: {cell['refusal']}"
        for name, row in results.items()
        for kind, cell in row["digits"].items()
        if "refusal" in cell
    ]
    return "\n\n".join([*parts, *(["Refused:", "\n".join(refusals)] if refusals else [])]) + "\n"


def _standard_error(first: dict[str, Any], second: dict[str, Any]) -> float:
    """Return that of the difference of the means of two rows."""
    return float(
        np.sqrt(sum(np.var(r["accuracies"], ddof=1) / len(r["accuracies"]) for r in (first, second)))
    )


def _long_name(name: str) -> str:
    layer = image_models.ATTENTIONS.get(name)
    return f"`{layer.__name__}`" if layer else name.replace("plain_", "plain, width ")


def _file_cells(cells: dict[str, dict[str, Any]]) -> list[str]:
    int8, full = cells["int8"], cells["int8_full"]
    return [
        f"{cells['float32']['milliseconds']:.3f}",
        _cell(int8, lambda cell: f"{_ratio(cell):.2f} x"),
        _cell(int8, lambda cell: f"{cell['agreement']:.4f}"),
        _cell(int8, lambda cell: f"{cell['accuracy']:.4f}"),
        _cell(full, lambda cell: f"{_ratio(cell):.2f} x"),
        _cell(full, lambda cell: f"{cell['agreement']:.4f}"),
        ", ".join(_cell(cells[kind], lambda cell: cell["partitions"]) for kind in PRECISIONS),
    ]


def _photo_cells(cells: dict[str, dict[str, Any]]) -> list[str]:
    int8 = cells["int8"]
    return [
        f"{cells['parameters']:,}",
        f"{cells['float32']['milliseconds']:.3f}",
        _cell(int8, lambda cell: f"{cell['milliseconds']:.3f}"),
        _cell(int8, lambda cell: f"{_ratio(cell):.2f} x"),
        _cell(int8, lambda cell: f"{cell['sqnr_db']:.0f} dB"),
        ", ".join(_cell(cells[kind], lambda cell: cell["partitions"]) for kind in ("float32", "int8")),
    ]


def _cell(cell: dict[str, Any], write: Callable[[dict[str, Any]], str]) -> str:
    return "refused" if "refusal" in cell else write(cell)


def _ratio(cell: dict[str, Any]) -> float:
    return cell["milliseconds"] / cell["float32_milliseconds"]
