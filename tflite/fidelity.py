"""Keras' answers beside the file's: predictions, comparison and floors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.tflite import metrics
from keras_attention.tflite import quiet
from keras_attention.tflite.errors import ConversionError
from keras_attention.tflite.errors import FidelityError
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.report import Report
from keras_attention.tflite.samples import Samples

FLOAT_FLOOR_DB = 60.0
"""Least SQNR of the float32 file: rounding alone gives more than 100 dB."""
HALF_PRECISION_FLOOR_DB = 25.0
"""The same where Keras itself computes in half precision."""
LABEL_FLOOR = 0.99
"""Least share of equal integers in the float32 file: rounding decides no more than rare ties."""
BROKEN_DB = 10.0
"""Below this SQNR a third of the signal is noise; no default accepts that."""
LEAST_DB = {"int8_full": 15.0, "int16x8": 28.0}
"""The same for precisions that are chosen without a look at single layers, and for the one with 16 bits: a
file below has lost a layer to one bad range."""
_SAME_ROUNDING_DB = 6.0
"""How much coarser than Keras' own the rounding of the float32 file may be."""
_BATCH = 64
_ERROR_LENGTH = 600


def predict(
    model: Any, signature: ModelSignature, samples: Samples, *, carry: bool = False
) -> list[np.ndarray]:
    """Return Keras' outputs, one array per output, in the order of `keras.tree.flatten`.

    A stateful model answers each sample from states of zeros, or with `carry` from those that the sample
    before left; its states after each sample follow behind the outputs. It is left as it was.

    Raises:
        ConversionError: Keras itself answers NaN or infinity.
    """
    from keras_attention.tflite.lowering import runnable_form
    from keras_attention.tflite.lowering import stateful

    batches: list[list[np.ndarray]] = []
    arrays = [samples.inputs[name] for name in signature.names()]
    size = 1 if signature.states else _BATCH
    with runnable_form(model), stateful.kept(model):
        for start in range(0, len(samples), size):
            if start == 0 or not carry:
                stateful.reset(model)
            part = signature.pack([array[start : start + size] for array in arrays])
            answers = _answers(model, part, min(size, len(samples) - start), bool(signature.states))
            batches.append([*answers, *stateful.read(model)])
    joined = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return finite_answers(joined, f"Model {model.name!r}")


def finite_answers(answers: list[np.ndarray], who: str) -> list[np.ndarray]:
    """Return reference answers in types that can be compared.

    Raises:
        ConversionError: naming `who` gave an infinite or NaN one.
    """
    for index, output in enumerate(answers):
        values = output.astype(np.float32) if output.dtype.kind not in "fiub" else output
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))[0])
            raise ConversionError(
                f"{who} has no finite answer: NaN or infinity in output {index}, first for sample {bad} of "
                "the evaluation. Repair the model or that sample; there is nothing to compare with."
            )
        answers[index] = values
    return answers


def _answers(model: Any, inputs: Any, count: int, keeps_state: bool = False) -> list[np.ndarray]:
    """Return Keras' outputs for one batch, each with one entry per sample."""
    import keras

    try:
        with quiet.without_retracing_warnings():
            if keeps_state and keras.backend.backend() == "jax":  # its predict_on_batch forgets new states
                answers = keras.tree.map_structure(keras.ops.convert_to_numpy, model(inputs, training=False))
            else:
                answers = model.predict_on_batch(inputs)
        outputs = [np.asarray(output) for output in keras.tree.flatten(answers)]
    except Exception as error:  # whatever the user's model raises on the user's samples
        raise ConversionError(
            f"Model {model.name!r} itself fails on the samples to compare on; integer inputs out of an "
            f"Embedding's range are a usual cause. {type(error).__name__}: {str(error)[:_ERROR_LENGTH]}"
        ) from error
    for index, output in enumerate(outputs):
        if output.shape[:1] != (count,):
            raise ConversionError(
                f"Output {index} of model {model.name!r} has shape {output.shape} for {count} samples. Its "
                "first axis must count samples, since the file answers one at a time."
            )
    return outputs


@dataclass(frozen=True)
class Exact:
    """A model's answers in float64.

    Attributes:
        answers: one array per output.
        rounding_db: how near Keras comes to them in its own type, operation by operation.
    """

    answers: list[np.ndarray]
    rounding_db: float


def exact_answers(model: Any, signature: ModelSignature, samples: Samples) -> Exact | None:
    """Return what the model answers in float64, or None where it can't compute so or answers at random.

    Keras on JAX has no float64 unless configured, a model may hold casts to float32 of its own, and the
    states of a stateful one would have to be carried.
    """
    import keras

    from keras_attention.tflite.lowering import exact_form
    from keras_attention.tflite.lowering import runnable_form

    if keras.backend.backend() != "tensorflow" or signature.states:
        return None
    try:
        with runnable_form(model):
            single, again = (_uncompiled(model, signature, samples, np.float32) for _ in range(2))
        with exact_form(model):
            double = _uncompiled(model, signature, samples, np.float64)
    except Exception:  # of whatever kind; the caller then goes by Keras' compiled answers
        return None
    if not all(np.array_equal(a, b) for a, b in zip(single, again, strict=True)):
        return None
    return Exact(double, worst_sqnr_db(double, single))


def _uncompiled(model: Any, signature: ModelSignature, samples: Samples, dtype: Any) -> list[np.ndarray]:
    """Run the model without compilation, which would take sums and factors together."""
    import keras

    parts: list[list[np.ndarray]] = []
    for start in range(0, len(samples), _BATCH):
        arrays = [samples.inputs[name][start : start + _BATCH] for name in signature.names()]
        tensors = [keras.ops.convert_to_tensor(a.astype(dtype) if a.dtype.kind == "f" else a) for a in arrays]
        outputs = keras.tree.flatten(model(signature.pack(tensors), training=False))
        parts.append([keras.ops.convert_to_numpy(output) for output in outputs])
    return [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]


def random_samples(signature: ModelSignature, model: Any | None, count: int) -> Samples:
    """Return seeded random inputs: standard normal floats, integers that every Embedding knows."""
    generator = np.random.default_rng(0)
    most = min(_vocabulary_sizes(model) if model is not None else [], default=2)
    inputs = {}
    for spec in signature.inputs:
        size = (count, *(n or 1 for n in spec.shape))
        kind = np.dtype(spec.dtype).kind
        values = generator.standard_normal(size) if kind == "f" else generator.integers(0, most, size)
        inputs[spec.name] = values.astype(spec.dtype)
    return Samples(inputs)


def _vocabulary_sizes(model: Any) -> list[int]:
    import keras

    from keras_attention.tflite.lowering import all_layers

    return [layer.input_dim for layer in all_layers(model) if isinstance(layer, keras.layers.Embedding)]


def load_outputs(path: Path) -> list[np.ndarray]:
    """Read what the child's runs gave, one array per output."""
    with np.load(path) as data:
        return [data[name] for name in data.files]


def worst_sqnr_db(reference: list[np.ndarray], result: list[np.ndarray]) -> float:
    """Return the lowest SQNR in dB over the float outputs, or over all where there are only integers."""
    pairs = list(zip(reference, result, strict=True))
    floats = [(a, b) for a, b in pairs if a.dtype.kind == "f"]
    return min(metrics.sqnr_db(a, b) for a, b in floats or pairs)


def check_float_form(
    reference: list[np.ndarray],
    result: list[np.ndarray],
    model: Any,
    changes: dict[str, str],
    exact: Callable[[], Exact | None],
    names: Sequence[str],
    num_states: int = 0,
) -> list[str]:
    """Make sure that tracing and lowering kept the model's meaning, and return remarks.

    Args:
        reference: Keras' answers.
        result: those of the float32 file.
        model: named in errors.
        changes: what the lowering did.
        exact: gives the answers in float64; asked only where the two differ.
        names: of the outputs, in order.
        num_states: how many of them, at the end, are states.

    Raises:
        ConversionError: the float32 file computes something else than Keras.
    """
    ratio = worst_sqnr_db(reference, result)
    halved = any(name.startswith("policy ") and name.endswith("float16") for name in changes)
    floor = HALF_PRECISION_FLOOR_DB if halved else FLOAT_FLOOR_DB
    titles = _titles(names, num_states)
    labels = {
        title: metrics.agreement(a, b, "labels")
        for a, b, title in zip(reference, result, titles, strict=True)
        if a.dtype.kind != "f"
    }
    worst = min(labels, key=lambda title: labels[title], default="")
    if labels and labels[worst] < LABEL_FLOOR:
        raise ConversionError(
            f"Model {model.name!r} computes something else once converted, before any quantization: only "
            f"{labels[worst]:.2%} of the integers of {worst} are Keras' numbers."
        )
    if len(labels) < len(reference) and ratio < floor:
        own = exact()
        if own is not None and worst_sqnr_db(own.answers, result) >= own.rounding_db - _SAME_ROUNDING_DB:
            return [
                f"Keras' own rounding shows: {ratio:.1f} dB between Keras and the float32 file, "
                f"{own.rounding_db:.1f} dB between the model's operations in float32 and in float64."
            ]
        floats = {
            title: metrics.sqnr_db(a, b)
            for a, b, title in zip(reference, result, titles, strict=True)
            if a.dtype.kind == "f"
        }
        where = f" in {min(floats, key=lambda title: floats[title])}" if len(titles) > 1 else ""
        raise ConversionError(
            f"Model {model.name!r} computes something else once converted, before any quantization: SQNR "
            f"{ratio:.1f} dB{where} against Keras where at least {floor:.0f} dB are rounding. Is a layer "
            "random at inference, or does it behave differently for a batch of one sample?"
        )
    if halved:
        return [
            f"Keras computes in half precision, the file in float32: rounding apart, equal ({ratio:.1f} dB)."
        ]
    return []


def _titles(names: Sequence[str], num_states: int) -> list[str]:
    """Return how messages call the outputs, the last of which are states."""
    count = len(names) - num_states
    return [f"{'output' if index < count else 'state'} {name!r}" for index, name in enumerate(names)]


def check_targets(
    reference: list[np.ndarray],
    targets: np.ndarray | None,
    max_metric_drop: float | None,
    task: str | None = None,
) -> None:
    """Raise `ValueError` if the targets don't fit the first output, or are missing where needed."""
    if targets is None:
        if max_metric_drop is not None:
            raise ValueError("`max_metric_drop` needs targets: pass evaluation=(inputs, targets).")
        return
    if targets.dtype.kind not in "fiub" or not np.isfinite(targets).all():
        raise ValueError(
            f"The targets of `evaluation` must be finite numbers. Received: dtype={targets.dtype}"
            f"{', with NaN or infinite values' if targets.dtype.kind == 'f' else ''}"
        )
    shape = reference[0].shape
    kind = task or _task(reference[0])
    if kind == "classification":
        fits = targets.shape in (shape, shape[:-1], (*shape[:-1], 1))
        _check_labels(targets, shape)
    else:
        fits = targets.shape == shape or (targets.shape == shape[:-1] and shape[-1] == 1)
    if not fits:
        raise ValueError(
            f"`evaluation` has targets of shape {targets.shape}, which don't fit the model's first output of "
            f"shape {shape} as a {kind}. Pass class indices, one-hot rows, or values of the output's shape."
        )


def _check_labels(targets: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise `ValueError` unless the targets are one-hot rows or indices of classes that there are."""
    if targets.shape == shape and len(shape) >= 2 and shape[-1] >= 2:
        return
    classes = shape[-1] if len(shape) >= 2 and shape[-1] >= 2 else 2
    wrong = (targets != np.floor(targets)) | (targets < 0) | (targets >= classes)
    if wrong.any():
        raise ValueError(
            f"The targets of `evaluation` must be class indices from 0 to {classes - 1}. "
            f"Received, among others: {targets[wrong].flat[0]:g}"
        )


def compare(
    reference: list[np.ndarray],
    result: list[np.ndarray],
    targets: np.ndarray | None,
    task: str | None,
    names: Sequence[str],
    num_states: int = 0,
) -> dict[str, Any]:
    """Return the report's fields task, agreement, sqnr_db, max_abs_error, metric and by_output.

    The last `num_states` outputs are states, which count for nothing here: what is wrong with them shows in
    the answers to the samples after.
    """
    count = len(reference) - num_states
    reference, result = reference[:count], result[:count]
    tasks = tuple(task or _task(output) for output in reference)
    pairs = list(zip(reference, result, tasks, strict=True))
    return {
        "task": tasks,
        "agreement": min(metrics.agreement(a, b, kind) for a, b, kind in pairs),
        "sqnr_db": worst_sqnr_db(reference, result),
        "max_abs_error": max(metrics.max_abs_error(a, b) for a, b, _ in pairs),
        "metric": None if targets is None else _metric(targets, pairs),
        "by_output": tuple(
            {
                "output": name,
                "agreement": metrics.agreement(a, b, kind),
                "sqnr_db": metrics.sqnr_db(a, b) if a.dtype.kind == "f" else None,
            }
            for name, (a, b, kind) in zip(names[:count], pairs, strict=True)
        )
        if count > 1
        else (),
    }


def _task(output: np.ndarray) -> str:
    if output.dtype.kind != "f":
        return "labels"
    return "classification" if output.ndim >= 2 and output.shape[-1] >= 2 else "regression"


def _metric(targets: np.ndarray, pairs: list[tuple[np.ndarray, np.ndarray, str]]) -> dict[str, Any]:
    """Measure the first output against the targets."""
    reference, result, kind = pairs[0]
    if kind == "labels":
        score = metrics.label_accuracy
    else:
        score = metrics.accuracy if kind == "classification" else metrics.mean_absolute_error
    return {"name": score.__name__, "keras": score(targets, reference), "tflite": score(targets, result)}


@dataclass(frozen=True)
class Floors:
    """What the caller asks of a file; None asks nothing.

    Attributes:
        min_agreement: least share of samples answered as by Keras, of all outputs or by output name.
        min_sqnr_db: least SQNR in dB; None asks for what no good file of the precision falls below.
        max_metric_drop: largest loss of accuracy, or gain of mean absolute error.
    """

    min_agreement: float | Mapping[str, float] | None = None
    min_sqnr_db: float | None = None
    max_metric_drop: float | None = None

    def check_outputs(self, outputs: Sequence[str]) -> None:
        """Raise `ValueError` if a floor is for an output that there isn't."""
        unknown = [
            name
            for name in (self.min_agreement if isinstance(self.min_agreement, Mapping) else ())
            if name not in outputs
        ]
        if unknown:
            raise ValueError(
                f"`min_agreement` names no output of the model. Allowed: {list(outputs)}. "
                f"Received: {unknown[0]!r}"
            )

    def faults(self, measured: Mapping[str, Any], precision: str) -> list[str]:
        """Return what `compare` measured below a floor, in words."""
        faults = []
        usual = LEAST_DB.get(precision, BROKEN_DB)
        floor = usual if self.min_sqnr_db is None else self.min_sqnr_db
        if not measured["sqnr_db"] >= floor:
            of = _of_worst(measured, "sqnr_db")
            faults.append(f"SQNR {measured['sqnr_db']:.1f} dB{of} is below min_sqnr_db={floor:g}")
        if isinstance(self.min_agreement, Mapping):
            faults += _by_output(measured, self.min_agreement)
        elif self.min_agreement is not None and measured["agreement"] < self.min_agreement:
            of = _of_worst(measured, "agreement")
            faults.append(
                f"agreement {measured['agreement']:.4f}{of} is below min_agreement={self.min_agreement:g}"
            )
        metric = measured["metric"]
        if self.max_metric_drop is not None and metric is not None:
            drop = metric["keras"] - metric["tflite"]
            if metric["name"] == "mean_absolute_error":
                drop = -drop
            if not drop <= self.max_metric_drop:
                of = f" of output {measured['by_output'][0]['output']!r}" if measured["by_output"] else ""
                faults.append(
                    f"{metric['name']}{of} loses {drop:.4f}, more than "
                    f"max_metric_drop={self.max_metric_drop:g}"
                )
        return faults


def _by_output(measured: Mapping[str, Any], floors: Mapping[str, float]) -> list[str]:
    """Return which outputs agree less than theirs, in words."""
    rows = measured["by_output"] or ({"output": next(iter(floors)), "agreement": measured["agreement"]},)
    return [
        f"agreement {row['agreement']:.4f} of output {row['output']!r} is below its min_agreement="
        f"{floors[row['output']]:g}"
        for row in rows
        if row["output"] in floors and row["agreement"] < floors[row["output"]]
    ]


def _of_worst(measured: Mapping[str, Any], number: str) -> str:
    """Return which output is the worst, "" where there is only one."""
    known = [row for row in measured["by_output"] if row[number] is not None]
    if not known:
        return ""
    return f" of output {min(known, key=lambda row: row[number])['output']!r}"


def refuse(report: Report, faults: list[str]) -> None:
    """Raise `FidelityError` if there are faults."""
    if faults:
        refusal = "; ".join(faults)
        raise FidelityError(
            f"The {report.precision} file is less exact than allowed, not written: {refusal}. "
            f"{_cure(report)}",
            dataclasses.replace(report, refusal=refusal),
        )


def _cure(report: Report) -> str:
    if report.candidates:
        return "It comes closest of all that were tried. Lower the floors, or choose another `target`."
    if report.precision == "float32":
        return "No file is more exact: lower the floor."
    data = "Calibrate on more representative samples"
    if report.precision not in ("int8_full", "int16x8"):
        if report.precision == "float16":
            return "Use precision='float32'."
        return f"{data}, or use precision='auto', which leaves the noisiest layers in float, or 'float16'."
    cures = [f"{data}, or use precision='int8', which leaves more in float."]
    if report.precision == "int8_full" and report.predicted_size_bytes:  # recurrent layers were written out
        cures.append("A recurrence rounds its state to 8 bits at each step: 'int16x8' keeps 16.")
    cures.append(
        "A softmax over many classes has most probabilities below one step: end the model at its logits."
    )
    return " ".join(cures)
