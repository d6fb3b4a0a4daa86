"""Recurrent loops that were not written out: what they mean for a file of each precision."""

from __future__ import annotations

from collections.abc import Mapping

from keras_attention.tflite.errors import ConversionError


def check_loops(
    loops: Mapping[str, int], sizes: Mapping[str, int], precision: str, max_unrolled_steps: int
) -> list[str]:
    """Refuse recurrent loops where they can't be quantized; remark on them elsewhere.

    Args:
        loops: path of each layer that kept its loop -> number of steps.
        sizes: path of each recurrent layer -> predicted bytes of its steps, written out.
        precision: as asked for.
        max_unrolled_steps: the limit that kept them.

    Raises:
        ConversionError: naming the layer, its length and the cure.
    """
    remarks = []
    for path, steps in loops.items():
        if steps < 0:
            raise ConversionError(
                f"Layer {path!r} runs over a sequence whose batch or length is open inside the model. Fix "
                "the sizes in front of it, for instance with keras.layers.Reshape."
            )
        cure = (
            f"Shorten the sequence (a strided convolution or pooling in front), or pass "
            f"max_unrolled_steps={steps}, which adds about {sizes[path] / 1e6:.2g} MB to the file."
        )
        if precision in ("dynamic", "int8", "int8_full", "int16x8"):
            raise ConversionError(
                f"Layer {path!r} runs over {steps} steps, more than max_unrolled_steps="
                f"{max_unrolled_steps}, and a loop can't be quantized to {precision!r} safely. {cure}"
            )
        remarks.append(f"Layer {path!r} keeps its loop over {steps} steps, which is slow. {cure}")
    return remarks
