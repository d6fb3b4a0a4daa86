"""`write_triton_repository`: an exported model as a Triton Inference Server serves it."""

from __future__ import annotations

import contextlib
import numbers
import re
import shutil
import tempfile
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import Literal
from typing import get_args

from keras_attention.serving import triton_config
from keras_attention.serving.onnx_export import OnnxExport
from keras_attention.tflite.model_signature import TensorSpec

Kind = Literal["auto", "cpu", "gpu"]
CONFIG = "config.pbtxt"
MODEL = "model.onnx"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION = re.compile(r"[1-9][0-9]*")
_LARGEST = 2**31 - 1
_LONGEST_NAME = 128


def model_name(text: str) -> str:
    """Return the nearest name that Triton's folders and addresses take."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", text).lstrip("._-")[:_LONGEST_NAME]
    return plain or "model"


def write_triton_repository(
    export: OnnxExport,
    folder: str | Path,
    *,
    name: str | None = None,
    version: int | None = None,
    max_batch_size: int = 32,
    preferred_batch_sizes: Sequence[int] = (),
    max_queue_delay_microseconds: int = 100,
    instances: int = 1,
    kind: Kind = "auto",
) -> Path:
    """Add an exported model to a Triton model repository: its configuration, labels, and a new version.

    A version that is there is never changed, nor is a configuration: a second version must have the same
    inputs, outputs and labels, and takes the settings that are there.

    Args:
        export: what `export_onnx` returned.
        folder: of the repository; made if it isn't there.
        name: of the model, a folder of the repository. Defaults to the Keras model's, with "_" for what
            Triton can't have.
        version: a number from 1. Defaults to the one after the highest that is there.
        max_batch_size: the most samples that Triton puts together; not heeded by a file that takes a fixed
            number.
        preferred_batch_sizes: sizes for which Triton should wait; ONNX' runtime has none by itself.
        max_queue_delay_microseconds: how long a sample may wait for others.
        instances: copies of the model that answer at the same time, on each device.
        kind: "cpu", "gpu", or "auto" for the GPUs where there are any.

    Returns:
        The folder of the version.

    Raises:
        FileExistsError: the version is there, or a model of that name with another interface.
        ValueError: an argument is wrong; it is named, with what is allowed.
    """
    name = model_name(export.name) if name is None else name
    check_name(name)
    counts = {
        "version": version,
        "max_batch_size": max_batch_size,
        "instances": instances,
        **{f"preferred_batch_sizes[{index}]": size for index, size in enumerate(preferred_batch_sizes)},
    }
    for argument, value in counts.items():
        if value is not None:
            _check_count(argument, value, 1)
    _check_count("max_queue_delay_microseconds", max_queue_delay_microseconds, 0)
    if any(size > max_batch_size for size in preferred_batch_sizes):
        raise ValueError(
            f"`preferred_batch_sizes` must not exceed max_batch_size={max_batch_size}. "
            f"Received: {list(preferred_batch_sizes)}"
        )
    if kind not in get_args(Kind):
        raise ValueError(f"`kind` must be one of {get_args(Kind)}. Received: {kind!r}")
    labels = _label_files(export)
    config = _interface(export, name, max_batch_size, labels)
    config.instance_group.add(count=instances, kind=f"KIND_{kind.upper()}")
    if export.batch_size is None:
        config.dynamic_batching.preferred_batch_size.extend(preferred_batch_sizes)
        config.dynamic_batching.max_queue_delay_microseconds = max_queue_delay_microseconds
    return _write(Path(folder), name, version, config, labels, export.content)


def check_name(name: Any) -> None:
    """Raise on a name that Triton can't have.

    Raises:
        ValueError: with one that it can.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            "`name` must be 1 to 128 letters of ASCII, digits, '.', '_' and '-', the first a letter or "
            f"digit: it is a folder and part of an address. Received: {name!r}. "
            f"Pass {model_name(str(name))!r}, for example."
        )


def _check_count(argument: str, value: Any, least: int) -> None:
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not least <= value <= _LARGEST:
        raise ValueError(f"`{argument}` must be an integer from {least} to {_LARGEST}. Received: {value!r}")


def _label_files(export: OnnxExport) -> dict[str, tuple[str, str]]:
    """Return output name -> name and text of its label file, one label per line."""
    given: Mapping[str, Sequence[str]] = export.entries.get("labels", {})
    files = {}
    for index, spec in enumerate(export.outputs):
        names = given.get(spec.name)
        if names is None:
            continue
        broken = next((name for name in names if len(name.splitlines()) != 1 or name != name.strip()), None)
        if broken is not None:
            raise ValueError(
                f"Triton keeps labels as lines of a file, so that none can hold a line break or begin or end "
                f"with a space. Received: {broken!r} for output {spec.name!r}. Change `manifest`['labels']."
            )
        files[spec.name] = (f"labels_{index}.txt", "".join(f"{name}\n" for name in names))
    return files


def _interface(
    export: OnnxExport, name: str, max_batch_size: int, labels: Mapping[str, tuple[str, str]]
) -> Any:
    """Return the part of the configuration that the file itself demands."""
    config = triton_config.new()
    config.name, config.backend = name, "onnxruntime"
    config.max_batch_size = max_batch_size if export.batch_size is None else 0
    for specs, tensors in ((export.inputs, config.input), (export.outputs, config.output)):
        for spec in specs:
            _describe(tensors.add(), spec, export.batch_size)
    for tensor in config.output:
        if tensor.name in labels:
            tensor.label_filename = labels[tensor.name][0]
    return config


def _describe(tensor: Any, spec: TensorSpec, batch_size: int | None) -> None:
    tensor.name = spec.name
    tensor.data_type = triton_config.DATA_TYPES[spec.dtype]
    tensor.dims.extend(spec.shape if batch_size is None else (batch_size, *spec.shape))
    if not tensor.dims:  # Triton wants an axis in every tensor, and takes it away for the file
        tensor.dims.append(1)
        tensor.reshape.SetInParent()


def _write(
    folder: Path,
    name: str,
    version: int | None,
    config: Any,
    labels: Mapping[str, tuple[str, str]],
    content: bytes,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / name
    texts = {CONFIG: triton_config.to_text(config), **dict(labels.values())}
    if not home.exists():
        number = 1 if version is None else version
        with _part(folder) as part:  # whole or not at all: Triton may be looking on
            for file, text in texts.items():
                (part / file).write_text(text, encoding="utf-8")
            (part / str(number)).mkdir()
            (part / str(number) / MODEL).write_bytes(content)
            part.rename(home)
        return home / str(number)
    _check_same(home, config, texts)
    number = _next_version(home) if version is None else version
    target = home / str(number)
    if target.exists():
        raise FileExistsError(
            f"Version {number} of {name!r} exists already, and a version is never changed: {str(target)!r}. "
            f"Leave `version` out for {_next_version(home)}."
        )
    with _part(home) as part:
        (part / MODEL).write_bytes(content)
        part.rename(target)
    return target


def _check_same(home: Path, config: Any, texts: Mapping[str, str]) -> None:
    """Raise unless a model of that name is here that has the same inputs, outputs and labels."""
    cure = f"Give the new model another `name`, or take {str(home)!r} away."
    try:
        found = triton_config.parse((home / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileExistsError(f"{str(home)!r} holds no {CONFIG} that can be read: {error}. {cure}") from error
    wanted = triton_config.parse(texts[CONFIG])
    if config.max_batch_size and found.max_batch_size:
        wanted.max_batch_size = found.max_batch_size  # a setting, which the user may have changed
    if found.backend == "" or found.name == "":  # Triton finds both out by itself
        wanted.backend, wanted.name = found.backend, found.name
    for part in ("instance_group", "dynamic_batching"):
        found.ClearField(part)
        wanted.ClearField(part)
    if found != wanted:
        raise FileExistsError(
            f"{str(home / CONFIG)!r} describes a model with other inputs, outputs or batches. {cure}"
        )
    for file, text in texts.items():
        if file != CONFIG and (home / file).read_text(encoding="utf-8") != text:
            raise FileExistsError(f"{str(home / file)!r} holds other labels. {cure}")


def _next_version(home: Path) -> int:
    found = [int(path.name) for path in home.iterdir() if _VERSION.fullmatch(path.name)]
    return max(found, default=0) + 1


@contextlib.contextmanager
def _part(folder: Path) -> Iterator[Path]:
    """Give a hidden folder, which is removed unless it was renamed."""
    part = Path(tempfile.mkdtemp(dir=folder, prefix=".", suffix=".part"))
    part.chmod(0o755)  # the server is often another user
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)
