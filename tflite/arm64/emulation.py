"""Running the program inside the emulation: its answers and its counts, or a clear error."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_attention.tflite.arm64 import bed as beds
from keras_attention.tflite.arm64 import program
from keras_attention.tflite.arm64.bed import Bed
from keras_attention.tflite.arm64.processors import Processor
from keras_attention.tflite.errors import ConversionError

RUNS = 3
"""Counted runs; the least is taken, since Python's own housekeeping may fall into one."""
PREFIX = "prefix"
"""What the program sees as /, relative to where it runs."""
_LOG = "emulation.log"
_COUNTS = "counts.txt"
_PLUGIN = "plugin.so"
_TAIL_LINES = 8
_DOING = {
    "": "starting Python",
    "reference": "answering with the reference kernels",
    "xnnpack": "answering with XNNPACK",
    "count": "counting instructions",
}


def run(
    bed: Bed, processor: Processor, model: Path, inputs: Path, folder: Path, *, count: bool, seconds: float
) -> tuple[dict[str, list[np.ndarray]], dict[str, int] | None]:
    """Answer with the file on an emulated processor.

    Args:
        bed: the test bed.
        processor: what to emulate.
        model: the .tflite file.
        inputs: an .npz file with the arrays 0, 1, ..., one per input, the first axis counting samples.
        folder: an empty one of the caller's.
        count: whether to count instructions.
        seconds: after which the emulation is ended.

    Returns:
        The answers as `program.answer` gives them, and class -> executed instructions of one run.

    Raises:
        ConversionError: it crashed, or took too long; says on what processor and where.
    """
    arguments = [str(Path(program.__file__).resolve()), f"{PREFIX}/{beds.SITE}", str(model.resolve())]
    arguments += [str(inputs.resolve()), "outputs.npz", str(RUNS if count else 0)]
    code = execute(bed, processor, folder, arguments, count=count, seconds=seconds, keep_bed=True)
    if code:
        raise ConversionError(explain(processor, folder, code))
    answers = read_answers(folder / "outputs.npz")
    return answers, least(read_counts((folder / _COUNTS).read_text())[-RUNS:]) if count else None


def execute(
    bed: Bed,
    processor: Processor,
    folder: Path,
    arguments: Sequence[str],
    *,
    count: bool,
    seconds: float,
    keep_bed: bool = False,
) -> int:
    """Run the bed's Python on an emulated processor, and return its exit code.

    Args:
        bed: the test bed.
        processor: what to emulate.
        folder: where it works, with its log and the counts.
        arguments: of Python.
        count: whether to load the counter.
        seconds: after which it is ended.
        keep_bed: whether Python must not write what it compiled into the bed.
    """
    _make_prefix(bed, processor, folder)
    command = [beds.EMULATOR, "-L", PREFIX]
    if count:
        (folder / _PLUGIN).symlink_to((bed.folder / beds.COUNTER).resolve())
        command += ["-plugin", f"./{_PLUGIN}"]
    command += [f"{PREFIX}/{bed.python}", "-I", "-S", *(["-B"] if keep_bed else []), *arguments]
    with (folder / _LOG).open("wb") as log:
        try:
            return subprocess.run(
                command,
                cwd=folder,
                env=_environment(processor, folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=seconds,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise ConversionError(
                f"Emulated {processor.name}: while {_DOING[_stage(folder)]}, it took more than {seconds:g} "
                "seconds and was ended. Emulation is slow; allow more with --timeout, or try fewer --samples."
            ) from error


def version() -> str:
    """Return the emulator's version, as it says it."""
    done = subprocess.run(
        [beds.EMULATOR, "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()[0].removeprefix(f"{beds.EMULATOR} version ")


def read_answers(path: Path) -> dict[str, list[np.ndarray]]:
    """Return what `program.main` wrote, in the form of `program.answer`."""
    with np.load(path) as data:
        outputs = range(len(data.files) // len(program.KINDS))
        return {kind: [data[f"{kind}_{number}"] for number in outputs] for kind in program.KINDS}


def read_counts(text: str) -> list[dict[str, int]]:
    """Return class -> count of each section that the counter wrote."""
    sections = []
    for line in text.splitlines():
        pairs = [field.split("=") for field in line.split()]
        sections.append({name: int(count) for name, count in pairs})
    return sections


def least(sections: list[dict[str, int]]) -> dict[str, int]:
    """Return the section with the fewest instructions."""
    return min(sections, key=lambda section: sum(section.values()))


def _make_prefix(bed: Bed, processor: Processor, folder: Path) -> None:
    """Make what the program sees as /: the bed's root, with the processor's own /proc/cpuinfo."""
    prefix = folder / PREFIX
    (prefix / "proc").mkdir(parents=True)
    (prefix / "proc" / "cpuinfo").write_text(processor.cpuinfo())
    for entry in bed.root.iterdir():
        (prefix / entry.name).symlink_to(entry.resolve())


def _environment(processor: Processor, folder: Path) -> dict[str, str]:
    """Return the environment: nothing of the caller's, which is for another architecture."""
    return {
        "PATH": os.environ.get("PATH", ""),
        "QEMU_CPU": processor.model,
        "COUNTER_OUTPUT": _COUNTS,
        "TMPDIR": str(folder),
        "HOME": str(folder),
        "OPENBLAS_NUM_THREADS": "1",
    }


def _stage(folder: Path) -> str:
    words = (folder / _LOG).read_text(errors="replace").splitlines()
    return next((word for word in reversed(words) if word in _DOING), "")


def explain(processor: Processor, folder: Path, code: int) -> str:
    """Say how the program ended, and where."""
    number = -code if code < 0 else code - 128  # QEMU hands on the guest's signal either way
    known = number in [entry.value for entry in signal.Signals]
    end = f"by signal {signal.Signals(number).name}" if known else f"with exit code {code}"
    lines = (folder / _LOG).read_text(errors="replace").strip().splitlines()
    tail = "\n".join(lines[-_TAIL_LINES:]) or "(it wrote nothing)"
    return (
        f"Emulated {processor.name}: the program ended {end} while {_DOING[_stage(folder)]}. Your process "
        f"and the file are unharmed. The end of its log:\n{tail}"
    )
