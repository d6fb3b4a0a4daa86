"""Writes models.zip: files as a user of Keras 2 has them. Run once; the tests only read what it holds.

    python -m venv old
    old/bin/pip install tensorflow tf_keras keras-self-attention==0.51.0 attention==5.0.0
    old/bin/pip install --no-deps --target old/attention_4 attention==4.1
    old/bin/python make.py old/attention_4

Each model is saved as .h5 and as .keras; `<model>.npz` holds the inputs and what Keras 2 answered. The last
one is also saved as an architecture and its weights, in both formats of weights.
"""

import importlib.util
import os
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import attention
import keras_self_attention
import numpy as np
from tensorflow import keras

FOLDER = Path(__file__).resolve().parent
LENGTH, CHANNELS, WORDS, BATCH = 7, 5, 11, 3
SeqSelfAttention = keras_self_attention.SeqSelfAttention
SeqWeightedAttention = keras_self_attention.SeqWeightedAttention

SELF_ATTENTION = {
    "additive": {"units": 6},
    "additive_plain": {"units": 6, "use_additive_bias": False, "use_attention_bias": False},
    "additive_even_width": {"units": 6, "attention_width": 4},
    "additive_odd_width": {"units": 6, "attention_width": 3},
    "additive_history": {"units": 6, "history_only": True},
    "additive_history_width": {"units": 6, "history_only": True, "attention_width": 2},
    "multiplicative": {"attention_type": "multiplicative"},
    "multiplicative_plain": {"attention_type": "multiplicative", "use_attention_bias": False},
    "multiplicative_width": {"attention_type": "multiplicative", "attention_width": 4},
    "multiplicative_history": {"attention_type": "multiplicative", "history_only": True},
    "regularized": {
        "units": 6,
        "kernel_regularizer": keras.regularizers.l2(1e-4),
        "bias_constraint": keras.constraints.NonNeg(),
    },
    "linear_activation": {"units": 6, "attention_activation": "linear"},
}


def self_attention():
    """Every option of SeqSelfAttention that does not need a mask, side by side on one sequence."""
    inputs = keras.Input((LENGTH, CHANNELS), name="sequence")
    outputs = [SeqSelfAttention(name=name, **options)(inputs) for name, options in SELF_ATTENTION.items()]
    outputs += SeqSelfAttention(units=6, return_attention=True, name="with_scores")(inputs)
    return keras.Model(inputs, outputs, name="self_attention")


def masked():
    """The example of that package's page: padded words, a bidirectional LSTM, attention, a label per word."""
    words = keras.Input((None,), name="words")
    x = keras.layers.Embedding(WORDS, 6, mask_zero=True, name="embedding")(words)
    x = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True), name="recurrent")(x)
    x = SeqSelfAttention(units=5, name="attention")(x)
    y = SeqSelfAttention(attention_type="multiplicative", name="products")(x)
    labels = keras.layers.Dense(3, activation="softmax", name="labels")(y)
    pooled, scores = SeqWeightedAttention(return_attention=True, name="weighted")(y)
    return keras.Model(words, [x, y, labels, pooled, scores], name="masked")


def sequential():
    """A Sequential model, trained for a step, so that the file also holds an optimizer."""
    model = keras.Sequential(
        [
            keras.layers.Input((LENGTH, CHANNELS), name="sequence"),
            keras.layers.GRU(6, return_sequences=True, name="gru"),
            SeqSelfAttention(units=5, attention_width=3, attention_regularizer_weight=1e-4, name="attention"),
            SeqWeightedAttention(use_bias=False, name="weighted"),
            keras.layers.Dense(2, name="dense"),
        ],
        name="sequential",
    )
    model.compile("adam", "mse")
    generator = np.random.default_rng(5)
    x = generator.normal(size=(4, LENGTH, CHANNELS))
    model.fit(x, generator.normal(size=(4, 2)), verbose=0)
    return model


def many_to_one():
    """The layer of the package `attention`, both scores, twice one of them in an inner model."""
    inputs = keras.Input((LENGTH, CHANNELS), name="sequence")
    states = keras.layers.LSTM(6, return_sequences=True, name="lstm")(inputs)
    luong = attention.Attention(units=4, name="luong")(states)
    bahdanau = attention.Attention(units=5, score="bahdanau", name="bahdanau")(states)
    inner_inputs = keras.Input((LENGTH, 6))
    inner = keras.Model(inner_inputs, attention.Attention(units=3, name="inner")(inner_inputs), name="model")
    twice = keras.layers.Concatenate(name="twice")([inner(states), inner(keras.layers.ReLU()(states))])
    return keras.Model(inputs, [luong, bahdanau, twice], name="many_to_one")


def padded_many_to_one():
    """`attention.Attention` behind a mask, which it does not look at."""
    words = keras.Input((LENGTH,), name="words")
    x = keras.layers.Embedding(WORDS, 6, mask_zero=True, name="embedding")(words)
    x = keras.layers.LSTM(5, return_sequences=True, name="lstm")(x)
    outputs = [
        attention.Attention(units=3, name="attention")(x),
        keras_self_attention.ScaledDotProductAttention(name="products")(x),
        keras_self_attention.ScaledDotProductAttention(history_only=True, name="history")([x, x, x]),
    ]
    return keras.Model(words, outputs, name="padded_many_to_one")


def hierarchical():
    """Words to sentences to a document: an inner model under TimeDistributed, pooling in both."""
    words = keras.Input((LENGTH, CHANNELS))
    x = keras.layers.Dense(6, activation="tanh", name="words")(words)
    sentence = keras.Model(words, SeqWeightedAttention(name="over_words")(x), name="sentence")
    inputs = keras.Input((4, LENGTH, CHANNELS), name="document")
    x = keras.layers.TimeDistributed(sentence, name="sentences")(inputs)
    x = SeqWeightedAttention(name="over_sentences")(x)
    return keras.Model(inputs, keras.layers.Dense(3, name="label")(x), name="hierarchical")


def version_four(folder):
    """`attention` 4.1, whose layer has one score and other names for its weights."""
    spec = importlib.util.spec_from_file_location(
        "attention_four", Path(folder) / "attention" / "attention.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    inputs = keras.Input((LENGTH, CHANNELS), name="sequence")
    return keras.Model(inputs, module.Attention(units=3, name="attention")(inputs), name="version_four")


def inputs_of(model, generator):
    """Normal numbers, or word numbers that end in padding; one row each is whole, and one is short."""
    if model.input_names == ["words"]:
        words = generator.integers(1, WORDS, (BATCH, LENGTH))
        words[1, 4:] = 0
        words[2, 2:] = 0
        return words.astype("float32")
    return generator.normal(size=(BATCH, *model.input_shape[1:])).astype("float32")


def save(model, folder, generator):
    # Biases start at zero, where a bias that is lost could not be seen.
    noise = [generator.normal(size=weight.shape) / 5 for weight in model.get_weights()]
    model.set_weights([weight + n for weight, n in zip(model.get_weights(), noise, strict=True)])
    inputs = inputs_of(model, generator)
    outputs = model(inputs)
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    answers = {f"output_{index}": output.numpy() for index, output in enumerate(outputs)}
    np.savez(folder / f"{model.name}.npz", inputs=inputs, **answers)
    for ending in ("h5", "keras"):
        model.save(folder / f"{model.name}.{ending}")


def main(folder_of_version_four):
    generator = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for build in (self_attention, masked, sequential, many_to_one, padded_many_to_one, hierarchical):
            keras.backend.clear_session()
            keras.utils.set_random_seed(7)
            save(build(), folder, generator)
        model = version_four(folder_of_version_four)
        save(model, folder, generator)
        (folder / "version_four.json").write_text(model.to_json())
        model.save_weights(folder / "version_four_weights.h5")
        model.save_weights(folder / "version_four.weights.h5")
        with zipfile.ZipFile(FOLDER / "models.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for file in sorted(folder.iterdir()):
                archive.write(file, file.name)


if __name__ == "__main__":
    main(sys.argv[1])
