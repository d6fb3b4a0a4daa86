"""Running a file on tflite-micro and beside it on LiteRT. Native code: in the child process only."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tflite_micro import runtime as micro

from keras_attention.tflite import golden
from keras_attention.tflite import graph as graphs
from keras_attention.tflite.micro import litert

_GENEROUS = 128_000_000
"""Bytes of the arena that the file is first run in; no microcontroller has as much."""
_ARENA = re.compile(r"Arena allocation (total|head|tail) (\d+) bytes")
_UNIT = 16
"""Bytes to which the arena is aligned."""
_MOST_LINES = 6

Arrays = list[np.ndarray]


class Log:
    """What native code writes to this process's log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.stat().st_size

    def text(self) -> str:
        """Return what was written since this object was made."""
        with self._path.open("rb") as stream:
            stream.seek(self._start)
            return stream.read().decode(errors="replace")

    def lines(self) -> str:
        """Return the runtime's own lines as one, without those of Python."""
        lines = [line.strip() for line in self.text().splitlines() if line.strip()]
        return "; ".join(lines[-_MOST_LINES:])


def micro_version() -> str:
    """Return the version of tflite-micro."""
    return importlib.metadata.version("tflite_micro")


def load(content: bytes, log: Path, arena_size: int = _GENEROUS, *, keep_tensors: bool = False) -> Any:
    """Return an interpreter of tflite-micro with allocated tensors.

    Raises:
        ValueError: the runtime refuses the file; its own words are in the message.
    """
    kinds = micro.InterpreterConfig
    kind = kinds.kPreserveAllTensors if keep_tensors else kinds.kAllocationRecording
    written = Log(log)
    try:
        return micro.Interpreter.from_bytes(content, arena_size=arena_size, intrepreter_config=kind)
    except RuntimeError as error:
        raise ValueError(
            f"tflite-micro can't load the file: {written.lines() or error}. It runs files of "
            "precision='int8_full', 'int16x8' and 'float32'; what else it lacks, `keras-attention check FILE "
            "--target microcontroller` says."
        ) from error


def answers(content: bytes, samples: Sequence[Arrays], log: Path) -> tuple[list[Arrays], dict[str, int]]:
    """Return the outputs for each sample, and the arena's parts in bytes: "needed", "head" and "tail".

    What stays after loading is the head, shared by activations, and the tail, which lasts. Loading itself may
    take more, for the plan of the head, and an arena must have that too. The samples are run in an arena of
    just the size that is needed.

    Raises:
        ValueError: the runtime refuses the file, or can't run it.
    """
    outputs = len(graphs.read_graph(content).subgraphs[0].outputs)
    interpreter = load(content, log)
    _run(interpreter, samples[0], outputs, log)
    written = Log(log)
    interpreter.print_allocations()
    arena = {part: int(size) for part, size in _ARENA.findall(written.text())}
    arena["needed"] = _smallest(content, arena.pop("total"))
    interpreter = load(content, log, arena["needed"])
    return [_run(interpreter, sample, outputs, log) for sample in samples], arena


def _smallest(content: bytes, used: int) -> int:
    """Return the smallest arena, in units of 16 bytes, in which the file runs."""
    too_small, enough = used - _UNIT, used
    while not _runs(content, enough):
        too_small, enough = enough, enough + max(_UNIT, enough // 8 // _UNIT * _UNIT)
    while enough - too_small > _UNIT:
        middle = (enough + too_small) // 2 // _UNIT * _UNIT
        if _runs(content, middle):
            enough = middle
        else:
            too_small = middle
    return enough


def _runs(content: bytes, size: int) -> bool:
    """Tell whether the file runs in an arena, in a process of its own: one that is too small may end it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            micro.Interpreter.from_bytes(content, arena_size=size).invoke()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def _run(interpreter: Any, sample: Arrays, outputs: int, log: Path) -> Arrays:
    written = Log(log)
    for index, values in enumerate(sample):
        interpreter.set_input(values, index)
    try:
        interpreter.invoke()
    except RuntimeError as error:
        raise ValueError(f"tflite-micro can't run the file: {written.lines() or error}.") from error
    return [interpreter.get_output(index) for index in range(outputs)]


def same(answers: np.ndarray, others: np.ndarray) -> bool:
    """Tell whether answers are the same: integers bit by bit, floats up to their rounding."""
    if answers.dtype.kind != "f":
        return np.array_equal(answers, others)
    allowed = golden.ROUNDING * float(np.abs(others).max(initial=0.0)) + golden.SMALLEST
    return bool((np.abs(answers - others) <= allowed).all())


def first_difference(content: bytes, reference: bytes, sample: Arrays, log: Path) -> dict[str, Any] | None:
    """Return the first operator whose answer differs between the runtimes, with how far it does.

    Args:
        content: the file, for tflite-micro.
        reference: the file for LiteRT, which holds the same tensors and perhaps more.
        sample: one array per input.
        log: of this process.

    Returns:
        {"operator": "MUL (operator 3)", "differing", "values", "steps"}, or None.
    """
    interpreter = load(content, log, keep_tensors=True)
    _run(interpreter, sample, 0, log)
    kept = litert.Reference(reference, keep_tensors=True)
    kept.run(sample)
    graph = graphs.read_graph(content)
    for number, operator in enumerate(graph.subgraphs[0].operators):
        for index in graphs.indices(operator.outputs):
            there = np.asarray(interpreter.GetTensor(index, 0)["tensor_data"])
            here = kept.tensor(index)
            distance = np.abs(there.astype(np.float64) - here.astype(np.float64).reshape(there.shape))
            if not same(there, here.reshape(there.shape)):
                return {
                    "operator": f"{graphs.operator_name(graph, operator)} (operator {number})",
                    "differing": int((distance > 0).sum()),
                    "values": int(distance.size),
                    "steps": float(distance.max()),
                }
    return None
