"""A process of one's own for work that may end by a signal, used again and again while it lives."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 600.0
"""Longer than this no call may take."""
_LOG_END = 500


class Ended(Exception):
    """The process ended, or had to be ended, while it worked; the text says how."""


class Failed(Exception):
    """The call raised an exception; the text says which."""


class Isolated:
    """Calls functions in a child process, which is started when needed and again after its end.

    Functions, arguments and results are pickled, so functions must be importable.

    Args:
        folder: where the process puts its temporary files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._log = Path(folder) / f"{uuid.uuid4()}.log"
        self._process: Any = None
        self._connection: Any = None

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return `function(*args)` as computed there.

        Raises:
            Ended: the process did not survive the call.
            Failed: the function raised.
        """
        if self._process is None:
            self._start()
        try:
            self._connection.send((function, args))
            if not self._connection.poll(SECONDS):
                self.close()
                raise Ended(f"it took more than {SECONDS:.0f} s")
            is_value, result = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            ending = _ending(self._process.exitcode)
            self.close()
            raise Ended(f"process ended by {ending}; the end of its log: {self._log_end()}") from None
        if is_value:
            return result
        raise Failed(result)

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = self._connection = None

    def _log_end(self) -> str:
        return " ".join(self._log.read_text(errors="replace").split())[-_LOG_END:]

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, self._folder, self._log), daemon=True)
        self._process.start()
        there.close()


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _serve(connection: Any, folder: str, log: Path) -> None:
    with log.open("ab") as sink:  # native libraries write to both without asking
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    while True:
        try:
            function, args = connection.recv()
        except EOFError:  # the caller is gone
            return
        try:
            answer = (True, function(*args))
        except Exception as error:  # handed over to the caller
            answer = (False, f"{type(error).__name__}: {error}")
        connection.send(answer)
