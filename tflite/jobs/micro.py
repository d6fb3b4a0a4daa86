"""Child job "micro": a file's answers on tflite-micro, beside those of LiteRT's reference kernels."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import benchmark_inputs
from keras_attention.tflite import file_structure
from keras_attention.tflite import golden
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import metrics
from keras_attention.tflite.jobs import verify
from keras_attention.tflite.micro import litert
from keras_attention.tflite.micro import operators
from keras_attention.tflite.micro import reference as references
from keras_attention.tflite.micro import running

LOG = "child.log"
_RANDOM_SAMPLES = 8
_Arrays = list[np.ndarray]


def run(folder: Path, job: dict[str, Any], emit: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Run the file that the job names on its golden pairs, on inputs.npz, or on random inputs."""
    emit("inspect", 0, 0)
    content = Path(job["file"]).read_bytes()
    graph = file_structure.read(content)
    _refuse(graph)
    interface = graphs.interface(graph)
    found = _samples(folder, graph, content, interface, job)
    emit("micro", 0, 0)
    answers, arena = running.answers(content, found["samples"], folder / LOG)
    compared = _compare(content, found["samples"], answers, folder / LOG)
    tasks = [spec["task"] for spec in found["document"]["outputs"]] if found["document"] else None
    outputs = [
        _output(spec, tasks[index] if tasks else _task(spec), *(_column(side, index) for side in sides))
        for sides in [(answers, compared["plain"], compared["best"])]
        for index, spec in enumerate(interface["outputs"])
    ]
    names = [graphs.operator_name(graph, op) for s in graph.subgraphs for op in s.operators]
    metadata = graphs.metadata(graph, manifests.ENTRY)
    labels = (found["document"] or {}).get("app", {}).get("labels")
    return {
        "runtime": running.micro_version(),
        "source": found["source"],
        "samples": len(answers),
        "outputs": outputs,
        "arena_bytes": arena["needed"],
        "activation_bytes": arena["head"],
        "persistent_bytes": arena["tail"],
        "manifest_bytes": len(metadata or b""),
        "operators": dict(collections.Counter(names).most_common()),
        "methods": sorted({operators.method(name) for name in names}),
        "kernels": compared["kernels"],
        "faults": [*found["faults"], *compared["faults"], *_against_golden(found, answers)],
        "remarks": [*found["remarks"], *compared["remarks"]],
        "interface": interface,
        "labels": labels if isinstance(labels, dict) else {},
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _refuse(graph: Any) -> None:
    """Raise `ValueError` for what tflite-micro can't run, named before its native code sees the file."""
    lacking = operators.lacking(
        graphs.operator_name(graph, op) for s in graph.subgraphs for op in s.operators
    )
    if lacking:
        raise ValueError(
            f"tflite-micro has no operator {', '.join(lacking)}. Convert with precision='int8_full', or "
            "replace the layer; `keras-attention check FILE --target microcontroller` says where they are."
        )
    if not len(graph.subgraphs[0].outputs):
        raise ValueError("The file has no output, so there is nothing to compare.")
    for index in graphs.indices(graph.subgraphs[0].inputs):
        tensor = graph.subgraphs[0].tensors[index]
        signature = tensor.shapeSignature
        if signature is not None and -1 in list(signature):
            raise ValueError(
                f"Input {graphs.tensor_name(tensor)!r} has an open size, {list(signature)}, and the arena is "
                "planned ahead. Convert with fixed sizes, also for the batch."
            )


def _samples(
    folder: Path, graph: Any, content: bytes, interface: dict[str, Any], job: dict[str, Any]
) -> dict[str, Any]:
    """Return the samples with where they come from, and the manifest where they are its golden pairs."""
    nothing: dict[str, Any] = {"document": None, "faults": [], "remarks": []}
    specs = interface["inputs"]
    if job["names"] is not None:
        with np.load(folder / "inputs.npz") as data:
            given = dict(zip(job["names"], data.values(), strict=True))
        if job["names"] == [None] and len(specs) == 1:
            given = {specs[0]["name"]: given[None]}
        return {**nothing, "samples": _cut(specs, given), "source": "inputs"}
    try:
        document, _, remarks, faults = verify.choose_manifest(graph, hashlib.sha256(content).hexdigest(), job)
    except ValueError as error:
        if job["manifest"] is not None or manifests.read_embedded(graph) is not None:
            raise
        remark = f"Random inputs, since there is no golden pair: {error}"
        samples = [_random(specs, number) for number in range(_RANDOM_SAMPLES)]
        return {**nothing, "samples": samples, "source": "random", "remarks": [remark]}
    verify.check_interface(document, interface)
    shapes = [spec["shape"] for spec in specs]
    samples = [golden.decode_side(p, "inputs", specs, shapes) for p in document["golden"]["pairs"]]
    return {
        "document": document,
        "faults": faults,
        "remarks": remarks,
        "samples": samples,
        "source": "golden pairs",
    }


def _cut(specs: Sequence[Mapping[str, Any]], given: Mapping[str, np.ndarray]) -> list[_Arrays]:
    """Return the user's arrays as inputs of the file, as many samples at a time as it takes."""
    first = list(benchmark_inputs.given_inputs(specs, given, "the file").values())
    if not all(spec["shape"] for spec in specs):
        return [first]
    at_once = [max(spec["shape"][0], 1) for spec in specs]
    samples = [first]
    count = min(len(given[spec["name"]]) // size for spec, size in zip(specs, at_once, strict=True))
    for number in range(1, count):
        part = {
            spec["name"]: given[spec["name"]][number * size : (number + 1) * size]
            for spec, size in zip(specs, at_once, strict=True)
        }
        samples.append(list(benchmark_inputs.given_inputs(specs, part, "the file").values()))
    return samples


def _random(specs: Sequence[Mapping[str, Any]], number: int) -> _Arrays:
    return list(benchmark_inputs.random_inputs(specs, number).values())


def _compare(content: bytes, samples: list[_Arrays], answers: list[_Arrays], log: Path) -> dict[str, Any]:
    """Return LiteRT's answers: as the file is ("plain"), and in the form that rounds alike ("best")."""
    reference = litert.Reference(content)
    plain = [reference.run(sample) for sample in samples]
    found: dict[str, Any] = {
        "plain": plain,
        "best": plain,
        "kernels": reference.kernels,
        "faults": [],
        "remarks": [],
    }
    if _equal(plain, answers):
        return found
    rewritten, count = references.with_convolutions(content)
    if count:
        reference = litert.Reference(rewritten)
        found["best"] = [reference.run(sample) for sample in samples]
    if _equal(found["best"], answers):
        found["remarks"].append(
            "FULLY_CONNECTED rounds otherwise in tflite-micro than in LiteRT's reference kernel: in int8 "
            "twice instead of once, a step in a few of a thousand values; in int16 by a multiplier of 16 "
            "bits, a step in a few of a hundred. Written as a convolution, which rounds alike in both, all "
            "are equal."
        )
        return found
    sample = next(s for s, a, b in zip(samples, answers, found["best"], strict=True) if not _equal([a], [b]))
    first = running.first_difference(content, rewritten, sample, log)
    place = (
        ""
        if first is None
        else (
            f" The first to differ is {first['operator']}, in {first['differing']} of {first['values']} "
            f"values by up to {first['steps']:g}."
        )
    )
    found["faults"].append(f"tflite-micro answers otherwise than {found['kernels']}.{place}")
    return found


def _equal(some: list[_Arrays], others: list[_Arrays]) -> bool:
    """Tell whether all answers are the same: integers bit by bit, floats up to their rounding."""
    pairs = ((a, b) for one, two in zip(some, others, strict=True) for a, b in zip(one, two, strict=True))
    return all(running.same(a, b) for a, b in pairs)


def _column(side: list[_Arrays], index: int) -> np.ndarray:
    return np.concatenate([np.atleast_1d(arrays[index]) for arrays in side])


def _output(
    spec: Mapping[str, Any], task: str, answers: np.ndarray, plain: np.ndarray, best: np.ndarray
) -> dict[str, Any]:
    """Return how far tflite-micro's answers are from LiteRT's, both as the file is and rounded alike."""
    distance = np.abs(answers.astype(np.float64) - plain.astype(np.float64))
    real = [golden.real_values(values, spec) for values in (answers, plain)]
    return {
        "name": spec["name"],
        "values": int(answers.size),
        "differing": int((distance > 0).sum()),
        "largest": float(distance.max(initial=0.0)),
        "real": float(np.abs(real[0].astype(np.float64) - real[1].astype(np.float64)).max(initial=0.0)),
        "agreement": metrics.agreement(real[1], real[0], task),
        "differing_rounded_alike": int((answers != best).sum()),
    }


def _task(spec: Mapping[str, Any]) -> str:
    """Return what an output is compared by where no manifest says so: classes if they are many."""
    if spec["scale"] is None and np.dtype(spec["dtype"]).kind != "f":
        return "labels"
    return "classification" if len(spec["shape"]) >= 2 and spec["shape"][-1] >= 2 else "regression"


def _against_golden(found: Mapping[str, Any], answers: list[_Arrays]) -> list[str]:
    """Return what is wrong with the answers to golden pairs: farther from the stored ones than allowed."""
    document = found["document"]
    if document is None:
        return []
    faults = []
    shapes = [array.shape for array in answers[0]]
    sides = {
        side: [golden.decode_side(p, side, document["outputs"], shapes) for p in document["golden"]["pairs"]]
        for side in ("file", "keras")
    }
    for index, spec in enumerate(document["outputs"]):
        stored, keras = (_column(sides[side], index) for side in ("file", "keras"))
        given = _column(answers, index)
        difference, allowed = golden.deviation(stored, given, keras, spec)
        # By the nearer of the two to Keras, so that wrong golden answers don't allow themselves.
        allowed = min(allowed, golden.deviation(given, stored, keras, spec)[1])
        if not difference <= allowed:
            faults.append(
                f"output {spec['name']!r} answers {difference:.3g} away from the golden answers, where "
                f"{allowed:.3g} is allowed"
            )
    return faults
