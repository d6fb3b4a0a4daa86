"""Child processes by fork, which start a hundred times faster than a new Python, for thousands of files.

`ForkedChild` takes the place of `subprocess.Popen` in `keras_attention.tflite.child`: it runs the same
worker with the same pipes, limits and messages; only the start of the program is left out.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attention.tflite import worker


class ForkedChild:
    """As much of a process as `child.run_job` needs."""

    def __init__(
        self,
        command: list[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: Any,
        text: bool,
    ) -> None:
        del stdin, stdout, text
        to_child, from_child = os.pipe(), os.pipe()
        self.returncode: int | None = None
        self._pid = os.fork()
        if self._pid == 0:
            os.dup2(to_child[0], 0)
            os.dup2(from_child[1], 1)
            os.dup2(stderr.fileno(), 2)
            os.closerange(3, 256)
            os.chdir(cwd)
            os.environ.update(env)
            os._exit(worker.main(Path(command[-1])))
        os.close(to_child[0])
        os.close(from_child[1])
        self.stdin = os.fdopen(to_child[1], "w")
        self.stdout = os.fdopen(from_child[0])

    def wait(self) -> int:
        """Wait for the end and return the exit code, negative for a signal."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self.returncode

    def kill(self) -> None:
        """End it, if it hasn't ended."""
        if self.returncode is None:
            os.kill(self._pid, signal.SIGKILL)


def apart(work: Callable[[], dict[str, str]], note: Path, seconds: float) -> dict[str, str]:
    """Run a function in a fork of this process and return its values, or how the fork ended.

    Returns:
        What the function returned; {"outcome": "FAULT", "text": ...} where the fork didn't come to an end.
    """
    note.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            note.write_text(json.dumps(work()))
        finally:
            os._exit(0)
    end = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"outcome": "FAULT", "text": f"no answer after {seconds:g} s"}
        time.sleep(0.002)
    if not note.exists():
        return {"outcome": "FAULT", "text": "the calling process ended"}
    result: dict[str, str] = json.loads(note.read_text())
    return result
