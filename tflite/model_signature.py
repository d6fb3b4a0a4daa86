"""What goes into a Keras model and what comes out: names, shapes and types, in Keras' order.

Keras is imported where a model is at hand, since that takes seconds: samples and files do without.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int | None, ...]
_COUNTED = re.compile(r"(input_layer|keras_tensor)(_\d+)?")
"""Names that Keras gives to inputs without one."""
_STATE = re.compile(r"_state_(\d+(?:_\d+)?)$")
"""End of a state's name."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output.

    Attributes:
        name: as in the file's signature.
        shape: without the batch axis; None where the model leaves the size open.
        dtype: such as "float32".
    """

    name: str
    shape: Shape
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class ModelSignature:
    """The inputs of a model and how to hand tensors over to it.

    Attributes:
        inputs: in the order of the model's own structure.
        structure: the nested structure of the inputs (dict, list, single) with indices as leaves.
        states: of stateful layers, which the file takes behind the inputs.
        batch_size: samples that the file takes at a time.
    """

    inputs: tuple[TensorSpec, ...]
    structure: Any
    states: tuple[TensorSpec, ...] = ()
    batch_size: int = 1

    def pack(self, tensors: Sequence[Any]) -> Any:
        """Arrange one tensor per input as the model's `call` wants them."""
        import keras

        return keras.tree.map_structure(lambda index: tensors[index], self.structure)

    def names(self) -> list[str]:
        """Return the input names in order."""
        return [spec.name for spec in self.inputs]

    def file_inputs(self) -> tuple[TensorSpec, ...]:
        """Return what the file takes, in order: the model's inputs and its states."""
        return (*self.inputs, *self.states)

    def output_names(self, names: Sequence[str]) -> list[str]:
        """Return what the file gives, in order: the model's outputs, here named, and the next states."""
        states = [_STATE.sub(r"_next_state_\1", spec.name) for spec in self.states]
        return _unique([*names, *states])


def read_signature(
    model: Any,
    samples: Any = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    batch_size: int = 1,
) -> ModelSignature:
    """Return the signature of a Keras model.

    A functional or Sequential model says it itself. A subclassed model doesn't: its structure is
    that of `samples` (an array, a list or a dict of arrays, the first axis counting samples).
    Sizes that the model leaves open (`None`) come from `input_shapes` or `samples`.

    Raises:
        ValueError: an input shape is not fixed by anything, or `input_shapes` names no input.
    """
    tensors = getattr(model, "inputs", None)
    if tensors:
        signature = _declared(model, tensors, batch_size)
    elif samples is not None:
        signature = _observed(samples)
    else:
        signature = _built(model)
    fixed = _with_fixed_shapes(signature, model, samples, input_shapes or {})
    return ModelSignature(fixed.inputs, fixed.structure, _states(model, fixed.names()), batch_size)


def declared_inputs(
    model: Any, input_shapes: Mapping[str, Sequence[int]] | None = None, batch_size: int = 1
) -> tuple[TensorSpec, ...] | None:
    """Return the inputs that a model lists, open sizes included; None if it lists none."""
    tensors = getattr(model, "inputs", None)
    if not tensors:
        return None
    specs = []
    for spec in _declared(model, tensors, batch_size).inputs:
        given = tuple((input_shapes or {}).get(spec.name, ()))
        shape = given if len(given) == len(spec.shape) else spec.shape
        specs.append(TensorSpec(spec.name, shape, spec.dtype))
    return tuple(specs)


def _states(model: Any, taken: Sequence[str]) -> tuple[TensorSpec, ...]:
    """Name the states of the model's stateful layers `<layer>_state_<index>`."""
    from keras_attention.tflite.lowering import stateful

    found = [
        (f"{layer.name}_state_{index}", variable)
        for layer in stateful.layers_of(model)
        for index, variable in enumerate(stateful.variables_of(layer))
    ]
    names = _unique([*taken, *(name for name, _ in found)])[len(taken) :]
    return tuple(
        TensorSpec(name, tuple(variable.shape[1:]), _file_dtype(variable.dtype))
        for name, (_, variable) in zip(names, found, strict=True)
    )


def _declared(model: Any, tensors: Sequence[Any], batch_size: int) -> ModelSignature:
    import keras

    struct: Any = getattr(model, "_inputs_struct", None)
    if struct is None and hasattr(model, "_functional"):  # a Sequential model wraps a functional one
        struct = getattr(model._functional, "_inputs_struct", None)
    if struct is None:
        struct = tensors[0] if len(tensors) == 1 else list(tensors)
    names = list(struct) if _is_flat_dict(struct) else [_input_name(t, i) for i, t in enumerate(tensors)]
    if _is_flat_dict(struct):
        ordered = [struct[name] for name in names]
        structure: Any = {name: index for index, name in enumerate(names)}
    else:
        ordered = list(tensors)
        positions = iter(range(len(ordered)))
        structure = keras.tree.map_structure(lambda _: next(positions), struct)
    for tensor in ordered:
        if tensor.shape[0] not in (None, batch_size):
            raise ValueError(
                f"Input {tensor.name!r} has a fixed batch size of {tensor.shape[0]}, and the file is to take "
                f"batch_size={batch_size}. Build the model without a batch size, `keras.Input(shape, ...)`, "
                f"or pass batch_size={tensor.shape[0]}."
            )
    specs = tuple(
        TensorSpec(name, tuple(tensor.shape[1:]), _file_dtype(tensor.dtype))
        for name, tensor in zip(_unique(names), ordered, strict=True)
    )
    return ModelSignature(specs, structure)


def _input_name(tensor: Any, index: int) -> str:
    """Return the name that the user gave an input; Keras' counters would change with each build and load."""
    name = tensor.name if tensor._keras_history is None else tensor._keras_history.operation.name
    return f"input_{index}" if _COUNTED.fullmatch(name) else name


def _observed(samples: Any) -> ModelSignature:
    """Take the structure of a subclassed model's inputs from samples."""
    is_list = isinstance(samples, list | tuple) and all(hasattr(item, "shape") for item in samples)
    if isinstance(samples, Mapping):
        names = [str(name) for name in samples]
        leaves = list(samples.values())
        structure: Any = {name: index for index, name in enumerate(samples)}
    elif is_list and len(samples):
        names = [f"input_{index}" for index in range(len(samples))]
        leaves = list(samples)
        structure = list(range(len(samples)))
    else:
        names, leaves, structure = ["input_0"], [samples], 0
    specs = []
    for name, leaf in zip(names, leaves, strict=True):
        array = np.asarray(leaf)
        if array.dtype.kind not in "fiub" or array.ndim == 0:
            raise TypeError(
                f"`calibration` and `evaluation` must be arrays of numbers whose first axis counts samples: "
                f"one, a list of them, or a dict. Received for {name!r}: {type(leaf).__name__}"
            )
        specs.append(TensorSpec(name, tuple(array.shape[1:]), _file_dtype(array.dtype)))
    return ModelSignature(tuple(specs), structure)


def _built(model: Any) -> ModelSignature:
    """Read the shape with which a subclassed model was built, if it has one input."""
    shapes = getattr(model, "_build_shapes_dict", None) or {}
    shape = next(iter(shapes.values()), None) if len(shapes) == 1 else None
    if not isinstance(shape, tuple | list) or not all(isinstance(n, int | None) for n in shape):
        raise ValueError(
            f"Model {model.name!r} has no list of inputs, as subclassed models don't. Pass real samples "
            "as `calibration` or `evaluation`: their names, shapes and types are taken for the file."
        )
    return ModelSignature((TensorSpec("input_0", tuple(shape[1:]), "float32"),), 0)


def _with_fixed_shapes(
    signature: ModelSignature, model: Any, samples: Any, input_shapes: Mapping[str, Sequence[int]]
) -> ModelSignature:
    import keras

    unknown = sorted(set(input_shapes) - set(signature.names()))
    if unknown:
        raise ValueError(
            f"`input_shapes` names no input of the model. Allowed: {signature.names()}. Received: {unknown}"
        )
    observed: dict[str, Shape] = {}
    if isinstance(samples, list | tuple) and not any(hasattr(item, "shape") for item in samples):
        samples = np.asarray(samples)
    if samples is not None:
        arrays = keras.tree.flatten(samples) if not isinstance(samples, Mapping) else None
        for index, spec in enumerate(signature.inputs):
            array = samples.get(spec.name) if isinstance(samples, Mapping) else None
            if arrays is not None and len(arrays) == len(signature.inputs):
                array = arrays[index]
            if array is not None and hasattr(array, "shape"):
                observed[spec.name] = tuple(array.shape[1:])
    fixed = []
    for spec in signature.inputs:
        given = tuple(input_shapes[spec.name]) if spec.name in input_shapes else observed.get(spec.name)
        shape = spec.shape
        if None in shape and given is not None and len(given) == len(shape):
            shape = tuple(b if a is None else a for a, b in zip(shape, given, strict=True))
        if spec.name in input_shapes and shape != given:
            raise ValueError(
                f"`input_shapes` doesn't fit input {spec.name!r} of the model, whose shape without the "
                f"batch axis is {spec.shape}. Received: {given}"
            )
        if None in shape:
            raise ValueError(
                f"Input {spec.name!r} of model {model.name!r} has an open size: {spec.shape}. The file "
                f"needs fixed sizes: pass samples of the final size, or input_shapes={{{spec.name!r}: "
                f"{tuple(n or 128 for n in spec.shape)}}}."
            )
        fixed.append(TensorSpec(spec.name, shape, spec.dtype))
    return ModelSignature(tuple(fixed), signature.structure)


def declared_outputs(model: Any) -> tuple[TensorSpec, ...]:
    """Return the outputs that a functional or Sequential model declares; none for a subclassed model."""
    import keras

    struct: Any = getattr(model, "_outputs_struct", None)
    if struct is None and hasattr(model, "_functional"):  # a Sequential model wraps a functional one
        struct = getattr(model._functional, "_outputs_struct", None)
    if struct is None:
        return ()
    tensors = keras.tree.flatten(struct)
    return tuple(
        TensorSpec(name, tuple(tensor.shape[1:]), _file_dtype(tensor.dtype))
        for name, tensor in zip(output_names(model, struct), tensors, strict=True)
    )


def output_names(model: Any, outputs: Any) -> list[str]:
    """Return one name per output tensor, in the order of `keras.tree.flatten(outputs)`.

    Keys of a dict (joined by "_" where nested), else the names of the output layers, else output_0, ...
    """
    import keras

    paths = [path for path, _ in keras.tree.flatten_with_path(outputs)]
    if isinstance(outputs, Mapping):
        return _unique(["_".join(map(str, path)) for path in paths])
    names = list(getattr(model, "output_names", None) or [])
    return _unique(names) if len(names) == len(paths) else [f"output_{i}" for i in range(len(paths))]


def _is_flat_dict(struct: Any) -> bool:
    nested = (Mapping, list, tuple)
    return isinstance(struct, Mapping) and not any(isinstance(value, nested) for value in struct.values())


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}_{seen[name] - 1}")
    return result


def _file_dtype(dtype: Any) -> str:
    """Return the type of an input in the file: other float types than float32 have no CPU kernels."""
    import keras

    name: str = keras.backend.standardize_dtype(dtype)
    return {"float64": "float32", "float16": "float32", "bfloat16": "float32"}.get(name, name)
