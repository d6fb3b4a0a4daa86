"""What the child process does; `light_worker.py` starts it.

Reads job.json, does the stages that it asks for, and leaves result.json with the files it names, or
failure.json with the reason. Progress goes to standard output, one JSON object per line.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of <sys/prctl.h>."""
_BACKTRACE = re.compile(r"\s*(<unknown>|loc\(|callsite\(|note: ).*")


def main(folder: Path, task: str = "", parent: str = "") -> int:
    """Do the job in `folder` with the module of `jobs/` that it names, and return the exit code.

    With `task`, what that task needs is imported first, before the job is there.
    """
    emit = _protect_standard_output()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process itself
    if task:
        _end_at_once_with_parent(int(parent))
        _prepare(task)
        if not sys.stdin.readline():  # the parent has ended, or needs no child any more
            return 2
    threading.Thread(target=_end_with_parent, daemon=True).start()
    job = json.loads((folder / "job.json").read_text())
    _end_at_once_with_parent(job["parent"])
    _limit_memory(job["memory_bytes"])
    try:
        module = importlib.import_module(f"keras_attention.tflite.jobs.{job['task']}")
        result = module.run(folder, job, emit)
    except Exception as error:  # the boundary: everything becomes a message for the parent
        import traceback

        traceback.print_exc()
        (folder / "failure.json").write_text(json.dumps({"message": _readable(error)}))
        return 1
    (folder / "result.json").write_text(json.dumps(result))
    return 0


def _prepare(task: str) -> None:
    """Import what a task will need; what goes wrong with that is said when the job is there."""
    with contextlib.suppress(Exception):
        importlib.import_module(f"keras_attention.tflite.jobs.{task}").import_packages()


def _readable(error: Exception) -> str:
    """Return the error's text without MLIR's call sites, with a cure where the cause is known."""
    if isinstance(error, MemoryError):
        return f"it takes more memory than there is for it. {error}".rstrip()
    lines = [line for line in str(error).splitlines() if line.strip() and not _BACKTRACE.fullmatch(line)]
    text = "\n".join(lines[:30]) or type(error).__name__
    if isinstance(error, LookupError | AttributeError | AssertionError):
        return f"an internal error of keras_attention, {type(error).__name__}: {text}. Please report it."
    missing = sorted(set(re.findall(r"\b(?:tf\.|Flex)(\w+)", text)))
    if "is neither a custom op nor a flex op" in text or "Some ops are not supported" in text:
        layers = sorted(set(re.findall(r'"([\w./-]+)/[\w.-]+@|fused\["\w+:", "([^"@]+)', text)))
        where = f" (at {', '.join(filter(None, (a or b for a, b in layers)))})" if layers else ""
        return (
            f"the model uses operators that the phone's runtime lacks: "
            f"{', '.join(missing) or 'unknown'}{where}. "
            "Replace the layer that uses them by one made of standard operators, or move that step out of "
            f"the model.\n{text}"
        )
    return text


def _protect_standard_output() -> Callable[[str, int, int], None]:
    """Keep standard output for progress alone; whatever libraries print goes to the log."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def emit(stage: str, done: int, total: int) -> None:
        channel.write(json.dumps({"stage": stage, "done": done, "total": total}) + "\n")

    return emit


def _end_with_parent() -> None:
    """Wait for the parent's end of standard input to close, which it does however the parent ends."""
    sys.stdin.read()
    os._exit(2)


def _end_at_once_with_parent(parent: int) -> None:
    """Let Linux end this process with its parent, also while native code keeps Python's threads waiting."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(2)


def _limit_memory(size: int | None) -> None:
    """Let allocations beyond so many bytes fail, so that a file can't take the machine's memory."""
    if size is None or sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    size = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
