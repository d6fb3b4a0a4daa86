"""The program of the child process: `python light_worker.py keras|light FOLDER [TASK PARENT]`.

With "light" empty packages stand in the place of those above a job's module, so that nothing of what these
import comes along, and no Keras: a job starts at once and its memory is its own. With "keras" the job
imports them, once the worker sees to it that this process ends with its parent.
With a task and the parent's number the worker imports what the task needs and waits for the job.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from pathlib import Path


def replace_packages() -> None:
    """Put empty packages in the place of those that know Keras."""
    here = Path(__file__).resolve().parent
    for name, path in (("keras_attention", []), ("keras_attention.tflite", [str(here)])):
        package = types.ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package


def main() -> int:
    """Run the worker on the folder that the command line names."""
    kind, folder, *waiting = sys.argv[1:]
    here = Path(__file__).resolve().parent
    # This folder's `inspect` and other names would hide those of Python. It may be spelled through a link.
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    if kind == "light":
        replace_packages()
    spec = importlib.util.spec_from_file_location("worker", here / "worker.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{here / 'worker.py'} is missing: install the package again.")
    worker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(worker)
    return int(worker.main(Path(folder), *waiting))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # all files are written; to take TensorFlow down in order lasts half a second
