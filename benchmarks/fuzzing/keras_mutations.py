"""Ways to damage a .keras file, and to hide code in it that a loader might run."""

from __future__ import annotations

import base64
import io
import json
import marshal
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from benchmarks.fuzzing.tflite_mutations import cut
from benchmarks.fuzzing.tflite_mutations import edit_json
from benchmarks.fuzzing.tflite_mutations import flip
from benchmarks.fuzzing.tflite_mutations import splice

CONFIG, WEIGHTS, METADATA = "config.json", "model.weights.h5", "metadata.json"
CANARY = "{canary}"
"""Stands in the payloads for the file that their code would create."""
Parts = dict[str, bytes]
_HUGE = (-1, 0, 10**5, 10**9, 10**12, 2**63, 1e300)


class _Payload:
    """Unpickling this runs a command."""

    def __init__(self, canary: str) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.canary, "w")


def unpack(content: bytes) -> Parts:
    """Return the parts of a .keras file by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(parts: Parts, kind: int = zipfile.ZIP_STORED) -> bytes:
    """Return the zip file of such parts, with right checksums."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return stream.getvalue()


def _config(content: bytes, generator: np.random.Generator, canary: str) -> bytes:
    """1 to 3 values in the configuration, of any layer."""
    parts = unpack(content)
    config = json.loads(parts[CONFIG])
    for _ in range(int(generator.integers(1, 4))):
        edit_json(config, generator)
    return pack({**parts, CONFIG: json.dumps(config).encode()})


def _sizes(content: bytes, generator: np.random.Generator, canary: str) -> bytes:
    """A number in a layer's arguments or shape becomes huge or negative."""
    parts = unpack(content)
    config = json.loads(parts[CONFIG])
    layer = _layer(config, generator)
    numbers = [key for key, value in layer["config"].items() if isinstance(value, int | float | list)]
    layer["config"][str(generator.choice(numbers or ["units"]))] = _HUGE[int(generator.integers(len(_HUGE)))]
    return pack({**parts, CONFIG: json.dumps(config).encode()})


def _classes(content: bytes, generator: np.random.Generator, canary: str) -> bytes:
    """Class and module names that lead to functions with effects, or nowhere."""
    parts = unpack(content)
    config = json.loads(parts[CONFIG])
    layer = _layer(config, generator)
    options: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("os", "system", {"command": f"touch {canary}"}),
        ("builtins", "open", {"file": canary, "mode": "w"}),
        ("subprocess", "Popen", {"args": ["touch", canary]}),
        ("pathlib", "Path", {}),
        ("keras.utils", "get_file", {"fname": canary, "origin": f"file://{__file__}"}),
        ("keras.config", "enable_unsafe_deserialization", {}),
        ("keras.saving", "load_model", {"filepath": canary}),
        ("keras.src.utils.file_utils", "get_file", {"fname": canary, "origin": f"file://{__file__}"}),
        ("keras.layers", "TorchModuleWrapper", {"module": {"class_name": "torch_module", "pickled": "gASV"}}),
        ("keras.layers", "StringLookup", {"vocabulary": "/etc/hostname"}),
        ("keras.layers", "TFSMLayer", {"filepath": "/usr", "call_endpoint": "serve"}),
        ("keras.layers", "NoSuchLayer", {}),
        ("keras.layers", "Conv3D", {}),
    )
    module, name, arguments = options[int(generator.integers(len(options)))]
    layer.update(module=module, class_name=name, registered_name=str(generator.choice(["", name])) or None)
    layer["config"] = {**({} if generator.random() < 0.5 else layer["config"]), **arguments}
    return pack({**parts, CONFIG: json.dumps(config).encode()})


def _code(content: bytes, generator: np.random.Generator, canary: str) -> bytes:
    """A Lambda with marshalled code, as a layer, an activation or an initializer; pickled weights."""
    parts = unpack(content)
    if generator.random() < 0.15:
        stream = io.BytesIO()
        np.savez(stream, layers=np.array([_Payload(canary)], object))
        del parts[WEIGHTS]
        return pack(
            {
                **parts,
                "model.weights.npz": stream.getvalue(),
                "assets/object.pkl": pickle.dumps(_Payload(canary)),
            }
        )
    code = compile(f"lambda *a, **k: open({canary!r}, 'w')", "x", "eval").co_consts[0]
    text = base64.b64encode(marshal.dumps(code)).decode()
    function = {"class_name": "__lambda__", "config": {"code": text, "defaults": None, "closure": None}}
    config = json.loads(parts[CONFIG])
    layer = _layer(config, generator)
    kind = int(generator.integers(4))
    if kind == 0:
        layer.update(module="keras.layers", class_name="Lambda", registered_name=None)
        layer["config"] = {
            "name": layer["config"].get("name"),
            "function": function,
            "output_shape": function,
        }
    elif kind == 1:
        keys = [key for key in layer["config"] if key != "name"]
        layer["config"][str(generator.choice(keys))] = function
    elif kind == 2:
        config["compile_config"] = {"optimizer": "adam", "loss": function, "safe_mode": False}
        config["config"]["safe_mode"] = False
        layer["config"]["activation"] = function
    else:
        layer.update(module="builtins", class_name="function", config=function["config"]["code"])
    return pack({**parts, CONFIG: json.dumps(config).encode()})


def _entries(content: bytes, generator: np.random.Generator, canary: str) -> bytes:
    """Parts that are missing, empty, twice there, or exchanged."""
    parts = unpack(content)
    name = str(generator.choice(list(parts)))
    kind = int(generator.integers(4))
    if kind == 0:
        del parts[name]
    elif kind == 1:
        parts[name] = b""
    elif kind == 2:
        parts[name] = parts[str(generator.choice(list(parts)))]
    else:
        stream = io.BytesIO(pack(parts))
        with zipfile.ZipFile(stream, "a") as archive:
            archive.NameToInfo.pop(name)  # so that zipfile doesn't warn of the second one
            archive.writestr(name, flip(parts[name], generator))
        return stream.getvalue()
    return pack(parts)


def _paths(content: bytes, generator: np.random.Generator, canary: str) -> bytes:
    """A part whose name leads out of the folder in which it would be unpacked."""
    names = (
        "../" * 12 + canary.lstrip("/"),
        canary,
        "assets/../../x",
        "C:\\x",
        "assets/" + "a/" * 300 + "b",
        "a\\..\\..\\b",
    )
    name = names[int(generator.integers(len(names)))]
    return pack({**unpack(content), name: b"payload"})


def _bombs(content: bytes, generator: np.random.Generator, canary: str) -> bytes:
    """A part that unpacks to a thousand times its size, or says so, or JSON nested without end."""
    parts = unpack(content)
    kind = int(generator.integers(4))
    if kind == 0:
        name = str(generator.choice([CONFIG, WEIGHTS, "assets/big"]))
        return pack(
            {**parts, name: bytes(int(generator.integers(70, 300)) * 1_000_000)}, zipfile.ZIP_DEFLATED
        )
    if kind == 1:
        return pack({**parts, CONFIG: b'{"config":' * 100_000})
    if kind == 2:
        return pack({**parts, CONFIG: b"[" * 1_000_000})
    whole = bytearray(pack(parts))
    place = whole.rindex(b"PK\x01\x02") + 24  # the unpacked size in the last directory entry
    whole[place : place + 4] = int(generator.integers(2**20, 2**32)).to_bytes(4, "little")
    return bytes(whole)


def _weights(content: bytes, generator: np.random.Generator, canary: str) -> bytes:
    """HDF5 with changed bytes and a right checksum."""
    parts = unpack(content)
    data = parts[WEIGHTS]
    kind = generator.random()
    if kind < 0.2:
        data = cut(data, generator)
    elif kind < 0.7:
        head = flip(data[:4096], generator)  # where its own tables are
        data = head + data[4096:]
    else:
        data = flip(data, generator)
    return pack({**parts, WEIGHTS: data})


def _arrays(content: bytes, generator: np.random.Generator, canary: str) -> bytes:
    """Sound HDF5 whose arrays are others than the model's: shapes, types, links, huge ones."""
    parts = unpack(content)
    stream = io.BytesIO(parts[WEIGHTS])
    with h5py.File(stream, "r+") as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        name = str(generator.choice(names))
        shape = file[name].shape
        del file[name]
        kind = int(generator.integers(6))
        if kind == 0:
            file[name] = np.zeros((*shape, 3), np.float32)
        elif kind == 1:
            file[name] = np.full(shape, b"text")
        elif kind == 2:
            file[name] = h5py.ExternalLink("/etc/hostname", "/")
        elif kind == 3:
            file[name] = h5py.SoftLink("/" + name)
        elif kind == 4:
            file.create_dataset(name, (10**12,), np.float32, chunks=(1024,))
        else:
            file.create_dataset(name, (5,), np.float32, external=[("/etc/hostname", 0, 20)])
    return pack({**parts, WEIGHTS: stream.getvalue()})


def _plain(mutate: Callable[[bytes, np.random.Generator], bytes]) -> Callable[..., bytes]:
    return lambda content, generator, canary: mutate(content, generator)


def _layer(config: Any, generator: np.random.Generator) -> Any:
    layers = config["config"]["layers"]
    return layers[int(generator.integers(len(layers)))]


MUTATIONS: dict[str, Callable[[bytes, np.random.Generator, str], bytes]] = {
    "bytes changed": _plain(flip),
    "cut short or longer": _plain(cut),
    "stretches moved": _plain(splice),
    "configuration": _config,
    "sizes": _sizes,
    "class names": _classes,
    "code": _code,
    "parts": _entries,
    "paths": _paths,
    "bombs": _bombs,
    "HDF5, checksum right": _weights,
    "arrays": _arrays,
}
