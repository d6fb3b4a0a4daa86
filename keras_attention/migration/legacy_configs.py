"""Configs of Keras 2, made readable for Keras 3: no old attention layer is taken for one of Keras."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Iterator
from typing import Any

from keras_attention.migration import legacy_layers
from keras_attention.migration.legacy_layers import LegacyLayer

# What tells a layer of the packages from one of Keras, or of the user, that has the same name.
SIGNS: dict[type[LegacyLayer], set[str]] = {
    legacy_layers.SeqSelfAttention: {"attention_type", "history_only"},
    legacy_layers.SeqWeightedAttention: {"use_bias", "return_attention"},
    legacy_layers.ScaledDotProductAttention: {"return_attention", "history_only"},
    legacy_layers.Attention: {"units"},
}
COMMON = {"name", "trainable", "dtype", "batch_input_shape", "activity_regularizer"}
REFUSED = {
    "ResidualScaledDotProductAttention": "no layer of ours adds the scores of the layer before to its own",
}
OBJECTS = {f"{cls.package}>{cls.__name__}": cls for cls in SIGNS}
FUNCTIONAL = {
    "module": "keras.src.models.functional",
    "class_name": "Functional",
    "registered_name": "Functional",
}


def of_layers(config: Any) -> Iterator[dict[str, Any]]:
    """Every part of a config that describes an object: `{"class_name": ..., "config": {...}}`."""
    if isinstance(config, dict):
        if "class_name" in config and isinstance(config.get("config"), dict):
            yield config
        for value in config.values():
            yield from of_layers(value)
    elif isinstance(config, list):
        for value in config:
            yield from of_layers(value)


def rewrite(model_config: dict[str, Any], known: Collection[str] = ()) -> int:
    """Rename the old layers in a model's config, in place; how many there are.

    Args:
        model_config: the config, changed in place.
        known: names of the classes that the user brings: those are no layers of the packages.
    """
    count = 0
    for entry in of_layers(model_config):
        name = entry["class_name"]
        name = name.split(">")[-1] if isinstance(name, str) else name
        if name in REFUSED:
            raise ValueError(
                f"The `{name}` layer {entry['config'].get('name')!r} cannot be moved: {REFUSED[name]}."
            )
        for cls, signs in SIGNS.items():
            options = set(entry["config"]) - COMMON
            if name == cls.__name__ and name not in known and signs <= options <= set(cls.defaults):
                title = f"{cls.package}>{name}"
                entry.update(class_name=title, registered_name=title, module=None)
                count += 1
        if (
            name in ("Functional", "Model") and "module" in entry
        ):  # a .keras file, which names Keras 2's modules
            entry.update(FUNCTIONAL)
        if name == "Sequential":
            _give_input(entry["config"])
        if name in ("Functional", "Model"):
            _count_calls_from_zero(entry["config"])
            _unwrap_single_tensors(entry["config"])
        if name != "InputLayer":
            entry["config"].pop("batch_input_shape", None)
        policy = entry["config"].get("dtype")
        if isinstance(policy, dict):
            entry["config"]["dtype"] = policy["config"]["name"]
        if entry["config"].pop("time_major", False):
            raise ValueError(
                f"The `{name}` layer {entry['config'].get('name')!r} cannot be moved: "
                "Keras 3 has no `time_major`."
            )
    return count


def _give_input(config: dict[str, Any]) -> None:
    """In Keras 2, the first layer of a sequential model could say the shape of the input itself."""
    layers = config.get("layers", [])
    if layers and layers[0]["class_name"] != "InputLayer" and "batch_input_shape" in layers[0]["config"]:
        first = layers[0]["config"]
        options = {"batch_shape": first["batch_input_shape"], "dtype": first.get("input_dtype")}
        layers.insert(0, {"module": "keras.layers", "class_name": "InputLayer", "config": options})


def _count_calls_from_zero(config: dict[str, Any]) -> None:
    """Number the calls of inner models from 0: for Keras 2, the making of such a model was its first call.

    Keras 3 allows for that where the output of an inner model, if functional, is an output of the whole.
    """
    inner = {
        entry["name"]: entry["class_name"]
        for entry in config.get("layers", [])
        if entry["class_name"] in ("Functional", "Model", "Sequential")
    }
    calls = [call for entry in config.get("layers", []) for call in _calls(entry.get("inbound_nodes"), inner)]
    outputs = list(_calls(config.get("output_layers"), inner))
    for name, kind in inner.items():
        if all(call[1] > 0 for call in calls + outputs if call[0] == name):
            for call in calls if kind != "Sequential" else calls + outputs:
                call[1] -= call[0] == name


def _unwrap_single_tensors(config: dict[str, Any]) -> None:
    """A single input or output was written as a list of one, which Keras 3 would ask for, or return."""
    for key in ("input_layers", "output_layers"):
        tensors = config.get(key)
        if isinstance(tensors, list) and len(tensors) == 1 and isinstance(tensors[0], list):
            config[key] = tensors[0]


def _calls(nodes: Any, names: dict[str, str]) -> Iterator[list[Any]]:
    """Every `[layer, call, output, ...]` in a config that refers to one of the layers."""
    if isinstance(nodes, list) and len(nodes) > 2 and isinstance(nodes[0], str) and isinstance(nodes[1], int):
        if nodes[0] in names:
            yield nodes
    for node in nodes.values() if isinstance(nodes, dict) else nodes if isinstance(nodes, list) else []:
        yield from _calls(node, names)


def layer_names(config: Any) -> list[str]:
    """Names of the layers of a model's config, inner models after the layers that hold them, in order."""
    names = []
    for entry in config.get("config", {}).get("layers", []):
        names.append(entry["config"].get("name") or entry.get("name"))
        names += layer_names(entry)
    return names
