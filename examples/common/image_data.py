"""Labelled images as uint8 arrays, split once and for all into a training and a test part.

`digits` comes with scikit-learn: 1,797 handwritten digits of 43 writers, 8 x 8, grey
([UCI](https://archive.ics.uci.edu/dataset/80), CC BY 4.0). `mnist`, `fashion_mnist` and `cifar10` are
downloaded by Keras, with the split of their makers. Any other name is a folder, see `image_folder.py`.
Digits and folders are split 80 : 20 with every class in proportion, by scikit-learn's `train_test_split` with
`random_state=0`; the seed of training doesn't change it.
"""

import dataclasses
import math
from typing import Any

import keras
import numpy as np
from sklearn import datasets
from sklearn import model_selection

from common import image_folder

TEST_SHARE = 0.2
SPLIT_SEED = 0
CLOTHES = (
    "T-shirt",
    "trousers",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
DIGITS = tuple(map(str, range(10)))
DOWNLOADED = {"mnist": DIGITS, "fashion_mnist": CLOTHES, "cifar10": THINGS}
"""Data sets of `keras.datasets` and the names of their classes."""
NAMES = ("digits", *DOWNLOADED)


@dataclasses.dataclass(frozen=True, eq=False)
class Images:
    """Images of known classes in two parts."""

    name: str
    classes: tuple[str, ...]
    """Names of the classes, by label."""
    train: np.ndarray
    """`(batch, height, width, channels)`, uint8."""
    train_labels: np.ndarray
    """`(batch,)`, int32."""
    test: np.ndarray
    test_labels: np.ndarray
    split: str
    """How the two parts were made, in words."""
    notes: tuple[str, ...] = ()
    """What the user should know, such as files that could not be read."""


def load(source: str, image_size: int | None = None) -> Images:
    """Loads one of `NAMES`, or a folder with one subfolder per class.

    Args:
        source: The name or the path.
        image_size: Height and width that the images of a folder are brought to; `None` where they have one
            size.

    Raises:
        OSError: The data set can't be downloaded, or the folder can't be read.
        ValueError: The folder holds no such images, or a size was given for a named data set.

    """
    if source in NAMES and image_size is not None:
        raise ValueError(
            f"--image-size is for a folder of images. Received: {image_size} with --data {source}"
        )
    if source == "digits":
        digits = datasets.load_digits()
        images = np.round(digits.images * (255 / 16)).astype("uint8")[..., None]
        return _split(source, DIGITS, images, digits.target)
    if source in DOWNLOADED:
        return _downloaded(source)
    folder = image_folder.read(source, image_size)
    return _split(source, folder.classes, folder.images, folder.labels, folder.notes)


def holdout(labels: np.ndarray, seed: int = SPLIT_SEED) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the 80 % to train on and of the 20 % to test on, each class in proportion."""
    classes = len(np.unique(labels))
    count = max(classes, math.ceil(TEST_SHARE * len(labels)))
    train, test = model_selection.train_test_split(
        np.arange(len(labels)), test_size=count, stratify=labels, random_state=seed
    )
    return train, test


def _split(
    name: str, classes: tuple[str, ...], images: np.ndarray, labels: np.ndarray, notes: tuple[str, ...] = ()
) -> Images:
    train, test = holdout(labels)
    labels = labels.astype("int32")
    return Images(
        name,
        classes,
        images[train],
        labels[train],
        images[test],
        labels[test],
        f"80 : 20, stratified, seed {SPLIT_SEED}: {len(train)} for training, {len(test)} for the test",
        notes,
    )


def _downloaded(name: str) -> Images:
    try:
        parts = getattr(keras.datasets, name).load_data()
    except Exception as error:  # Keras raises a plain Exception where a download fails
        raise OSError(
            f"--data {name} can't be downloaded: {error}. Without a network take --data digits, which is "
            "installed with scikit-learn, or --data FOLDER, with one subfolder of images per class."
        ) from error
    (train, train_labels), (test, test_labels) = parts
    split = f"as published: {len(train)} for training, {len(test)} for the test"
    return Images(
        name,
        DOWNLOADED[name],
        _with_channels(train),
        _as_labels(train_labels),
        _with_channels(test),
        _as_labels(test_labels),
        split,
    )


def _with_channels(images: np.ndarray) -> np.ndarray:
    return images[..., None] if images.ndim == 3 else images


def _as_labels(labels: Any) -> np.ndarray:
    return np.asarray(labels, "int32").reshape(-1)
