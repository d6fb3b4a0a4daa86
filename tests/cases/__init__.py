"""Every public layer of the package, in the ways that the shared tests try it."""

from cases import attention
from cases import blocks
from cases import images
from cases import long_sequences
from cases import memory
from cases import pooling
from cases import positions
from cases import windows
from cases.case import Case

CASES: list[Case] = [
    *attention.CASES,
    *blocks.CASES,
    *images.CASES,
    *long_sequences.CASES,
    *memory.CASES,
    *pooling.CASES,
    *positions.CASES,
    *windows.CASES,
]
assert len({case.name for case in CASES}) == len(CASES), "each case has a name of its own"
