"""A copy of a functional or sequential model in which some layers are replaced."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras

from keras_attention.migration import mask_layers
from keras_attention.migration import moves
from keras_attention.migration.moves import Move

# The mask of a residual sum also comes from its other summand; the last one takes masks off itself.
INDIFFERENT = (
    keras.layers.Add,
    keras.layers.Subtract,
    keras.layers.Multiply,
    keras.layers.Average,
    mask_layers.SetMask,
)
Finder = Callable[[keras.layers.Layer], Move | None]


def replace_layers(model: keras.Model, find: Finder, strips_masks: bool = True) -> keras.Model:
    """Return a copy of `model`, with its weights, in which layers are replaced; the model stays as it is.

    Args:
        model: a functional or sequential model, built.
        find: returns the move of a layer, or `None` for one that stays.
        strips_masks: whether it is the old layers, and not the new, that take masks off their inputs.
    """
    if not model.built:
        raise ValueError(f"The model {model.name!r} has no weights yet: call it once, or give it an `Input`.")
    rewriting = _Rewriting(find, strips_masks)
    copy = rewriting.of(model)
    rewriting.finish()
    return copy


class _Rewriting:
    """One run over a model: which layer became which."""

    def __init__(self, find: Finder, strips_masks: bool) -> None:
        self.find = find
        self.strips_masks = strips_masks
        self.unmasked: dict[
            int, tuple[Any, str]
        ] = {}  # by id: tensors whose masks are gone, and since which layer
        self.blind: list[str] = []  # names of layers that were called on such tensors
        self.strip = mask_layers.SetMask(name="without_mask")
        self.copies: dict[int, tuple[keras.layers.Layer, keras.layers.Layer]] = {}  # by id of the old layer
        self.moves: dict[int, Move] = {}  # by id of the new layer
        self.pairs: list[tuple[keras.layers.Layer, keras.layers.Layer]] = []  # outer ones first

    def of(self, layer: Any) -> Any:
        """The layer that stands for `layer` in the new model, always the same one."""
        if not isinstance(layer, keras.layers.Layer):  # an operation of `keras.ops`: it has no state
            return layer
        if id(layer) not in self.copies:
            position = len(self.pairs)
            copy = self._copy(layer)
            self.copies[id(layer)] = (layer, copy)
            self.pairs.insert(position, (layer, copy))
        return self.copies[id(layer)][1]

    def call(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a new layer as the old one was called."""
        if isinstance(layer, keras.layers.Layer) and not isinstance(layer, INDIFFERENT):
            args, kwargs = keras.tree.map_structure(lambda x: self._as_seen(x, layer), (args, kwargs))
        move = self.moves.get(id(layer))
        if move is None:
            return layer(*args, **kwargs)
        outputs = move.call(*args, **kwargs)
        given = {**dict(zip(move.unmasked, args, strict=False)), **kwargs}
        for name in move.unmasked:
            if moves.mask_of(given.get(name)) is not None:
                self.unmasked[id(given[name])] = (given[name], moves.describe(layer))
        return outputs

    def _as_seen(self, x: Any, layer: keras.layers.Layer) -> Any:
        """A tensor as a layer of the old model sees it: a layer called before may have taken its mask."""
        if id(x) not in self.unmasked:
            return x
        if self.strips_masks:
            self.blind.append(layer.name)
            return self.strip(x)
        raise moves.refuse(
            layer,
            f"it is called on a tensor with a mask, which Keras' {self.unmasked[id(x)][1]}, called on it "
            "before, takes off; pass the masks to both as arguments",
        )

    def finish(self) -> None:
        """Copy weights and `trainable`, now that all layers are built."""
        if self.blind:
            warnings.warn(
                f"The layers {sorted(set(self.blind))} do not see the masks of their inputs: Keras' "
                "`MultiHeadAttention` takes masks off the tensors that it is called on, for layers "
                f"called later. The copy keeps this, by its layer {self.strip.name!r}: the outputs stay.",
                stacklevel=4,
            )
        for layer, copy in self.pairs:
            if id(copy) in self.moves:
                moves.finish(layer, self.moves[id(copy)])
            elif is_graph(layer) or _repeats_graph(layer):  # the parts follow
                copy.trainable = layer.trainable
            else:
                moves.copy_variables(layer.variables, copy.variables)
                moves.copy_trainable(layer, copy)

    def _copy(self, layer: keras.layers.Layer) -> Any:
        move = self.find(layer)
        if move is not None:
            self.moves[id(move.layer)] = move
            return move.layer
        if is_graph(layer):
            return (
                self._copy_sequence(layer) if isinstance(layer, keras.Sequential) else self._copy_graph(layer)
            )
        if _repeats_graph(layer):
            config = {key: value for key, value in layer.get_config().items() if key != "layer"}
            return keras.layers.TimeDistributed(self.of(layer.layer), **config)
        inside = self._inside(layer)
        if inside is not None:
            raise ValueError(
                f"The {moves.describe(inside)} is a part of the {moves.describe(layer)}, whose code makes "
                "it: change that code to make ours, and carry its weights over with `from_keras` of the part."
            )
        return _clone(layer)

    def _inside(self, layer: keras.layers.Layer) -> keras.layers.Layer | None:
        """A layer to be moved that is a part of `layer`, where no graph says how it is called."""
        parts = layer._flatten_layers(include_self=False)
        return next((part for part in parts if self.find(part) is not None), None)

    def _copy_graph(self, model: Any) -> keras.Model:
        return keras.models.clone_model(model, clone_function=self.of, call_function=self.call)

    def _copy_sequence(self, model: keras.Sequential) -> keras.Model:
        """Stays sequential as long as nothing inside moves: in one that is, each layer has one input."""
        if self._inside(model) is None:
            return keras.models.clone_model(model, clone_function=self.of)
        source = model.inputs[0]
        shape = source.shape
        if model.get_config()["layers"][0]["class_name"] != "InputLayer":  # built by data: any batch will do
            shape = (None, *shape[1:])
        inputs = keras.Input(batch_shape=shape, dtype=source.dtype, name=source.name)
        outputs = inputs
        for layer in model.layers:
            outputs = self.call(self.of(layer), outputs)
        copy = keras.Model(inputs, outputs, name=model.name)
        if model.compiled:
            copy.compile_from_config(model.get_compile_config())
        return copy


def is_graph(layer: Any) -> bool:
    """Whether Keras knows which layers a layer calls, and with what."""
    return isinstance(layer, keras.Sequential) or (
        isinstance(layer, keras.Model) and hasattr(layer, "operations")
    )


def _repeats_graph(layer: Any) -> bool:
    """Whether a layer calls an inner model once for each step."""
    return isinstance(layer, keras.layers.TimeDistributed) and is_graph(layer.layer)


def _clone(layer: keras.layers.Layer) -> Any:
    try:
        return type(layer).from_config(layer.get_config())
    except (NotImplementedError, TypeError) as error:
        raise ValueError(
            f"The {moves.describe(layer)} cannot be copied: give its class a `get_config` that holds all "
            f"arguments of its `__init__`. {error}"
        ) from error
