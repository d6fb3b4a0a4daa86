"""Pictures of where in an image a model looks, or, where its gates know no places, which channels it uses."""

import dataclasses
import math
import pathlib
from typing import Any

import keras
import numpy as np
from matplotlib import figure

import keras_attention
from common import files
from common import image_training

MOST_SHOWN = 10
MOST_READ = 500  # the scores of ten thousand images would fill the memory


@dataclasses.dataclass(frozen=True, eq=False)
class Look:
    """What one attention layer says of some images."""

    name: str
    maps: np.ndarray | None
    """How much each place counts, `(batch, height, width)`; `None` where the layer weighs channels only."""
    channels: np.ndarray | None
    """How much each channel counts, `(batch, channels)`."""


def looks(model: keras.Model, images: np.ndarray) -> list[Look]:
    """What each attention layer of the model says of the images, in order; none for a plain network."""
    found: list[tuple[keras.Layer, tuple[int, ...], tuple[Any, ...]]] = []

    # The copy is called with scores from the start: Keras 3.15 cannot use a second call of a layer that has
    # more outputs than the first.
    def call(layer, *args, **kwargs):
        if not layer.name.startswith("attention"):
            return layer(*args, **kwargs)
        outputs, *scores = layer(*args, **kwargs, return_attention_scores=True)
        found.append((layer, tuple(args[0].shape[1:-1]), tuple(scores)))
        return outputs

    copy = keras.models.clone_model(model, call_function=call)
    copy.set_weights(model.get_weights())
    if not found:
        return []
    flat = iter(image_training.answers(keras.Model(copy.input, [scores for *_, scores in found]), images))
    values = [[next(flat) for _ in scores] for *_, scores in found]
    if isinstance(found[0][0], keras_attention.ViTBlock):
        grid = _patch_grid(model)
        return [
            Look("rollout of all blocks", rollout([scores for (scores,) in values]).reshape(-1, *grid), None)
        ]
    return [_look(layer, size, scores) for (layer, size, _), scores in zip(found, values, strict=True)]


def rollout(scores: list[np.ndarray]) -> np.ndarray:
    """How much of each patch reaches the mean over patches, `(batch, patches)`, sum 1.

    Each block passes on half of what it gets and takes the other half by its attention, the mean over heads
    ([Quantifying Attention Flow in Transformers](https://arxiv.org/abs/2005.00928)).
    """
    length = scores[0].shape[-1]
    flow = np.full((len(scores[0]), 1, length), 1 / length)
    for block in reversed(scores):
        flow = flow @ (0.5 * np.eye(length) + 0.5 * block.mean(axis=1))
    return flow[:, 0]


def window_map(
    scores: np.ndarray, size: tuple[int, int], window: tuple[int, int], shift: tuple[int, int]
) -> np.ndarray:
    """How much attention each cell gets within its window, 1 on average, `(batch, height, width)`.

    Args:
        scores: `(batch, num_windows * num_heads, cells, cells)`, window by window.
        size: Height and width of the image.
        window: Height and width of a window.
        shift: How far the image was rolled before it was cut.

    """
    window = (min(window[0], size[0]), min(window[1], size[1]))
    shift = tuple(0 if one >= whole else by for one, whole, by in zip(window, size, shift, strict=True))
    rows, columns = (math.ceil(whole / one) for whole, one in zip(size, window, strict=True))
    received = scores.reshape(len(scores), rows * columns, -1, *scores.shape[-2:]).sum(axis=3).mean(axis=2)
    cells = received.reshape(-1, rows, columns, *window).transpose(0, 1, 3, 2, 4)
    whole = cells.reshape(-1, rows * window[0], columns * window[1])
    return np.roll(whole[:, : size[0], : size[1]], shift, axis=(1, 2))


def draw(
    model: keras.Model, images: np.ndarray, labels: np.ndarray, classes: tuple[str, ...], path: pathlib.Path
) -> pathlib.Path | None:
    """Draws the first image of each class above its maps of attention, one row for each resolution.

    A model whose gates weigh channels alone gets a picture of the mean gate of each channel for each class.
    Writes nothing and returns `None` for a model without attention.
    """
    images, labels = images[:MOST_READ], labels[:MOST_READ]
    shown = [int(np.argmax(labels == label)) for label in range(len(classes)) if (labels == label).any()]
    shown = shown[:MOST_SHOWN]
    found = looks(model, images)
    if not found:
        return None
    with_maps = {look.maps.shape[1:]: look for look in found if look.maps is not None}
    if with_maps:
        predicted = image_training.answers(model, images[shown])[0].argmax(axis=-1)
        titles = [
            f"{classes[labels[index]]} → {classes[answer]}"
            for index, answer in zip(shown, predicted, strict=True)
        ]
        picture = _draw_maps(
            model.name,
            images[shown],
            titles,
            [dataclasses.replace(look, maps=look.maps[shown]) for look in with_maps.values()],
        )
    else:
        picture = _draw_channels(
            model.name, found[-1], images[shown], labels, [labels[index] for index in shown], classes
        )
    return files.write_atomically(path, lambda temporary: picture.savefig(temporary, dpi=110))


def _look(layer: keras.Layer, size: tuple[int, ...], scores: list[np.ndarray]) -> Look:
    if isinstance(layer, keras_attention.SwinBlock):
        return Look(layer.name, window_map(scores[0], size, layer.window_size, layer.shift_size), None)
    if isinstance(layer, keras_attention.CoordinateAttention):
        rows, columns = scores
        maps = np.einsum("bhc,bwc->bhw", rows, columns) / rows.shape[-1]
        return Look(layer.name, maps, None)
    maps = [value for value in scores if value.ndim == 3]
    channels = [value for value in scores if value.ndim == 2]
    return Look(layer.name, maps[0] if maps else None, channels[0] if channels else None)


def _patch_grid(model: keras.Model) -> tuple[int, int]:
    patch = next(
        layer for layer in model.layers if isinstance(layer, keras_attention.PatchEmbedding)
    ).patch_size
    return tuple(math.ceil(size / one) for size, one in zip(model.input_shape[1:3], patch, strict=True))


def _show(axes: Any, image: np.ndarray) -> None:
    axes.imshow(image.squeeze(-1) if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=255)
    axes.set_xticks([])
    axes.set_yticks([])


def _draw_maps(name: str, images: np.ndarray, titles: list[str], found: list[Look]) -> figure.Figure:
    picture = figure.Figure(
        # wide enough for the title where there are few images
        figsize=(max(1.15 * len(images) + 1.6, 5.0), 1.35 * (len(found) + 1) + 0.8),
        layout="constrained",
    )
    picture.suptitle(f"{name}\ntest images and where the attention lies (true class → answer)", fontsize=10)
    grid = picture.subplots(len(found) + 1, len(images), squeeze=False)
    for axes, image, title in zip(grid[0], images, titles, strict=True):
        _show(axes, image)
        axes.set_title(title, fontsize=8)
    for row, look in zip(grid[1:], found, strict=True):
        drawn = None
        for axes, values in zip(row, look.maps, strict=True):
            drawn = axes.imshow(values, cmap="cividis", vmin=look.maps.min(), vmax=look.maps.max())
            axes.set_xticks([])
            axes.set_yticks([])
        height, width = look.maps.shape[1:]
        row[0].set_ylabel(f"{look.name}\n{height} x {width}", fontsize=8)
        picture.colorbar(drawn, ax=list(row), pad=0.01)
    return picture


def _draw_channels(
    name: str,
    look: Look,
    images: np.ndarray,
    labels: np.ndarray,
    shown_labels: list[int],
    classes: tuple[str, ...],
) -> figure.Figure:
    means = np.stack([look.channels[labels == label].mean(axis=0) for label in shown_labels])
    order = np.argsort(-np.ptp(means, axis=0))  # channels whose gate depends on the class first
    picture = figure.Figure(figsize=(11, 0.5 * len(images) + 1.6), layout="constrained")
    picture.suptitle(
        f"{name} weighs channels, alike in every place: mean gate of each channel for each class, "
        f"{look.name}, test images",
        fontsize=11,
    )
    grid = picture.add_gridspec(len(images), 2, width_ratios=(1, 14), wspace=0)
    for row, image in enumerate(images):
        _show(picture.add_subplot(grid[row, 0]), image)
    gates = picture.add_subplot(grid[:, 1])
    drawn = gates.imshow(means[:, order], cmap="cividis", aspect="auto", interpolation="nearest")
    gates.set_yticks(range(len(shown_labels)), [classes[label] for label in shown_labels])
    gates.set_xlabel("channel, the ones that tell classes apart first")
    picture.colorbar(drawn, ax=gates, label="gate", pad=0.01)
    return picture
