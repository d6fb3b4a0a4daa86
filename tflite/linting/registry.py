"""The codes of all rules, each with its title. A code is never given to another rule."""

from __future__ import annotations

from collections.abc import Iterable

TITLES = {
    "KA101": "an input has an open size",
    "KA102": "a recurrent layer is written out step by step",
    "KA103": "a mask is lost",
    "KA104": "a mask is a large negative number",
    "KA105": "a recurrent layer is stateful",
    "KA106": "a layer can't be made again from its config",
    "KA107": "a class or function is not registered",
    "KA108": "a Lambda layer",
    "KA109": "weights are NaN or infinite",
    "KA110": "a layer was quantized by Keras",
    "KA111": "ids are floats",
    "KA112": "layers compute in half precision",
    "KA113": "a layer is random at inference",
    "KA114": "a few channels have far larger weights than the others",
    "KA115": "BatchNormalization divides by almost nothing",
    "KA116": "weights overflow float16",
    "KA117": "a tensor of the model has more than four axes",
    "KA118": "a layer needs operators that the runtime lacks",
    "KA201": "the file has no signature",
    "KA202": "a tensor of the file has an open size",
    "KA203": "an operator is not builtin",
    "KA204": "a tensor of the file has more than four axes",
    "KA205": "BROADCAST_TO or TILE copies data",
    "KA206": "the file holds resource variables",
    "KA207": "constants are NaN or infinite",
    "KA208": "the graph holds a large negative mask",
    "KA209": "a quantized file computes in float",
    "KA210": "the file holds a loop",
    "KA211": "an operator runs outside XNNPACK",
    "KA212": "the first axis is not the batch",
    "KA213": "constants overflow float16",
    "KA214": "an input or output is quantized",
    "KA215": "the runtime that the file needs",
    "KA216": "the runtime refuses the file",
    "KA301": "an operator is not in 8 bits for the Edge TPU",
    "KA302": "the Edge TPU lacks an operator",
    "KA303": "an operator breaks a limit of the Edge TPU",
    "KA304": "a shape is none for the Edge TPU",
    "KA305": "how much runs on the Edge TPU",
    "KA401": "tflite-micro lacks an operator",
    "KA402": "tflite-micro lacks an operator in this form",
    "KA403": "tflite-micro computes other numbers",
    "KA404": "a microcontroller computes in float",
    "KA405": "the memory that a microcontroller needs",
}
"""Code -> title. 1xx is for Keras models, 2xx for .tflite files, 3xx and 4xx for files and one target."""

TARGETS = ("edgetpu", "microcontroller")
"""What a file can be checked for beside phones."""


def chosen_codes(select: Iterable[str] | None, ignore: Iterable[str] | None) -> set[str]:
    """Return the codes that are selected (None: all) and not ignored.

    Args:
        select: codes or their beginnings, such as "KA103" or "KA2".
        ignore: the same; it wins.

    Raises:
        TypeError: a single string was passed instead of a list.
        ValueError: naming what fits no code.
    """
    chosen = set(TITLES) if select is None else _expand("select", select)
    return chosen - (set() if ignore is None else _expand("ignore", ignore))


def _expand(argument: str, prefixes: Iterable[str]) -> set[str]:
    if isinstance(prefixes, str):
        raise TypeError(f"`{argument}` must be a list of codes, such as ['KA103']. Received: {prefixes!r}")
    expanded: set[str] = set()
    for prefix in prefixes:
        codes = {code for code in TITLES if prefix and code.startswith(prefix)}
        if not codes:
            raise ValueError(
                f"`{argument}` must hold codes or their beginnings, from {min(TITLES)} to {max(TITLES)}. "
                f"Received: {prefix!r}"
            )
        expanded |= codes
    return expanded
