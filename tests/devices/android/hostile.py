"""A file whose signatures, inputs, outputs and labels are called like what languages and templates use."""

import dataclasses

from keras_attention.tflite.apps.android import names
from keras_attention.tflite.apps.android import reserved
from keras_attention.tflite.apps.description import Signature

SPECIAL = """asset golden_asset companion a a_input a_input_input_b_features check sample array_of
int_array_of double_array_of input0 input_0 model known reports Int main serve SERVE get_processor first
listener""".split()
WINDOWS = ["sample", "file", "golden", "b", "input b"]


def description(base):
    """The description of a file with one window and one unit between two labels, with other names."""
    words = [*sorted(names._KEYWORDS | names._MEMBERS | set(names._ENDINGS)), *SPECIAL]
    others = sorted(reserved.CLASSES)
    window, score = base.signatures[0].inputs[0], base.signatures[0].outputs[0]
    first = Signature(
        "a",
        tuple(
            dataclasses.replace(
                window, name=name, index=place, kind="window" if name in WINDOWS else "values"
            )
            for place, name in enumerate([*WINDOWS, *words[::2]])
        ),
        tuple(
            dataclasses.replace(score, name=name, index=place, names=(name, f"{name}s"))
            for place, name in enumerate([*words[1::2], *others[::5]])
        ),
    )
    rest = [
        Signature(
            word,
            (dataclasses.replace(window, name=others[number], names=(), kind="values"),),
            (dataclasses.replace(score, name=word, names=(), kind="values"),),
        )
        for number, word in enumerate(words)
        if word != "a"
    ]
    return dataclasses.replace(base, signatures=(first, *rest), pairs=())
