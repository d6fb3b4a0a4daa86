"""Running a .tflite file on LiteRT: outputs, latency and what the XNNPACK delegate took.

Everything here runs native code on a file that may be wrong. `convert` calls it in the child
process only.
"""

from __future__ import annotations

import collections
import time
import warnings
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter

from keras_attention.tflite import partitions
from keras_attention.tflite import steps

Progress = Callable[[int, int], None]
RUNS_PER_TURN = 5
MIN_ROUNDS = 4


def load_interpreter(content: bytes, *, num_threads: int = 1, keep_tensors: bool = False) -> Interpreter:
    """Return an interpreter with XNNPACK and allocated tensors.

    `keep_tensors` keeps the intermediate tensors readable after a run.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*experimental_preserve_all_tensors.*")
        interpreter = Interpreter(
            model_content=bytes(content),
            num_threads=num_threads,
            experimental_preserve_all_tensors=keep_tensors,
        )
    interpreter.allocate_tensors()
    return interpreter


def set_inputs(interpreter: Interpreter, sample: Mapping[str, np.ndarray]) -> None:
    """Write one sample (arrays without the batch axis, in the file's order) into the input tensors.

    A file that takes several samples at a time gets it as often.
    """
    set_batch(interpreter, {name: np.asarray(value)[np.newaxis] for name, value in sample.items()})


def set_batch(interpreter: Interpreter, samples: Mapping[str, np.ndarray]) -> None:
    """Write as many samples as the file takes at a time; where fewer are left, the last is repeated.

    Real values for an input that is an integer with a scale are quantized.
    """
    for detail, values in zip(interpreter.get_input_details(), samples.values(), strict=True):
        missing = detail["shape"][0] - len(values)
        whole = np.concatenate([values, np.repeat(values[-1:], missing, axis=0)]) if missing else values
        interpreter.set_tensor(detail["index"], quantize(detail, whole))


def quantize(detail: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
    """Return values in the type of an input, by its scale where there is one and they are real."""
    scale, zero_point = detail["quantization"]
    kind = np.dtype(detail["dtype"])
    if kind.kind == "f" or scale == 0.0 or values.dtype.kind != "f":
        return np.asarray(values, kind)
    return steps.quantize(values, scale, zero_point, kind)


def dequantize(detail: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
    """Return the real values of an output that is an integer with a scale; others as they are."""
    scale, zero_point = detail["quantization"]
    if values.dtype.kind == "f" or scale == 0.0:
        return values
    return ((values.astype(np.float32) - zero_point) * np.float32(scale)).astype(np.float32)


def run_samples(
    content: bytes,
    samples: Mapping[str, np.ndarray],
    progress: Progress | None = None,
    num_carried: int = 0,
) -> list[np.ndarray]:
    """Run the samples, as many at a time as the file takes, and return one array per output over all.

    The arrays hold real values, whatever the outputs' types are. From the second run on the last
    `num_carried` inputs take what the last outputs gave before.
    """
    interpreter = load_interpreter(content)
    count = len(next(iter(samples.values())))
    outputs: list[list[np.ndarray]] = [[] for _ in interpreter.get_output_details()]
    size = int(interpreter.get_input_details()[0]["shape"][0])
    carried = list(samples)[len(samples) - num_carried :]
    for start in range(0, count, size):
        batch = {name: values[start : start + size] for name, values in samples.items()}
        if start:
            batch.update((name, outputs[index - num_carried][-1]) for index, name in enumerate(carried))
        set_batch(interpreter, batch)
        interpreter.invoke()
        done = min(start + size, count)
        for collected, detail in zip(outputs, interpreter.get_output_details(), strict=True):
            values = interpreter.get_tensor(detail["index"])[: done - start]
            collected.append(dequantize(detail, values))
        if progress is not None:
            progress(done, count)
    return [np.concatenate(collected) for collected in outputs]


def measure_latency(
    contents: Sequence[bytes], sample: Mapping[str, np.ndarray], *, seconds: float = 1.0
) -> list[dict[str, float]]:
    """Time one sample on one thread, the files turn by turn, and return milliseconds per file.

    Taking turns in one process lets a slow moment of the machine hit every file alike. Each file
    runs at least 20 times, whatever `seconds` says.
    """
    interpreters = [load_interpreter(content) for content in contents]
    for interpreter in interpreters:
        set_inputs(interpreter, sample)
    times = time_in_turns(interpreters, seconds=seconds)
    return [{"min": float(taken.min()), "median": float(np.median(taken))} for taken in times]


def time_in_turns(
    interpreters: Sequence[Interpreter],
    *,
    seconds: float,
    warmup: int = RUNS_PER_TURN,
    progress: Progress | None = None,
) -> list[np.ndarray]:
    """Return the milliseconds of each run, an array (rounds, RUNS_PER_TURN) per interpreter.

    In each round each interpreter has its turn, each round begun by the next one, so that none always
    runs in the wake of the same other. There are at least 4 rounds, whatever `seconds` per file says.
    """
    for interpreter in interpreters:
        for _ in range(warmup):
            interpreter.invoke()
    rounds: list[list[list[float]]] = [[] for _ in interpreters]
    start = time.perf_counter()
    length = seconds * len(interpreters)
    told = 0
    while len(rounds[0]) < MIN_ROUNDS or time.perf_counter() < start + length:
        first = len(rounds[0])
        for turn in range(len(interpreters)):
            number = (first + turn) % len(interpreters)
            rounds[number].append(_time_turn(interpreters[number]))
        tenths = min(int((time.perf_counter() - start) * 10), int(length * 10))
        if progress is not None and tenths > told:  # rarely, since the parent's work disturbs the times
            told = tenths
            progress(tenths, int(length * 10))
    return [np.asarray(taken) for taken in rounds]


def _time_turn(interpreter: Interpreter) -> list[float]:
    taken = []
    for _ in range(RUNS_PER_TURN):
        start = time.perf_counter()
        interpreter.invoke()
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def count_delegated(interpreter: Interpreter) -> int:
    """Return how many operators of the main graph lie inside the pieces that XNNPACK runs."""
    details = interpreter._get_ops_details()
    pieces = [detail for detail in details if detail["op_name"] == "DELEGATE"]
    operators = [detail for detail in details if detail["op_name"] != "DELEGATE"]
    producers = {int(t): n for n, detail in enumerate(operators) for t in detail["outputs"] if t >= 0}
    inside: set[int] = set()
    for piece in pieces:  # from its outputs back to its inputs
        stop = {int(tensor) for tensor in piece["inputs"]}
        waiting = [int(tensor) for tensor in piece["outputs"]]
        while waiting:
            tensor = waiting.pop()
            number = producers.get(tensor)
            if tensor in stop or number is None or number in inside:
                continue
            inside.add(number)
            waiting += [int(source) for source in operators[number]["inputs"]]
    return len(inside)


def partitions_and_operators(content: bytes) -> tuple[int, dict[str, int]]:
    """Return how many pieces of the graph XNNPACK runs, and operator name -> count.

    One piece is best; the operators are counted as in the file, most frequent first.
    """
    return count_operators(operator_details(content))


def operator_details(content: bytes) -> list[dict[str, Any]]:
    """Return what the runtime lists: the file's operators in order, then one "DELEGATE" for each piece."""
    return list(load_interpreter(content)._get_ops_details())


def count_operators(details: Sequence[Mapping[str, Any]]) -> tuple[int, dict[str, int]]:
    """Return the number of pieces, and operator name -> count, most frequent first."""
    names = [detail["op_name"] for detail in details]
    counts = collections.Counter(name for name in names if name != partitions.DELEGATE)
    return names.count(partitions.DELEGATE), dict(
        sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def is_fully_delegated(content: bytes) -> bool:
    """Tell whether no operator is left outside the CPU accelerator."""
    with CompiledModel.from_buffer(bytes(content)) as model:
        return bool(model.is_fully_accelerated())
