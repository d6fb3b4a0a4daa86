"""Training and evaluation of the activity models: a fixed number of epochs, no look at the test windows.

The recipe, for both models: AdamW with clipped gradients, a learning rate that warms up over a tenth of the
steps and falls along a cosine, label smoothing, and a moving average of the weights as the final weights.
"""

import dataclasses

import keras
import numpy as np
from rich import progress

from common import activity_augmentation
from common import activity_models
from common import progress_bar
from common import watch_data


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything that training depends on, besides the recordings."""

    model: str = "transformer"
    """A key of `activity_models.BUILDERS`."""
    epochs: int = 30
    batch_size: int = 64
    batches_per_epoch: int | None = None
    """`None`: about as many windows as the recordings hold."""
    learning_rate: float = 2e-3
    weight_decay: float = 0.02
    label_smoothing: float = 0.1
    average: float = 0.99
    """Momentum of the moving average of the weights."""
    augmentation: activity_augmentation.Augmentation = dataclasses.field(
        default_factory=activity_augmentation.Augmentation
    )
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """Accuracy on recordings that training has not seen."""

    windows: float
    """Share of windows classified right: the number to compare with the literature."""
    recordings: float
    """Share of recordings classified right by the mean probability of their windows."""
    subjects: dict[int, float]
    """Window accuracy for each subject."""


def train(
    recordings: tuple[watch_data.Recording, ...],
    recipe: Recipe,
    *,
    show: progress.Progress | None = None,
    label: str = "",
) -> keras.Model:
    """Trains a new model on the given recordings only; normalization statistics come from them too.

    Args:
        recordings: Training recordings.
        recipe: Model and hyper-parameters.
        show: A running rich progress display to add a bar to.
        label: What the bar says besides the model.

    """
    keras.utils.set_random_seed(recipe.seed)
    batches = activity_augmentation.RandomWindows(
        recordings,
        augmentation=recipe.augmentation,
        batch_size=recipe.batch_size,
        num_batches=recipe.batches_per_epoch,
        seed=recipe.seed,
    )
    model = activity_models.BUILDERS[recipe.model](*watch_data.statistics(recordings))
    steps = recipe.epochs * len(batches)
    warmup = steps // 10
    learning_rate = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - warmup), alpha=0.01, warmup_target=recipe.learning_rate, warmup_steps=warmup
    )
    model.compile(
        keras.optimizers.AdamW(
            learning_rate,
            weight_decay=recipe.weight_decay,
            global_clipnorm=1.0,
            use_ema=True,
            ema_momentum=recipe.average,
        ),
        keras.losses.CategoricalCrossentropy(label_smoothing=recipe.label_smoothing),
        metrics=["accuracy"],
    )
    callbacks = [] if show is None else [progress_bar.Bar(show, f"{recipe.model} {label}".strip(), steps)]
    model.fit(batches, epochs=recipe.epochs, callbacks=callbacks, verbose=0)
    # A copy without the optimizer, whose state would make the file four times as large.
    trained = type(model).from_config(model.get_config())
    trained.set_weights(model.get_weights())
    return trained


def probabilities(model: keras.Model, inputs: np.ndarray, *, batch_size: int = 256) -> np.ndarray:
    """Probabilities `(batch, 7)` of windows `(batch, 128, 6)`."""
    parts = [
        model(inputs[start : start + batch_size], training=False)
        for start in range(0, len(inputs), batch_size)
    ]
    return np.concatenate([keras.ops.convert_to_numpy(part) for part in parts])


def accuracy(windows: watch_data.Windows, outputs: np.ndarray) -> Accuracy:
    """Compares probabilities `(batch, 7)` with the labels of the windows they belong to."""
    right = outputs.argmax(axis=-1) == windows.labels
    votes = []
    for number in np.unique(windows.recordings):
        of_recording = windows.recordings == number
        vote = outputs[of_recording].mean(axis=0).argmax()
        votes.append(vote == windows.labels[of_recording][0])
    return Accuracy(
        windows=float(right.mean()),
        recordings=float(np.mean(votes)),
        subjects={
            int(subject): float(right[windows.subjects == subject].mean())
            for subject in np.unique(windows.subjects)
        },
    )
