"""Making the test bed: arm64 packages of Debian, unpacked beside the system, and wheels of PyPI.

Neither needs root or touches what is installed: apt works on lists of its own, and the packages are only
unpacked.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path

from keras_attention.tflite import leftovers
from keras_attention.tflite.arm64 import bed as beds
from keras_attention.tflite.arm64 import emulation
from keras_attention.tflite.arm64.bed import Bed
from keras_attention.tflite.arm64.processors import PROCESSORS
from keras_attention.tflite.errors import ConversionError

STEPS = 5
_SECONDS = 600.0
_LIBRARIES = ("libc6", "libstdc++6", "libgcc-s1", "libexpat1", "zlib1g", "libffi8")
_PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
_WHEELS = (beds.RUNTIME, "numpy", "ml-dtypes")
_UNUSED = ("libLiteRtWebGpuAccelerator.so",)
_TAIL_LINES = 8
_PREFIX = ".keras_attention.arm64."
_TOOLS = {
    beds.EMULATOR: beds.NO_EMULATOR,
    **dict.fromkeys(
        ("apt-get", "apt-cache", "dpkg-deb"),
        "{tool} is missing: the set-up takes arm64 packages from Debian's archive, with the tools of Debian "
        "and its kin. Set it up there, or in a container of debian:bookworm.",
    ),
}
_NO_PIP = "pip is missing in this Python, to download arm64 wheels: `{python} -m ensurepip`."
_NO_COMPILER = (
    "there was no C compiler to make the counter with: `apt-get install gcc libc6-dev`, then set up again"
)

Say = Callable[[int, str], None]


def set_up(folder: Path, say: Say) -> Bed:
    """Make the test bed in a folder, whole or not at all; one that is there and current is kept.

    Args:
        folder: where; an older bed there is replaced, anything else is not.
        say: called with the number of a step, from 1 to `STEPS`, and what it does.

    Raises:
        ConversionError: a tool is missing or failed; the message names the cure.
        FileExistsError: the folder holds something else.
    """
    missing = missing_tools()
    if missing:
        raise ConversionError("The arm64 test bed can't be made. " + " ".join(missing))
    old = beds.read(folder)
    if old is not None and old.is_current() and (not old.counter or _compiler() is None):
        return old
    if folder.exists() and not (folder / beds.DESCRIPTION).is_file() and any(folder.iterdir()):
        raise FileExistsError(
            f"The folder for the test bed holds other files: {str(folder)!r}. Name an empty or new one: "
            "--bed DIR."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    leftovers.remove_abandoned(folder.parent, _PREFIX)
    part = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder.parent))
    descriptor = os.open(part, os.O_RDONLY)
    leftovers.hold(descriptor, part)
    try:
        _fill(part, say)
        if folder.exists():
            folder.rename(part / "replaced")
        (part / "new").rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        os.close(descriptor)
    made = beds.read(folder)
    if made is None:
        raise ConversionError(
            f"The test bed at {str(folder)!r} was changed while it was made. Set it up again."
        )
    return made


def missing_tools() -> list[str]:
    """Return what is missing for a set-up, a sentence each, with the cure."""
    texts = [text.format(tool=tool) for tool, text in _TOOLS.items() if shutil.which(tool) is None]
    if importlib.util.find_spec("pip") is None:
        texts.append(_NO_PIP.format(python=sys.executable))
    return texts


def _fill(part: Path, say: Say) -> None:
    new = part / "new"
    root = new / beds.ROOT
    root.mkdir(parents=True)
    say(1, "reading the list of Debian's arm64 packages")
    options = _apt_options(part / "apt")
    _run(["apt-get", *options, "update"])
    version = _python_version(_run(["apt-cache", *options, "show", "python3-minimal"]))
    say(2, f"downloading and unpacking Python {version} and the C library")
    names = [f"{start}python{version}-{end}" for start, end in (("", "minimal"), ("lib", "minimal"))]
    names += [f"libpython{version}-stdlib", *_LIBRARIES]
    archives = part / "archives"
    archives.mkdir()
    _run(["apt-get", *options, "download", *(f"{name}:arm64" for name in names)], archives)
    for package in sorted(archives.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)])
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    say(3, "downloading the runtime for arm64")
    site = root / beds.SITE
    _run([*_pip(version), "--target", str(site), *_wheels(version)])
    for name in _UNUSED:
        for file in site.rglob(name):
            file.unlink()
    say(4, "compiling the counter of instructions")
    reason = _compile_counter(new)
    found = {
        distribution.metadata["Name"].replace("_", "-"): distribution.version
        for distribution in importlib.metadata.distributions(path=[str(site)])
    }
    say(5, "trying it")
    packages = {name: found[name] for name in _WHEELS}
    bed = Bed(new, f"usr/bin/python{version}", packages, reason)
    described = {
        "format": beds.FORMAT,
        "python": bed.python,
        "packages": packages,
        "counter": _try(part, bed),
    }
    (new / beds.DESCRIPTION).write_text(json.dumps(described, indent=1) + "\n")


def _apt_options(folder: Path) -> list[str]:
    """Return apt's options: the sources of this system, for arm64, in lists of its own."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    options = (
        "APT::Architecture=arm64",
        "APT::Architectures::=arm64",
        "APT::Sandbox::User=root",
        "Acquire::Languages=none",
        f"Dir::State::Lists={folder}/lists",
        f"Dir::Cache={folder}/cache",
        "Dir::State::status=/dev/null",
    )
    return ["-qq", *(word for option in options for word in ("-o", option))]


def _python_version(shown: str) -> str:
    """Return the version such as "3.11" of Debian's Python from what apt-cache shows of python3-minimal."""
    found = re.search(r"\bpython(3\.\d+)-minimal\b", shown)
    if found is None:
        raise ConversionError(
            "apt offers no arm64 Python (python3-minimal). The set-up needs the package lists of Debian: see "
            "`apt-get indextargets`."
        )
    return found[1]


def _wheels(version: str) -> list[str]:
    """Return what to ask pip for: this environment's versions, unless another Python may need others."""
    same = ".".join(map(str, sys.version_info[:2])) == version
    return [
        f"{name}=={importlib.metadata.version(name)}" if same or name == beds.RUNTIME else name
        for name in _WHEELS
    ]


def _pip(version: str) -> list[str]:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", version]
    return [*command, *(word for platform in _PLATFORMS for word in ("--platform", platform))]


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def _compile_counter(folder: Path) -> str:
    """Compile the counter, and return why it can't be, "" where it was."""
    compiler = _compiler()
    if compiler is None:
        return _NO_COMPILER
    source = Path(__file__).with_name("counter.c")
    try:
        _run([compiler, "-O2", "-shared", "-fPIC", "-o", str(folder / beds.COUNTER), str(source)])
    except ConversionError as error:
        return f"the counter could not be compiled: {error}"
    return ""


def _try(part: Path, bed: Bed) -> str:
    """Import the runtime inside the emulation, which also compiles its Python files.

    Returns why instructions can't be counted, "" where they can.
    """
    program = f"import sys; sys.path.insert(0, {emulation.PREFIX + '/' + beds.SITE!r}); import os, numpy; "
    program += "import ai_edge_litert.interpreter; os.getppid()"
    processor = PROCESSORS["cortex-a53"]
    for count in (False, True) if not bed.counter else (False,):
        folder = part / f"trial_{count}"
        folder.mkdir()
        code = emulation.execute(bed, processor, folder, ["-c", program], count=count, seconds=_SECONDS)
        if code and not count:
            raise ConversionError(
                f"The test bed was made, but doesn't run. {emulation.explain(processor, folder, code)}"
            )
        if code:
            return f"QEMU {emulation.version()} does not take the counter, which needs QEMU 6.0 to 8.1"
    return bed.counter


def _run(command: Sequence[str], folder: Path | None = None) -> str:
    """Run a tool and return what it printed.

    Raises:
        ConversionError: it failed or took too long; the end of what it said is in the message.
    """
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    shown = Path(command[0]).name + " " + " ".join(word for word in command[1:] if word[:1] != "-")[:80]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ConversionError(f"`{shown}` took more than {_SECONDS:g} seconds.") from error
    if done.returncode:
        lines = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_TAIL_LINES:])
        raise ConversionError(f"`{shown}` failed with exit code {done.returncode}:\n{lines}")
    return done.stdout
