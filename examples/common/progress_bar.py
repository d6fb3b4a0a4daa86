"""A progress bar for training."""

from typing import Any

import keras
from rich import console
from rich import progress


def display(screen: console.Console) -> progress.Progress:
    """A display that bars are added to; used as a context."""
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left:"),
        progress.TimeRemainingColumn(),
    )
    return progress.Progress(*columns, console=screen)


class Bar(keras.callbacks.Callback):
    """Moves a progress bar with every batch and shows the accuracy on the (augmented) training samples."""

    def __init__(self, show: progress.Progress, description: str, steps: int):
        super().__init__()
        self._show = show
        self._description = description
        self._task = show.add_task(description, total=steps)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Moves the bar by one."""
        self._show.advance(self._task)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Shows the accuracy."""
        logs = logs or {}
        description = f"{self._description}, epoch {epoch + 1}: accuracy {logs.get('accuracy', 0):.3f}"
        self._show.update(self._task, description=description)
