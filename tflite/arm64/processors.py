"""The processors that are emulated, and what each says of itself."""

from __future__ import annotations

from dataclasses import dataclass

_CORES = 2


@dataclass(frozen=True)
class Processor:
    """A processor as QEMU knows it.

    Attributes:
        name: as the user gives it.
        title: what it stands for.
        model: of QEMU's option -cpu.
        part, variant: of the entry in /proc/cpuinfo.
        features: of the same.
    """

    name: str
    title: str
    model: str
    part: int
    variant: int
    features: str

    def cpuinfo(self) -> str:
        """Return its /proc/cpuinfo.

        The runtime chooses kernels by this text. It ends its process at the text of another architecture,
        and takes instructions that an older processor lacks at the text of a newer one.
        """
        entries = (
            f"processor\t: {core}\n"
            "BogoMIPS\t: 50.00\n"
            f"Features\t: {self.features}\n"
            "CPU implementer\t: 0x41\n"
            "CPU architecture: 8\n"
            f"CPU variant\t: {self.variant:#x}\n"
            f"CPU part\t: {self.part:#05x}\n"
            "CPU revision\t: 1\n\n"
            for core in range(_CORES)
        )
        return "".join(entries)


_SINCE_A53 = "fp asimd aes pmull sha1 sha2 crc32"
_SINCE_A76 = f"{_SINCE_A53} atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
PROCESSORS = {
    processor.name: processor
    for processor in (
        Processor("cortex-a53", "without dot products", "cortex-a53", 0xD03, 0x0, _SINCE_A53),
        Processor("cortex-a76", "dot products", "cortex-a76", 0xD0B, 0x3, _SINCE_A76),
        # SME of QEMU 7.2 computes wrongly, and no phone of this generation has SVE switched on.
        Processor(
            "armv8.6",
            "products of int8 matrices (i8mm)",
            "max,sve=off,sme=off",
            0xD4D,
            0x1,
            f"{_SINCE_A76} i8mm bf16",
        ),
    )
}
"""Name -> processor, oldest first."""
