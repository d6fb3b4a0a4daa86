"""Models whose attention is an output of its own, named `attention_map`, for apps that draw it.

What comes out is small and ready to draw: one number per time step of a series, one per place of an image.
"""

import keras
from keras import layers

NAME = "attention_map"
"""Of the output."""


def over_time(model: keras.Model) -> keras.Model:
    """A copy of an activity model, same weights, that also returns how much each time step counts.

    `(batch, positions)`, sum 1: the scores of its last attention layer, the mean over heads and queries.
    """

    def reduce(scores):
        if scores.ndim == 4:  # (batch, num_heads, query_length, key_length)
            scores = keras.ops.mean(keras.ops.mean(scores, axis=1), axis=1)
        return scores

    return _with_output(model, reduce)


def over_places(model: keras.Model) -> keras.Model:
    """A copy of an image model, same weights, that also returns what its first gate lets through.

    `(batch, height, width)`, how much of each place, from 0 to 1.

    Raises:
        ValueError: the gates of the model know no places.
    """

    def reduce(*scores):
        maps = [values for values in scores if values.ndim == 3]
        if len(maps) != 1:
            raise ValueError(
                "Only `cbam` and `spatial` attention have a map of places that can be an output. "
                f"Received: {model.name}"
            )
        return maps[0]

    return _with_output(model, reduce, first=True)


def _with_output(model, reduce, *, first: bool = False) -> keras.Model:
    names = [layer.name for layer in model.layers if layer.name.startswith("attention")]
    if not names:
        raise ValueError(f"The model has no layer named attention*. Received: {model.name}")
    chosen = names[0 if first else -1]
    found = []

    # The copy is called with scores from the start: Keras 3.15 cannot use a second call of a layer that has
    # more outputs than the first.
    def call(layer, *args, **kwargs):
        if layer.name != chosen:
            return layer(*args, **kwargs)
        outputs, *scores = layer(*args, **kwargs, return_attention_scores=True)
        found.append(layers.Identity(name=NAME)(reduce(*scores)))
        return outputs

    copy = keras.models.clone_model(model, call_function=call)
    copy.set_weights(model.get_weights())
    return keras.Model(copy.input, [*copy.outputs, *found], name=model.name)
