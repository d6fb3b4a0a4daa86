"""Training and evaluation of the image models: a fixed number of epochs, no look at the test images.

The recipe, for all models: AdamW with clipped gradients, a learning rate that warms up over a tenth of the
steps and falls along a cosine, label smoothing, and a moving average of the weights as the final weights.
Layers that shift, turn, scale and mirror the images stand before the model while it is trained; they are not
part of it.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import layers
from rich import progress

from common import image_models
from common import progress_bar


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """How far each change of a training image may go; zeros leave the images as they are."""

    shift: float = 0.05
    """Share of height and width."""
    turn: float = 0.02
    """Share of a full turn, either way."""
    zoom: float = 0.05
    """Share by which height and width grow or shrink."""
    flip: bool = False
    """Whether left and right are exchanged in half of the images."""
    fill: str = "constant"
    """What fills the border: `"constant"`, black, or `"reflect"`."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long a model is trained where nobody says otherwise, and in which steps."""

    images: int
    """Images seen, each counted once per epoch."""
    batch_size: int
    learning_rate: float


SCHEDULES = {
    "mobile_cnn": Schedule(86_000, 256, 6e-3),
    # Transformers take more steps, and smaller ones, to learn what a convolution is made for.
    "vit_tiny": Schedule(144_000, 64, 3e-3),
    "swin_tiny": Schedule(144_000, 64, 3e-3),
}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything that training depends on, besides the images."""

    model: str = "mobile_cnn"
    """A key of `image_models.BUILDERS`."""
    attention: str | None = None
    """A key of `image_models.ATTENTIONS`, for `mobile_cnn`."""
    width: int | None = None
    """Width of the model, where not its default."""
    epochs: int = 60
    batch_size: int = SCHEDULES["mobile_cnn"].batch_size
    learning_rate: float = SCHEDULES["mobile_cnn"].learning_rate
    weight_decay: float = 0.02
    label_smoothing: float = 0.1
    average: float = 0.97
    """Momentum of the moving average of the weights."""
    augmentation: Augmentation = dataclasses.field(default_factory=Augmentation)
    mixed_precision: bool = False
    """Whether training computes in 16 bits; the model that comes out is float32."""
    seed: int = 0


EPOCHS = (5, 100)
"""The fewest and the most that a schedule asks for."""


def make_recipe(model: str, num_images: int, *, epochs: int | None = None, **options: Any) -> Recipe:
    """The recipe of a model for so many training images.

    Args:
        model: A key of `image_models.BUILDERS`.
        num_images: Number of training images.
        epochs: By default as many as the model's schedule asks for.
        **options: Other fields of `Recipe`.

    """
    schedule = SCHEDULES[model]
    return Recipe(
        model=model,
        epochs=epochs or int(np.clip(round(schedule.images / num_images), *EPOCHS)),
        batch_size=int(np.clip(num_images // 5, 8, schedule.batch_size)),
        learning_rate=schedule.learning_rate,
        **options,
    )


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """Share of images classified right."""

    all: float
    classes: dict[str, float]
    """By name of the class."""


def build(
    recipe: Recipe, image_shape: tuple[int, int, int], num_classes: int, **options: str | bool
) -> keras.Model:
    """A new model, with further options of its builder."""
    if recipe.attention is not None:
        options["attention"] = recipe.attention
    if recipe.width is not None:
        options["width"] = recipe.width
    return image_models.BUILDERS[recipe.model](image_shape, num_classes, **options)


def train(
    images: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    recipe: Recipe,
    *,
    show: progress.Progress | None = None,
    **options: str | bool,
) -> keras.Model:
    """Trains a new model on the given images only.

    Args:
        images: Training images, `(batch, height, width, channels)`, 0 to 255.
        labels: Their classes, `(batch,)`.
        num_classes: Number of classes.
        recipe: Model and hyper-parameters.
        show: A running rich progress display to add a bar to.
        **options: Of the model that is returned: `logits`, `input_dtype`.

    """
    keras.utils.set_random_seed(recipe.seed)
    shape = images.shape[1:]
    model, trained = prepare(shape, num_classes, recipe, len(images))
    name = recipe.model if recipe.attention is None else f"{recipe.model} {recipe.attention}"
    steps = recipe.epochs * steps_per_epoch(recipe, len(images))
    fit(trained, images, labels, recipe, [] if show is None else [progress_bar.Bar(show, name, steps)])
    # A new model of the same weights: without optimizer and augmentation, in float32.
    final = build(recipe, shape, num_classes, **options)
    final.set_weights(model.get_weights())
    return final


def prepare(
    shape: tuple[int, int, int], num_classes: int, recipe: Recipe, num_images: int
) -> tuple[keras.Model, keras.Model]:
    """A new model without softmax, and the same behind the augmenting layers, compiled for training."""
    with _policy("mixed_float16" if recipe.mixed_precision else "float32"):
        model = build(recipe, shape, num_classes, logits=True)
        image = keras.Input(shape, name="image")
        trained = keras.Model(image, model(augmenting_layers(recipe.augmentation)(image)))
    steps = recipe.epochs * steps_per_epoch(recipe, num_images)
    warmup = steps // 10
    learning_rate = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - warmup), alpha=0.01, warmup_target=recipe.learning_rate, warmup_steps=warmup
    )
    trained.compile(
        keras.optimizers.AdamW(
            learning_rate,
            weight_decay=recipe.weight_decay,
            global_clipnorm=1.0,
            use_ema=True,
            ema_momentum=recipe.average,
        ),
        keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=recipe.label_smoothing),
        metrics=["accuracy"],
        # TensorFlow's compiler takes minutes for a step of milliseconds; JAX can't do without.
        jit_compile=False if keras.backend.backend() == "tensorflow" else "auto",
    )
    return model, trained


def fit(
    trained: keras.Model,
    images: np.ndarray,
    labels: np.ndarray,
    recipe: Recipe,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """Trains what `prepare` returned."""
    targets = keras.utils.to_categorical(labels, trained.output_shape[-1])
    trained.fit(
        images, targets, batch_size=recipe.batch_size, epochs=recipe.epochs, callbacks=callbacks, verbose=0
    )


def steps_per_epoch(recipe: Recipe, num_images: int) -> int:
    """Batches of one epoch."""
    return -(-num_images // recipe.batch_size)


def augmenting_layers(option: Augmentation) -> keras.Sequential:
    """Layers that change images in training and let them pass otherwise."""
    changes = [
        layers.RandomTranslation(option.shift, option.shift, fill_mode=option.fill),
        layers.RandomRotation(option.turn, fill_mode=option.fill),
        layers.RandomZoom(option.zoom, option.zoom, fill_mode=option.fill),
    ]
    if option.flip:
        changes.append(layers.RandomFlip("horizontal"))
    return keras.Sequential(changes, name="augmentation")


def answers(model: keras.Model, images: np.ndarray, *, batch_size: int = 256) -> list[np.ndarray]:
    """The model's outputs, one array each, in the order of `keras.tree.flatten`."""
    parts = [
        keras.tree.flatten(model(images[start : start + batch_size], training=False))
        for start in range(0, len(images), batch_size)
    ]
    return [
        np.concatenate([keras.ops.convert_to_numpy(part) for part in row]) for row in zip(*parts, strict=True)
    ]


def accuracy(
    model: keras.Model, images: np.ndarray, labels: np.ndarray, classes: tuple[str, ...]
) -> Accuracy:
    """Compares the model's answers with the labels."""
    right = answers(model, images)[0].argmax(axis=-1) == labels
    by_class = {
        name: float(right[labels == label].mean())
        for label, name in enumerate(classes)
        if (labels == label).any()
    }
    return Accuracy(float(right.mean()), by_class)


@contextlib.contextmanager
def _policy(name: str) -> Iterator[None]:
    """Layers made in the block have this dtype policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
