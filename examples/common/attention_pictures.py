"""Pictures of where a model looks while it classifies one window of watch samples."""

import dataclasses
import pathlib

import numpy as np
from matplotlib import figure
from matplotlib.axes import Axes

from common import files
from common import watch_data

COLORS = ("#0072B2", "#D55E00", "#009E73")  # Okabe and Ito: told apart with every kind of colour vision
LINES = ("-", "--", "-.")


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """What the picture shows."""

    window: np.ndarray
    """Raw samples, `(length, 6)`."""
    weights: np.ndarray
    """How much each position receives, `(key_length,)`, sum 1."""
    matrix: np.ndarray
    """One row of weights per query or per window, `(rows, key_length)`."""
    rows: str
    """What the rows are: `"queries"` or `"windows"`."""
    title: str


def view(
    windows: watch_data.Windows, chosen: int, outputs: np.ndarray, scores: np.ndarray, *, heading: str
) -> View:
    """Collects what to draw for one window.

    Args:
        windows: All windows of the recording.
        chosen: Index of the window to show.
        outputs: Probabilities of all windows, `(batch, 7)`.
        scores: `(batch, num_heads, query_length, key_length)` of self-attention, shown as the mean over
            heads; or `(batch, key_length)` of one query per window, shown for all windows of the recording.
        heading: What comes first in the title.

    """
    label, predicted = windows.labels[chosen], outputs[chosen].argmax()
    title = (
        f"{heading} {windows.subjects[chosen]}, "
        f"{windows.starts[chosen] / watch_data.RATE:.1f} s into the recording\n"
        f"true: {watch_data.EXERCISE_NAMES[label]}, "
        f"predicted: {watch_data.EXERCISE_NAMES[predicted]} ({outputs[chosen, predicted]:.0%})"
    )
    if scores.ndim == 4:
        matrix = scores[chosen].mean(axis=0)  # (query_length, key_length)
        return View(windows.inputs[chosen], matrix.mean(axis=0), matrix, "queries", title)
    if scores.ndim == 2:
        return View(windows.inputs[chosen], scores[chosen], scores, "windows", title)
    raise ValueError(f"`scores` must have rank 4 or 2. Received: scores.shape={scores.shape}")


def draw(shown: View, path: pathlib.Path) -> pathlib.Path:
    """Writes the picture: the six axes and the weights over time; all rows of weights beside them."""
    picture = figure.Figure(figsize=(11, 5.6), layout="constrained")
    picture.suptitle(shown.title, fontsize=11)
    grid = picture.add_gridspec(3, 2, width_ratios=(1.35, 1), height_ratios=(3, 3, 2))
    acceleration = picture.add_subplot(grid[0, 0])
    rotation = picture.add_subplot(grid[1, 0], sharex=acceleration)
    attention = picture.add_subplot(grid[2, 0], sharex=acceleration)
    seconds = len(shown.window) / watch_data.RATE
    _draw_signals(acceleration, shown.window[:, :3], watch_data.AXES[:3], "acceleration (g)")
    _draw_signals(rotation, shown.window[:, 3:], watch_data.AXES[3:], "angular rate (rad/s)")
    _draw_weights(attention, shown.weights, seconds)
    for axes in (acceleration, rotation):
        axes.tick_params(labelbottom=False)
        _shade(axes, shown.weights, seconds)
    matrix = picture.add_subplot(grid[:, 1])
    image = matrix.imshow(
        shown.matrix,
        cmap="cividis",
        vmin=0,
        aspect="auto",
        origin="lower",
        extent=(0, seconds, 0, seconds if shown.rows == "queries" else len(shown.matrix)),
    )
    matrix.set_xlabel("attended time (s)")
    if shown.rows == "queries":
        matrix.set_ylabel("time of the query (s)")
        matrix.set_title("attention, mean over heads, last block", fontsize=10)
    else:
        matrix.set_ylabel("window of the recording")
        matrix.set_title("attention in every window of the recording", fontsize=10)
    picture.align_ylabels([acceleration, rotation, attention])
    picture.colorbar(image, ax=matrix, label="weight (each row sums to 1)")
    return files.write_atomically(path, lambda temporary: picture.savefig(temporary, dpi=150))


def _draw_signals(axes: Axes, signals: np.ndarray, names: tuple[str, ...], label: str) -> None:
    time = np.arange(len(signals)) / watch_data.RATE
    for signal, name, color, line in zip(signals.T, names, COLORS, LINES, strict=True):
        axes.plot(time, signal, line, color=color, label=name, linewidth=1.4)
    axes.set_ylabel(label)
    axes.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize=8, frameon=False, borderaxespad=0.2
    )
    axes.margins(x=0, y=0.1)


def _draw_weights(axes: Axes, weights: np.ndarray, seconds: float) -> None:
    width = seconds / len(weights)
    axes.bar((np.arange(len(weights)) + 0.5) * width, weights, width=0.9 * width, color="#56606B")
    axes.axhline(1 / len(weights), color="black", linewidth=0.8, linestyle=":")
    axes.set_title("dotted: the same everywhere", loc="right", fontsize=8, pad=3)
    axes.set_ylim(0, 1.25 * weights.max())
    axes.set_ylabel("attention")
    axes.set_xlabel("time (s)")


def _shade(axes: Axes, weights: np.ndarray, seconds: float) -> None:
    """Darkens the background where the attention is."""
    bottom, top = axes.get_ylim()
    axes.imshow(
        weights[None] / weights.max(),
        cmap="Greys",
        vmin=0,
        vmax=2.5,
        aspect="auto",
        extent=(0, seconds, bottom, top),
        zorder=0,
    )
    axes.set_ylim(bottom, top)
