"""The errors that conversion raises on purpose.

Bad arguments raise `ValueError`, `TypeError` or an `OSError`, as everywhere in Python. The two
classes here are for what only turns out along the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_attention.tflite.report import Report


class ConversionError(RuntimeError):
    """A model can't be converted as asked; the message names the cause and the cure."""


class FidelityError(ConversionError):
    """The converted model exists, but is less exact than the caller allows; nothing was written.

    Attributes:
        report: the `Report` with what was measured.
    """

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report
