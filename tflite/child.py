"""The child process that runs native code, and what becomes of it.

TensorFlow's converter and the runtime can end their process by a signal. They run in a child, with a
folder for input and output; the caller's process gets a `ConversionError` that says what happened.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_attention.tflite import leftovers
from keras_attention.tflite.errors import ConversionError

Progress = Callable[[str, int, int], None]
STAGES = {
    "predict": "asking Keras for its answers",
    "start": "starting",
    "export": "loading and tracing the model",
    "adopt": "reading the float file",
    "answer": "asking the float file for its answers",
    "convert": "converting to float32",
    "onnx": "converting to ONNX",
    "openvino": "converting to OpenVINO",
    "calibrate": "calibrating",
    "quantize": "quantizing",
    "verify": "running the samples to compare on",
    "measure": "measuring latency",
    "inspect": "reading the file",
    "load": "loading and running the file for the first time",
    "time": "timing the files in turns",
    "profile": "timing each operator",
    "replay": "replaying the golden pairs",
    "micro": "running the file on tflite-micro",
    "emulate": "running on emulated processors",
}
"""What is being done, by stage."""
LOG = "child.log"
_TAIL_LINES = 15


@dataclass(frozen=True)
class Limits:
    """What a job on a file of unknown origin may take.

    Attributes:
        seconds: after which the child is ended.
        memory_bytes: that it gets at most; None where the system has no such limit.
    """

    seconds: float
    memory_bytes: int | None


class Ahead:
    """A child process that imports what its job needs while the caller still prepares that job.

    To be used in a `with` statement, which ends the process if it was never given its job.

    Attributes:
        folder: of the job.
        task: name of the job.
        process: that waits.
        is_given: whether it has its job.
    """

    def __init__(self, folder: Path, task: str, *, needs_keras: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.task = folder, task
        self.is_given = False
        self.process = _start(folder, needs_keras, task, str(os.getpid()))

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *exception: object) -> None:
        _end(self.process)


def run_job(
    folder: Path,
    job: Mapping[str, Any],
    progress: Progress,
    *,
    needs_keras: bool = False,
    limits: Limits | None = None,
    ahead: Ahead | None = None,
) -> dict[str, Any]:
    """Run `worker.main` on the folder in a child process and return its result.

    Args:
        folder: an empty folder of the caller's, with the data that the job names.
        job: plain values, written to job.json.
        progress: called with (stage, done, total).
        needs_keras: True for a job that loads a Keras model, which starts ten times slower.
        limits: for files of unknown origin, which may make native code hang or ask for any memory.
        ahead: a process that was started for this folder and task; else one starts now.

    Raises:
        ConversionError: the child ended by a signal or an exception; the stage, the cause and the end
            of its log are in the message.
    """
    memory = None if limits is None else limits.memory_bytes
    (folder / "job.json").write_text(json.dumps({**job, "memory_bytes": memory, "parent": os.getpid()}))
    stage = "start"
    child = _start(folder, needs_keras) if ahead is None else ahead.process
    clock = None if limits is None else _Clock(child, limits.seconds)
    try:
        if ahead is not None:
            ahead.is_given = True
            _hand_over(child)
        for line in child.stdout or ():
            message = json.loads(line)
            stage = message["stage"]
            progress(stage, message["done"], message["total"])
        code = child.wait()
    finally:
        if clock is not None:
            clock.cancel()
        _end(child)
    if clock is not None and clock.rang:
        raise ConversionError(
            f"While {STAGES[stage]}: it took more than {clock.seconds:g} seconds and was ended. The file is "
            "damaged, or its graph doesn't come to an end."
        )
    if code != 0:
        raise ConversionError(_explain(folder, stage, code, of_a_file=limits is not None))
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def _start(folder: Path, needs_keras: bool, *waiting: str) -> subprocess.Popen[str]:
    """Start the child; `waiting` is the task to prepare for, and the number of this process."""
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if isinstance(entry, str) and entry),
        **dict.fromkeys(
            ("TMPDIR", "TEMP", "TMP"), str(folder)
        ),  # so that what it leaves goes with the folder
    }
    program = [str(Path(__file__).with_name("light_worker.py")), "keras" if needs_keras else "light"]
    with (folder / LOG).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *program, str(folder), *waiting],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def _hand_over(child: subprocess.Popen[str]) -> None:
    """Tell a waiting child that its job.json is there; if it has ended, its exit code tells why."""
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write("go\n")
            child.stdin.flush()


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(
                BrokenPipeError
            ):  # a child that has ended does not read what it was told
                stream.close()


class _Clock:
    """Ends a child process that takes too long."""

    def __init__(self, child: subprocess.Popen[str], seconds: float) -> None:
        self.rang = False
        self.seconds = seconds
        self._child = child
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def _ring(self) -> None:
        self.rang = True
        self._child.kill()

    def cancel(self) -> None:
        """Stop the clock, and wait where it is just ringing."""
        self._timer.cancel()
        self._timer.join()


def _explain(folder: Path, stage: str, code: int, *, of_a_file: bool) -> str:
    doing = STAGES[stage]
    failure = folder / "failure.json"
    text = failure.read_text() if failure.exists() else ""
    if text:
        return f"While {doing}: {json.loads(text)['message']}"
    if leftovers.is_full(folder):
        return f"While {doing}: {leftovers.full(folder)}."
    end = f"by signal {_signal_name(-code)}" if code < 0 else f"with exit code {code}"
    lines = (folder / LOG).read_text(errors="replace").strip().splitlines()[-_TAIL_LINES:]
    log = "\n".join(lines) or "(it wrote nothing)"
    if of_a_file:
        return (
            f"While {doing}: the runtime ended its child process {end}. The file is damaged, asks for more "
            "memory than there is, or was made for another runtime; your process is unharmed. "
            f"The end of its log:\n{log}"
        )
    return (
        f"The child process ended {end} while {doing}. Your process, model and files are unharmed. "
        f"The end of its log:\n{log}"
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
