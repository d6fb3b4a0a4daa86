"""`python -m benchmarks.killing --times 20`: conversions killed at spread moments, and what they leave.

A small model is converted onto an existing file again and again. Parent or child gets a signal at a moment
that moves from start to end, so that it falls into loading, tracing, converting, quantizing, comparing and
writing. Then: the file is the old one or a whole new one that verifies, its manifest belongs to a file or is
seen to be stale, no process is left, and after the next conversion that is let live nothing else is either.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import collections
import dataclasses
import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console

from benchmarks import tables

ENDINGS = (("parent", "SIGKILL"), ("child", "SIGKILL"), ("parent", "SIGTERM"), ("parent", "SIGINT"))
_OFTEN = 0.02
_PATIENCE = 5.0
"""Seconds after which no process may be left."""
_MAKE = """
import sys
from pathlib import Path
import keras, numpy as np
folder = Path(sys.argv[1])
keras.utils.set_random_seed(7)
steps = keras.Input((7, 3), name="steps")
model = keras.Model(steps, keras.layers.Dense(3, name="scores")(keras.layers.LSTM(11)(steps)))
model.save(folder / "model.keras")
np.savez(folder / "samples.npz", steps=np.random.default_rng(7).normal(size=(64, 7, 3)).astype("float32"))
"""


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One killed conversion.

    Attributes:
        who: "parent" or "child" got the signal.
        how: the signal's name.
        stage: what the conversion said it was doing, "" before its first word.
        file: "old" or "new".
        faults: what was wrong afterwards, in words.
    """

    who: str
    how: str
    stage: str
    file: str
    faults: tuple[str, ...]


class Scene:
    """A folder with a model, samples and a converted file, and a folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.target = self.out / "model.tflite"
        self.temporary = folder / "temporary"
        self.out.mkdir()
        self.temporary.mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONWARNINGS": "ignore"}
        subprocess.run([sys.executable, "-c", _MAKE, str(folder)], check=True, env=self.environment)
        self.precisions = ("float32", "int8")
        self.made: dict[str, bytes] = {}
        self.seconds = 0.0
        for precision in reversed(self.precisions):
            began = time.monotonic()
            self.convert(precision).communicate()
            self.seconds = max(self.seconds, time.monotonic() - began)
            self.made[precision] = self.target.read_bytes()

    def convert(self, precision: str) -> subprocess.Popen[bytes]:
        """Start the command, in a group of processes of its own."""
        samples = ("--calibration", str(self.folder / "samples.npz"))
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "keras_attention.tflite.command_line", "convert"),
                *(
                    str(self.folder / "model.keras"),
                    "-o",
                    str(self.target),
                    "--precision",
                    precision,
                    *samples,
                ),
            ],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("wb"),
            start_new_session=True,
            preexec_fn=_hear_interrupts,
        )

    def attempt(self, who: str, how: str, share: float, wanted: str) -> Attempt:
        """Convert to `wanted`, send the signal after a share of the usual time, and look around.

        TensorFlow swallows an interrupt that comes while it traces; the command then goes on.
        """
        old = self.target.read_bytes()
        before = set(self._temporary_files())
        program = self.convert(wanted)
        end = time.monotonic() + share * self.seconds
        while time.monotonic() < end and program.poll() is None:
            time.sleep(_OFTEN)
        stage = self._stage()
        victim = program.pid if who == "parent" else self._wait_for_child(program, round(share * 1_000))
        if victim is not None and program.poll() is None:
            os.kill(victim, getattr(signal, how))
        sent = time.monotonic()
        program.wait()
        faults = list(self._processes_left(program.pid))
        if (
            who == "parent"
            and how != "SIGINT"
            and program.returncode == 0
            and time.monotonic() - sent > _PATIENCE
        ):
            faults.append(f"the command went on after {how}")
        left = sorted(set(self._temporary_files()) - before)
        if left and program.returncode >= 0:  # a signal that is not caught gives no time to tidy up
            faults.append(f"temporary files are left: {left}")
        now = self.target.read_bytes()
        whole = {hashlib.sha256(content).hexdigest(): content for content in self.made.values()}
        if now != old and hashlib.sha256(now).hexdigest() not in whole:
            faults.append("the file is neither the old one nor a whole new one")
        faults += self._manifest_faults(now)
        return Attempt(who, how, stage, "old" if now == old else "new", tuple(faults))

    def settle(self) -> list[str]:
        """Convert once more, undisturbed, and return what is left that shouldn't be."""
        program = self.convert(self.precisions[0])
        program.wait()
        faults = (
            []
            if program.returncode == 0
            else [f"the next conversion failed: {(self.folder / 'log').read_text()}"]
        )
        own = {"model.tflite", "model.manifest.json"}
        strange = sorted({path.name for path in self.out.iterdir()} - own)
        strange += self._temporary_files()
        command = [sys.executable, "-m", "keras_attention.tflite.command_line", "verify", str(self.target)]
        verified = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if verified.returncode != 0:
            faults.append(f"the file doesn't verify: {verified.stdout}{verified.stderr}")
        return [*faults, *(f"left behind: {name}" for name in strange)]

    def _temporary_files(self) -> list[str]:
        """Return what lies among the temporary files, but for TensorFlow's own of a killed parent.

        It writes them while the parent traces the model, and removes them only where Python ends by itself.
        """
        names = (path.name for path in self.temporary.iterdir())
        return sorted(name for name in names if not name.startswith("__autograph_generated_file"))

    def _stage(self) -> str:
        """Return what a child was started for, by the job in the newest temporary folder."""
        jobs = sorted(self.temporary.glob("**/job.json"), key=lambda path: path.stat().st_mtime_ns)
        if not jobs:
            return "starting" if not list(self.temporary.iterdir()) else "asking Keras, tracing"
        try:
            return str(json.loads(jobs[-1].read_text())["task"])
        except (OSError, ValueError, KeyError):
            return "between"

    def _wait_for_child(self, program: subprocess.Popen[bytes], number: int) -> int | None:
        """Return one of the children: some work, some wait for their job."""
        while program.poll() is None:
            found = _children(program.pid)
            if found:
                return found[number % len(found)]
            time.sleep(_OFTEN)
        return None

    def _processes_left(self, group: int) -> list[str]:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if not _members(group):
                return []
            time.sleep(_OFTEN)
        left = [f"process {pid} is alive {_PATIENCE:g} s later" for pid in _members(group)]
        os.killpg(group, signal.SIGKILL)
        return left

    def _manifest_faults(self, content: bytes) -> list[str]:
        """The manifest beside is that of the file, or of the other one, which `verify` tells by its hash."""
        document = json.loads((self.out / "model.manifest.json").read_text())
        hashes = {hashlib.sha256(made).hexdigest() for made in self.made.values()}
        known = hashes | {hashlib.sha256(content).hexdigest()}
        return [] if document["file"]["sha256"] in known else ["the manifest belongs to no file"]


def _hear_interrupts() -> None:
    """Shells let programs in the background ignore SIGINT, and what those start does too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _members(group: int) -> list[int]:
    """Return the living processes of a group, which are all that a command started."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            members.append(int(stat.parent.name))
    return members


@click.command(context_settings={"show_default": True})
@click.option("--times", default=20, type=click.IntRange(min=1), help="Moments for each way to end.")
@click.option(
    "--write", "page", type=click.Path(exists=True, path_type=Path), help="Page to put the table in."
)
def main(times: int, page: Path | None) -> None:
    """Kill conversions and exit with 1 where one leaves a broken file, a process or a stray file."""
    console = Console() if sys.stdout.isatty() else Console(width=140)
    with tempfile.TemporaryDirectory() as name:
        scene = Scene(Path(name))
        console.print(f"a conversion takes {scene.seconds:.1f} s")
        attempts = []
        for number in range(times * len(ENDINGS)):
            who, how = ENDINGS[number % len(ENDINGS)]
            share = (number // len(ENDINGS) + 0.5) / times
            attempts.append(scene.attempt(who, how, share, scene.precisions[number % 2]))
            console.print(f"{number}: {attempts[-1]}", markup=False, highlight=False)
        left = scene.settle()
    faults = [*(fault for attempt in attempts for fault in attempt.faults), *left]
    for fault in faults:
        console.print(fault, markup=False, style="red")
    text = f"{_table(attempts)}\n\n{_summary(attempts, faults, times)}\n{tables.provenance()}"
    console.print(text, markup=False)
    if page is not None:
        tables.replace_between(page, "killing", text)
    sys.exit(1 if faults else 0)


def _table(attempts: list[Attempt]) -> str:
    stages = list(dict.fromkeys(attempt.stage for attempt in attempts))
    counts = collections.Counter((a.who, a.how, a.stage) for a in attempts)
    header = ("killed", *stages, "old file kept", "new file", "faults")
    rows = []
    for who, how in ENDINGS:
        own = [a for a in attempts if (a.who, a.how) == (who, how)]
        files = collections.Counter(a.file for a in own)
        faults = sum(len(a.faults) for a in own)
        numbers = [str(counts[who, how, stage]) for stage in stages]
        rows.append([f"{who} by {how}", *numbers, str(files["old"]), str(files["new"]), str(faults)])
    return tables.markdown(header, rows)


def _summary(attempts: list[Attempt], faults: list[str], times: int) -> str:
    return (
        f"Made by `python -m benchmarks.killing --times {times}`. {len(attempts)} conversions onto an "
        "existing file, by the stage in which the signal came; where the file is new, it came too late. "
        f"Then one more conversion, left alone: {len(faults)} faults in all."
    )


if __name__ == "__main__":
    main()
