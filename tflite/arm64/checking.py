"""`check_arm64`: does a file answer on phones' processors as here, and what does a run cost there?"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import child
from keras_attention.tflite import foreign
from keras_attention.tflite import leftovers
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite.arm64 import bed as beds
from keras_attention.tflite.arm64 import comparison
from keras_attention.tflite.arm64 import emulation
from keras_attention.tflite.arm64 import feeding
from keras_attention.tflite.arm64.processors import PROCESSORS
from keras_attention.tflite.arm64.result import Arm64Check
from keras_attention.tflite.arm64.result import Arm64Processor
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.progress import StageProgress

SAMPLES = 8
SECONDS = 600.0


def check_arm64(
    path: str | Path,
    *,
    data: Any = None,
    samples: int = SAMPLES,
    processors: Sequence[str] = tuple(PROCESSORS),
    count: bool = True,
    timeout: float = SECONDS,
    bed: str | Path | None = None,
    verbose: int = 1,
) -> Arm64Check:
    """Run a .tflite file on emulated processors of phones, and compare with this machine.

    The runtime is LiteRT for arm64 under QEMU, in the test bed that `keras-attention arm64 --setup` makes.
    The file is read and run in child processes, so that one that crashes harms nothing.

    Args:
        path: the .tflite file, of any origin.
        data: samples to answer, as `calibration` of `convert` takes them. Defaults to the golden pairs of the
            file's manifest, or one of random values where there are none.
        samples: how many of them at most, evenly spread. Defaults to 8.
        processors: some of "cortex-a53", "cortex-a76" and "armv8.6". Defaults to all.
        count: whether to count the executed instructions of a run. Defaults to True.
        timeout: seconds for each processor. Defaults to 600.
        bed: folder of the test bed. Defaults to one in the user's cache folder.
        verbose: 0 hides the progress. Defaults to 1.

    Returns:
        The `Arm64Check`; `passed` says whether every processor answers as it must.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError, TypeError: an argument is wrong; the message says what is allowed.
        ConversionError: there is no test bed, the file is damaged, or the emulation crashed or took too
            long; the message says what to do.
    """
    path = Path(path)
    sought = manifests.look_for(path, None)
    _check_arguments(samples, processors, timeout)
    test_bed = beds.require(beds.default_folder() if bed is None else Path(bed))
    if count and test_bed.counter:
        raise ConversionError(
            f"Instructions can't be counted, since {test_bed.counter}. To compare answers only: --no-count, "
            "count=False."
        )
    with StageProgress(verbose) as progress, leftovers.work_folder() as folder:
        if data is not None:
            described = _ask(path, folder, {"step": "interface"}, progress)
            arrays = feeding.take(data, described["interface"]["inputs"], samples)
            numbered: dict[str, Any] = {str(i): array for i, array in enumerate(arrays)}
            np.savez(folder / "inputs.npz", **numbered)
        found = _ask(path, folder, {"step": "answer", "samples": samples, **sought}, progress)
        here = emulation.read_answers(folder / "here.npz")
        results = []
        for number, name in enumerate(processors):
            progress("emulate", number, len(processors))
            place = folder / name
            place.mkdir()
            answers, instructions = emulation.run(
                test_bed,
                PROCESSORS[name],
                path,
                folder / "inputs.npz",
                place,
                count=count,
                seconds=timeout,
            )
            outputs = comparison.compare(
                here,
                answers,
                found["interface"]["outputs"],
                has_integers=found["has_integers"],
                has_floats=found["has_floats"],
            )
            results.append(Arm64Processor(name, outputs, instructions))
    return Arm64Check(
        path=path,
        source=found.get("source", "data"),
        samples=found["samples"],
        machine=platform.machine(),
        processors=tuple(results),
        versions={**test_bed.packages, "QEMU": emulation.version()},
        remarks=tuple(found["remarks"]),
    )


def _check_arguments(samples: Any, processors: Any, timeout: Any) -> None:
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise ValueError(f"`samples` must be an integer above 0. Received: {samples!r}")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ValueError(f"`timeout` must be a number of seconds above 0. Received: {timeout!r}")
    known = list(PROCESSORS)
    if isinstance(processors, str) or not isinstance(processors, Sequence):
        raise TypeError(f"`processors` must be a list with some of {known}. Received: {processors!r}")
    unknown = [name for name in processors if name not in PROCESSORS]
    if unknown or not processors or len(set(processors)) < len(processors):
        raise ValueError(f"`processors` must be some of {known}, each once. Received: {list(processors)}")


def _ask(path: Path, folder: Path, job: dict[str, Any], progress: StageProgress) -> dict[str, Any]:
    """Run the child job "arm64" in the folder, and return its result."""
    job = {"task": "arm64", "file": str(path.resolve()), **job}
    try:
        return child.run_job(folder, job, progress, limits=foreign.limits())
    except ConversionError as error:
        raise ConversionError(f"{str(path)!r} can't be run. {error}") from error
