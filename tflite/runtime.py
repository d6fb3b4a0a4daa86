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

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter

Progress = Callable[[int, int], None]


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
    """Write as many samples as the file takes at a time; where fewer are left, the last is repeated."""
    for detail, values in zip(interpreter.get_input_details(), samples.values(), strict=True):
        missing = detail["shape"][0] - len(values)
        whole = np.concatenate([values, np.repeat(values[-1:], missing, axis=0)]) if missing else values
        interpreter.set_tensor(detail["index"], np.asarray(whole, detail["dtype"]))


def run_samples(
    content: bytes,
    samples: Mapping[str, np.ndarray],
    progress: Progress | None = None,
    num_carried: int = 0,
) -> list[np.ndarray]:
    """Run the samples, as many at a time as the file takes, and return one array per output over all.

    From the second run on the last `num_carried` inputs take what the last outputs gave before.
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
            collected.append(interpreter.get_tensor(detail["index"])[: done - start])
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
    times: list[list[float]] = [[] for _ in contents]
    for interpreter in interpreters:
        set_inputs(interpreter, sample)
        for _ in range(5):
            interpreter.invoke()
    end = time.perf_counter() + seconds * len(contents)
    while len(times[0]) < 20 or time.perf_counter() < end:
        for interpreter, taken in zip(interpreters, times, strict=True):
            for _ in range(5):
                start = time.perf_counter()
                interpreter.invoke()
                taken.append(time.perf_counter() - start)
    return [{"min": min(taken) * 1e3, "median": float(np.median(taken)) * 1e3} for taken in times]


def partitions_and_operators(content: bytes) -> tuple[int, dict[str, int]]:
    """Return how many pieces of the graph XNNPACK runs, and operator name -> count.

    One piece is best; the operators are counted as in the file, most frequent first.
    """
    names = [detail["op_name"] for detail in load_interpreter(content)._get_ops_details()]
    counts = collections.Counter(name for name in names if name != "DELEGATE")
    return names.count("DELEGATE"), dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def is_fully_delegated(content: bytes) -> bool:
    """Tell whether no operator is left outside the CPU accelerator."""
    with CompiledModel.from_buffer(bytes(content)) as model:
        return bool(model.is_fully_accelerated())
