"""The progress bar of a conversion."""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn
from rich.progress import MofNCompleteColumn
from rich.progress import Progress
from rich.progress import SpinnerColumn
from rich.progress import TextColumn
from rich.progress import TimeElapsedColumn

from keras_attention.tflite.child import STAGES


class StageProgress:
    """Shows one line that says what is being done; silent with `verbose=0`."""

    def __init__(self, verbose: int) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            transient=True,
            disable=not verbose,
        )
        self._task = self._bar.add_task("converting", total=None)

    def __enter__(self) -> StageProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show a stage; `total` 0 means that its length is unknown."""
        description = STAGES[stage]
        self._bar.update(self._task, description=description, completed=done, total=total or None)
