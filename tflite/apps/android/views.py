"""What the templates need to know of each tensor, as text of the language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_attention.tflite.apps.android import literals
from keras_attention.tflite.apps.android import names
from keras_attention.tflite.apps.android import shapes
from keras_attention.tflite.apps.description import Description
from keras_attention.tflite.apps.description import Signature
from keras_attention.tflite.apps.description import Tensor

Language = Literal["kotlin", "java"]
_INPUT_TYPES = {
    "kotlin": {"float": "FloatArray", "int": "IntArray", "long": "LongArray"},
    "java": {"float": "float[]", "int": "int[]", "long": "long[]"},
}
_INT_TYPES = ("int32", "int16", "int8", "uint8", "bool")


@dataclass(frozen=True)
class TensorView:
    """An input or output for the templates; see `Tensor` for what the fields hold.

    `number` is "float", "int" or "long": the type of its values in the app. `names_constant`,
    `length_constant` and `rate_constant` are empty where the class has no such constant.
    """

    tensor: Tensor
    id: str
    number: str
    type: str
    spec: str
    doc: str
    names: tuple[str, ...]
    names_constant: str
    is_window: bool
    takes_pixels: bool
    result: str
    class_name: str
    length_constant: str
    rate_constant: str

    @property
    def name(self) -> str:
        """As in the file."""
        return self.tensor.name

    @property
    def axes(self) -> str:
        """Names and units of a window's features."""
        return axes(self.tensor) or ", ".join(self.names)

    @property
    def channels(self) -> int:
        """Entries of the last axis."""
        return self.tensor.shape[-1]

    @property
    def length(self) -> int:
        """Samples of a window."""
        return self.tensor.shape[1]


@dataclass(frozen=True)
class SignatureView:
    """A signature for the templates."""

    key: str
    index: int
    id: str
    constant: str
    result: str
    inputs: tuple[TensorView, ...]
    outputs: tuple[TensorView, ...]

    @property
    def named(self) -> list[TensorView]:
        """Tensors whose features or labels are a constant."""
        return [view for view in (*self.inputs, *self.outputs) if view.names_constant]

    @property
    def windows(self) -> list[TensorView]:
        """Inputs with a window class of their own."""
        return [view for view in self.inputs if view.class_name]

    @property
    def takes_pixels(self) -> bool:
        """Whether it can be called with pixels."""
        return any(view.takes_pixels for view in self.inputs)

    @property
    def only_image(self) -> TensorView | None:
        """The one input for pixels: what golden pairs can replay as such."""
        images = [view for view in self.inputs if view.takes_pixels]
        return images[0] if len(images) == 1 else None


def signatures(description: Description, name: str, language: Language) -> list[SignatureView]:
    """Return the file's signatures.

    Raises:
        ValueError: there is no code for one of its tensors.
    """
    shapes.check_together(description.signatures)
    ids = names.identifiers([signature.key for signature in description.signatures], "predict")
    constants = names.Constants()
    own = [constants.add(names.upper(identifier)) for identifier in ids]
    views = []
    for index, signature in enumerate(description.signatures):
        for tensor in (*signature.inputs, *signature.outputs):
            shapes.check(tensor)
        rate = description.sampling_rate_hz if index == 0 else None
        views.append(_signature(signature, index, ids[index], own[index], constants, rate, name, language))
    return views


def _signature(
    signature: Signature,
    index: int,
    identifier: str,
    constant: str,
    constants: names.Constants,
    rate: float | None,
    name: str,
    language: Language,
) -> SignatureView:
    windows = [tensor for tensor in signature.inputs if shapes.is_window(tensor)] if rate else []
    sides = []
    for tensors, otherwise in ((signature.inputs, "input"), (signature.outputs, "output")):
        ids = names.identifiers([tensor.name for tensor in tensors], otherwise)
        views = []
        for tensor, own in zip(tensors, ids, strict=True):
            prefix = f"{constant}_{otherwise.upper()}_{names.upper(own)}"
            window = ""
            if tensor in windows:
                window = names.window_class(name, own if len(windows) > 1 else "")
            views.append(_tensor(tensor, own, prefix, constants, window, otherwise, language))
        sides.append(tuple(views))
    result = f"{names.pascal(identifier)}Result"
    return SignatureView(signature.key, index, identifier, constant, result, sides[0], sides[1])


def _tensor(
    tensor: Tensor,
    identifier: str,
    prefix: str,
    constants: names.Constants,
    window: str,
    side: str,
    language: Language,
) -> TensorView:
    number = "float" if shapes.is_float(tensor) else ("int" if tensor.dtype in _INT_TYPES else "long")
    known = shapes.names(tensor)
    needs_names = bool(known) or shapes.is_label(tensor)
    constant = f"{prefix}_{'FEATURES' if side == 'input' else 'LABELS'}"
    result = _result(tensor)
    return TensorView(
        tensor=tensor,
        id=identifier,
        number=number,
        type=_INPUT_TYPES[language][number] if side == "input" else result,
        spec=_spec(tensor, language),
        doc=_input_doc(tensor) if side == "input" else _output_doc(tensor),
        names=known,
        names_constant=constants.add(constant) if needs_names else "",
        is_window=shapes.is_window(tensor),
        takes_pixels=shapes.takes_pixels(tensor),
        result=result,
        class_name=window,
        length_constant=constants.add(f"{prefix}_LENGTH") if window else "",
        rate_constant=constants.add(f"{prefix}_RATE_HZ") if window else "",
    )


def _result(tensor: Tensor) -> str:
    if shapes.is_classes(tensor):
        return "Classes"
    if shapes.is_label(tensor):
        return "ClassLabel"
    return "FloatTensor" if shapes.is_float(tensor) else "LongTensor"


def _spec(tensor: Tensor, language: Language) -> str:
    parts = [
        literals.text(tensor.name, language),
        literals.text(tensor.dtype, language),
        literals.integers(tensor.shape, language),
        literals.number(tensor.scale or 0.0),
        str(tensor.zero_point or 0),
    ]
    scaling = tensor.normalization
    others = {
        "mean": literals.numbers(scaling.mean if scaling else (), language),
        "std": literals.numbers(scaling.std if scaling else (), language),
        "pixelRange": literals.numbers(tensor.pixel_range or (), language),
        "below": str(tensor.below or 0),
    }
    known = {"mean": scaling, "std": scaling, "pixelRange": tensor.pixel_range, "below": tensor.below}
    if language == "java":
        parts += others.values()
    else:
        parts += [f"{name} = {value}" for name, value in others.items() if known[name] is not None]
    return f"{'' if language == 'kotlin' else 'new '}TensorSpec({', '.join(parts)})"


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))


def _input_doc(tensor: Tensor) -> str:
    if tensor.below is not None:
        return f"{_shape(tensor)} numbers from 0 to {tensor.below - 1}, last axis fastest."
    if shapes.is_image(tensor):
        return f"{_shape(tensor)} values of the image, rows from the top, last axis fastest."
    meaning = {"tokens": "token numbers"}.get(tensor.kind, "raw values")
    named = f": {axes(tensor)}" if tensor.names else ""
    return f"{_shape(tensor)} {meaning}, last axis fastest{named}."


def axes(tensor: Tensor) -> str:
    """Return the names of the last axis, with their units where the file says them."""
    units = tensor.units or [""] * len(tensor.names)
    named = [f"{name} ({unit})" if unit else name for name, unit in zip(tensor.names, units, strict=True)]
    return ", ".join(named[:20]) + (", ..." if len(named) > 20 else "")


def _output_doc(tensor: Tensor) -> str:
    if shapes.is_classes(tensor):
        return "Score of each class."
    if shapes.is_label(tensor):
        return "The class."
    return f"{_shape(tensor)} {'attention weights' if tensor.kind == 'attention' else 'values'}."
