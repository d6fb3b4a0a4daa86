"""`python -m benchmarks.fuzzing.driving KIND FOLDER CANARY SECONDS`: all commands on the files of one kind.

For .tflite files Keras is left out, as in the commands' own child processes; for .keras files it is loaded
once. Each command runs in a fork, and starts its child process by a fork: see `forked`. The outcomes go to
results.KIND.json.
"""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rich.console import Console

from benchmarks.fuzzing.judging import FAULT
from benchmarks.fuzzing.judging import judge

COMMANDS = ("inspect", "check", "verify")
_ROOT = Path(__file__).resolve().parents[2]
_APART_SECONDS = 120.0
_TOLD_EVERY = 100


class _Printable(Protocol):
    def print(self, console: Console) -> None: ...


def main(kind: str, folder: Path, canary: Path, seconds: float) -> None:
    """Judge every file of the kind in the folder."""
    if kind == "tflite":
        _leave_keras_out()
    from benchmarks.fuzzing import forked
    from keras_attention.tflite import child
    from keras_attention.tflite import foreign

    commands = _commands(kind)
    child.subprocess.Popen = forked.ForkedChild  # type: ignore[assignment, misc]
    foreign.MOST_SECONDS = seconds
    results = []
    paths = sorted(folder.glob(f"*.{kind}"))
    for number, path in enumerate(paths):
        if number % _TOLD_EVERY == 0:
            print(f"  {number} of {len(paths)} .{kind} files", flush=True)
        for name in COMMANDS:
            command = commands[name]
            result = forked.apart(
                lambda path=path, command=command: judge(path, lambda: command(path)),
                folder / f"note.{kind}",
                _APART_SECONDS,
            )
            if canary.exists():
                result = {"outcome": FAULT, "text": "code of the file was run"}
                canary.unlink()
            results.append({"file": path.name, "command": name, **result})
    (folder / f"results.{kind}.json").write_text(json.dumps(results))


def _leave_keras_out() -> None:
    spec = importlib.util.spec_from_file_location("light_worker", _ROOT / "tflite" / "light_worker.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(
            "tflite/light_worker.py must lie in the checkout, where this program does too."
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.replace_packages()


def _commands(kind: str) -> dict[str, Callable[[Path], object]]:
    """Return each command: the functions behind the command line, which print as they do there."""
    from keras_attention.tflite import foreign
    from keras_attention.tflite import inspection
    from keras_attention.tflite import verification
    from keras_attention.tflite.jobs import check as _check  # noqa: F401  loaded once, before the forks
    from keras_attention.tflite.jobs import inspect as _inspect  # noqa: F401
    from keras_attention.tflite.jobs import keras_file as _keras_file  # noqa: F401
    from keras_attention.tflite.jobs import verify as _verify  # noqa: F401

    def check(path: Path) -> object:
        if kind == "tflite":  # what `check` does with such a file, without the import of Keras around it
            return foreign.run_job(path, {"task": "check"}, "can't be checked")
        from keras_attention.tflite.linting import running

        return running.check(path)

    if kind == "keras":
        from keras_attention.tflite.linting import running  # noqa: F401
    return {
        "inspect": lambda path: _printed(inspection.inspect(path)),
        "check": check,
        "verify": lambda path: _printed(verification.verify(path)),
    }


def _printed(answer: _Printable) -> str:
    stream = io.StringIO()
    answer.print(Console(file=stream, width=120))
    return stream.getvalue()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
