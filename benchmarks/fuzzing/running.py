"""Damaging the files, and running the commands on them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.fuzzing import judging
from benchmarks.fuzzing import keras_mutations
from benchmarks.fuzzing import tflite_mutations
from benchmarks.fuzzing.driving import COMMANDS

Result = dict[str, str]
KERAS_SHARE = 4
"""Every so many files one is a .keras file."""
_COMMAND_SECONDS = 180.0


def damage(sources: Path, folder: Path, count: int, seed: int, canary: Path) -> dict[str, str]:
    """Write so many damaged files into the folder, every kind of damage in turn.

    Returns:
        file name -> kind of damage.
    """
    generator = np.random.default_rng(seed)
    kinds = {}
    for number in range(count):
        suffix = "keras" if number % KERAS_SHARE == KERAS_SHARE - 1 else "tflite"
        chosen = sorted(sources.glob(f"*.{suffix}"))
        content = chosen[int(generator.integers(len(chosen)))].read_bytes()
        turn = number // KERAS_SHARE if suffix == "keras" else number
        if suffix == "keras":
            kind, mutate = _in_turn(keras_mutations.MUTATIONS, turn)
            damaged = mutate(content, generator, str(canary))
        else:
            kind, mutate = _in_turn(tflite_mutations.MUTATIONS, turn)
            damaged = mutate(content, generator)
        name = f"damaged_{number:05}.{suffix}"
        (folder / name).write_bytes(damaged)
        kinds[name] = f".{suffix}: {kind}"
    return kinds


def _in_turn(mutations: dict, turn: int):
    names = list(mutations)
    name = names[turn % len(names)]
    return name, mutations[name]


def run_forked(folder: Path, seconds: float) -> list[Result]:
    """Run every command on every file, both kinds of files at the same time."""
    canary = folder / "canary"
    programs = {
        kind: subprocess.Popen(
            [
                *(sys.executable, "-W", "ignore", "-m", "benchmarks.fuzzing.driving"),
                *(kind, str(folder), str(canary), str(seconds)),
            ]
        )
        for kind in ("tflite", "keras")
    }
    results: list[Result] = []
    for kind, program in programs.items():
        if program.wait() != 0:
            raise RuntimeError(f"The program that runs the .{kind} files ended with {program.returncode}.")
        results += json.loads((folder / f"results.{kind}.json").read_text())
    return results


def run_commands(folder: Path, names: list[str], count: int, seed: int) -> list[Result]:
    """Run some files through the commands as a user starts them, and judge exit code and output."""
    generator = np.random.default_rng(seed)
    results = []
    for number, name in enumerate(generator.choice(names, min(count, len(names)), replace=False)):
        command = COMMANDS[number % len(COMMANDS)]
        path = folder / str(name)
        program = [sys.executable, "-m", "keras_attention.tflite.command_line", command, str(path)]
        try:
            done = subprocess.run(program, capture_output=True, text=True, timeout=_COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            results.append(
                {"file": path.name, "command": command, "outcome": judging.FAULT, "text": "no end"}
            )
            continue
        results.append({"file": path.name, "command": command, **_judge(path, done)})
        if (folder / "canary").exists():
            results[-1] |= {"outcome": judging.FAULT, "text": "code of the file was run"}
    return results


def _judge(path: Path, done: subprocess.CompletedProcess[str]) -> Result:
    if done.returncode not in (0, 1) or "Traceback" in done.stderr or "\x1b" in done.stdout:
        return {"outcome": judging.FAULT, "text": f"exit code {done.returncode}: {done.stderr[-1000:]}"}
    _, found, message = done.stderr.partition("Error: ")
    if not found:  # `check` and `verify` end with 1 where they found something
        return {"outcome": judging.ANSWERED, "text": ""}
    return judging.judge_message(path, message, "ConversionError")
