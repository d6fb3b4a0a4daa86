"""The child process that runs native code, and what becomes of it.

TensorFlow's converter and the runtime can end their process by a signal. They run in a child, with a
folder for input and output; the caller's process gets a `ConversionError` that says what happened.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attention.tflite.errors import ConversionError

Progress = Callable[[str, int, int], None]
STAGES = {
    "predict": "asking Keras for its answers",
    "start": "starting",
    "export": "loading and tracing the model",
    "adopt": "reading the float file",
    "answer": "asking the float file for its answers",
    "convert": "converting to float32",
    "calibrate": "calibrating",
    "quantize": "quantizing",
    "verify": "running the samples to compare on",
    "measure": "measuring latency",
    "inspect": "reading the file",
    "load": "loading and running the file for the first time",
    "time": "timing the files in turns",
    "profile": "timing each operator",
    "replay": "replaying the golden pairs",
}
"""What is being done, by stage."""
LOG = "child.log"
_TAIL_LINES = 15


def run_job(
    folder: Path, job: Mapping[str, Any], progress: Progress, *, needs_keras: bool = True
) -> dict[str, Any]:
    """Run `worker.main` on the folder in a child process and return its result.

    Args:
        folder: an empty folder of the caller's, with the data that the job names.
        job: plain values, written to job.json.
        progress: called with (stage, done, total).
        needs_keras: False for a job that does without, which starts ten times faster.

    Raises:
        ConversionError: the child ended by a signal or an exception; the stage, the cause and the end
            of its log are in the message.
    """
    (folder / "job.json").write_text(json.dumps(job))
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    light = str(Path(__file__).with_name("light_worker.py"))
    program = ["-m", "keras_attention.tflite.worker"] if needs_keras else [light]
    stage = "start"
    with (folder / LOG).open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, *program, str(folder)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            for line in child.stdout or ():
                message = json.loads(line)
                stage = message["stage"]
                progress(stage, message["done"], message["total"])
            code = child.wait()
        finally:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()
    if code != 0:
        raise ConversionError(_explain(folder, stage, code))
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def _explain(folder: Path, stage: str, code: int) -> str:
    doing = STAGES[stage]
    failure = folder / "failure.json"
    if failure.exists():
        error = json.loads(failure.read_text())
        return f"While {doing}: {error['message']}"
    end = f"by signal {_signal_name(-code)}" if code < 0 else f"with exit code {code}"
    lines = (folder / LOG).read_text(errors="replace").strip().splitlines()[-_TAIL_LINES:]
    log = "\n".join(lines) or "(it wrote nothing)"
    return (
        f"The child process ended {end} while {doing}. Your process, model and files are unharmed. "
        f"The end of its log:\n{log}"
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
