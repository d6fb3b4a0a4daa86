"""What came of one command on one file: an answer, a clear error, or a fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

ANSWERED, REFUSED, FAULT = "answered", "clear error", "FAULT"
_RAW = re.compile(
    r"Traceback|File \"|index out of range|struct\.error|unpack_from|unpack requires|NoneType|"
    r"has no attribute|codec can't|buffer is smaller|buffer size must|cannot reshape|invalid literal|"
    r"not subscriptable|unhashable|"
    r"unsupported operand|not iterable|unexpected keyword|"
    r"\d+ (required )?positional argument|RecursionError|AssertionError"
)
"""Words of Python for programmers; a user can't tell from them what is wrong with a file."""
_FEWEST_WORDS = 4


def judge(path: Path, command: Callable[[], object]) -> dict[str, str]:
    """Run a command and return {"outcome", "text"}; the command returns an object, or its text."""
    try:
        answer = command()
    except (RuntimeError, ValueError, OSError) as error:  # ConversionError is a RuntimeError
        return judge_message(path, str(error), type(error).__name__)
    except BaseException as error:
        return {"outcome": FAULT, "text": f"{type(error).__name__}: {error}"}
    shown = str(answer)
    if "\x1b" in shown or "\x07" in shown:
        return {"outcome": FAULT, "text": "the answer holds orders to a terminal"}
    return {"outcome": ANSWERED, "text": ""}


def judge_message(path: Path, message: str, kind: str) -> dict[str, str]:
    """Return the outcome of an error by its words."""
    reason = message.replace(repr(str(path)), "").replace(str(path), "")
    if kind in ("RuntimeError", "NotImplementedError", "RecursionError", "UnicodeDecodeError"):
        return {"outcome": FAULT, "text": f"{kind}: {message}"}
    if path.name not in message:
        return {"outcome": FAULT, "text": f"the error doesn't name the file: {message}"}
    if _RAW.search(message):
        return {"outcome": FAULT, "text": f"Python's words: {message}"}
    if len(reason.split()) < _FEWEST_WORDS or "\x1b" in message:
        return {"outcome": FAULT, "text": f"no reason, or orders to a terminal: {message!r}"}
    return {"outcome": REFUSED, "text": message}
