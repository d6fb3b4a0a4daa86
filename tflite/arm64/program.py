"""The program that answers with a .tflite file: here in a child process, and inside the emulation.

There it is run by its path, with an arm64 Python that has NumPy and LiteRT and nothing else; so it imports
nothing of this package. What it does is said on standard output, one word a line, so that the last one tells
where it ended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    import numpy as np

KINDS = ("reference", "xnnpack")
"""The kernels: the plain ones of the reference, and those that an app gets."""
WARMUP = 3
"""Runs until the count of one more stays the same."""


def main() -> None:
    """Answer, and count where asked: SITE MODEL INPUTS OUTPUTS RUNS."""
    site, model, inputs, outputs, runs = sys.argv[1:]
    sys.path.insert(0, site)
    import numpy as np

    content = Path(model).read_bytes()
    with np.load(inputs) as data:
        samples = [data[str(number)] for number in range(len(data.files))]
    answers = answer(content, samples, lambda word: print(word, flush=True), int(runs))
    named: dict[str, Any] = {f"{kind}_{i}": array for kind in KINDS for i, array in enumerate(answers[kind])}
    np.savez(outputs, **named)


def answer(
    content: bytes, samples: list[np.ndarray], say: Callable[[str], None], runs: int = 0
) -> dict[str, list[np.ndarray]]:
    """Return kind of kernels -> one array per output, the first axis counting samples.

    Args:
        content: of the .tflite file.
        samples: one array per input, the first axis counting samples of the tensor's shape.
        say: called with a kind before its turn.
        runs: of the first sample at the end, each between two system calls that the counter sees.
    """
    answers = {}
    for kind in KINDS:
        say(kind)
        interpreter = _load(content, kind)
        rows = []
        for number in range(len(samples[0])):
            _feed(interpreter, samples, number)
            interpreter.invoke()
            rows.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
        answers[kind] = _stack(rows)
    if runs:
        say("count")
        _feed(interpreter, samples, 0)
        for _ in range(WARMUP):
            interpreter.invoke()
        os.getppid()
        for _ in range(runs):
            interpreter.invoke()
            os.getppid()
    return answers


def _load(content: bytes, kind: str) -> Any:
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_litert.interpreter import OpResolverType

    resolver = OpResolverType.BUILTIN_REF if kind == "reference" else OpResolverType.AUTO
    interpreter = Interpreter(model_content=content, num_threads=1, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    return interpreter


def _feed(interpreter: Any, samples: list[np.ndarray], number: int) -> None:
    for detail, values in zip(interpreter.get_input_details(), samples, strict=True):
        interpreter.set_tensor(detail["index"], values[number])


def _stack(rows: list[list[np.ndarray]]) -> list[np.ndarray]:
    import numpy as np

    return [np.stack(column) for column in zip(*rows, strict=True)]


if __name__ == "__main__":
    main()
