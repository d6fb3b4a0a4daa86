"""Ways to damage a .tflite file: its bytes, and what its tables say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests

ODD = (-(2**31), -129, -2, -1, 0, 1, 7, 255, 65_537, 2**20, 2**31 - 1)
"""Numbers at the edges of types, and others that no small file means in earnest."""
Mutation = Callable[[bytes, np.random.Generator], bytes]


def flip(content: bytes, generator: np.random.Generator) -> bytes:
    """Change 1 to 16 bytes anywhere."""
    damaged = np.frombuffer(content, np.uint8).copy()
    places = generator.integers(0, len(content), generator.integers(1, 17))
    damaged[places] ^= generator.integers(1, 256, len(places), dtype=np.uint8)
    return damaged.tobytes()


def cut(content: bytes, generator: np.random.Generator) -> bytes:
    """Leave out the end, or append a piece."""
    place = int(generator.integers(0, len(content)))
    return content[:place] if generator.random() < 0.8 else content + content[place:]


def splice(content: bytes, generator: np.random.Generator) -> bytes:
    """Copy, remove or insert a stretch of bytes."""
    start, end, place = sorted(int(n) for n in generator.integers(0, len(content), 3))
    stretch = content[start:end]
    choices = (
        content[:start] + content[end:],
        content[:place] + stretch + content[place:],
        content[:place] + stretch + content[place + len(stretch) :],
    )
    return choices[int(generator.integers(len(choices)))]


def words(content: bytes, generator: np.random.Generator) -> bytes:
    """Overwrite 1 to 4 aligned 32-bit words by edge numbers: offsets, lengths, indices."""
    damaged = np.frombuffer(content[: len(content) // 4 * 4], "<i4").copy()
    for _ in range(int(generator.integers(1, 5))):
        place = generator.integers(0, len(damaged))
        damaged[place] = _odd(generator) if generator.random() < 0.5 else damaged[place] + _step(generator)
    return damaged.tobytes() + content[len(damaged) * 4 :]


def _edited(edit: Callable[[Any, np.random.Generator], None]) -> Mutation:
    """Return the mutation that edits the file as an object, so that all the rest stays right."""

    def mutate(content: bytes, generator: np.random.Generator) -> bytes:
        while True:
            graph = graphs.read_graph(content)
            for _ in range(int(generator.integers(1, 4))):
                edit(graph, generator)
            try:
                return graphs.write_graph(graph)
            except TypeError:  # the format can't hold such a number in such a field: edit otherwise
                continue

    return mutate


def _indices(graph: Any, generator: np.random.Generator) -> None:
    """Tensors of operators, of the graph and of its signature."""
    subgraph = graph.subgraphs[0]
    operator = _pick(subgraph.operators, generator)
    lists = [operator.inputs, operator.outputs, subgraph.inputs, subgraph.outputs]
    entries = [*graph.signatureDefs[0].inputs, *graph.signatureDefs[0].outputs]
    kind = int(generator.integers(6))
    if kind < 4:
        values = lists[kind]
        values[int(generator.integers(len(values)))] = _near(len(subgraph.tensors), generator)
    elif kind == 4:
        _pick(entries, generator).tensorIndex = abs(_near(len(subgraph.tensors), generator))
    else:
        operator.opcodeIndex = abs(_near(len(graph.operatorCodes), generator))


def _shapes(graph: Any, generator: np.random.Generator) -> None:
    tensor = _pick(graph.subgraphs[0].tensors, generator)
    shape = [int(size) for size in (tensor.shape if tensor.shape is not None else [])]
    kind = int(generator.integers(4))
    if kind == 0 or not shape:
        shape = [*shape, _odd(generator)]
    elif kind == 1:
        shape = shape[:-1]
    elif kind == 2:
        shape = shape * 5
    else:
        shape[int(generator.integers(len(shape)))] = _odd(generator)
    tensor.shape = shape


def _types(graph: Any, generator: np.random.Generator) -> None:
    _pick(graph.subgraphs[0].tensors, generator).type = int(generator.choice([*range(23), 100, -1]))


def _buffers(graph: Any, generator: np.random.Generator) -> None:
    """The length or the values of what is stored, or which of them a tensor takes."""
    if generator.random() < 0.4:
        tensor = _pick(graph.subgraphs[0].tensors, generator)
        tensor.buffer = abs(_near(len(graph.buffers), generator))
        return
    filled = [buffer for buffer in graph.buffers if buffer.data is not None and len(buffer.data)]
    buffer = _pick(filled, generator)
    data = np.array(buffer.data, np.uint8)
    kind = int(generator.integers(3))
    if kind == 0:
        data = data[: int(generator.integers(0, len(data)))]
    elif kind == 1:
        data = np.concatenate([data, data])
    else:
        data = generator.integers(0, 256, len(data), dtype=np.uint8)
    buffer.data = data


def _operators(graph: Any, generator: np.random.Generator) -> None:
    """Which operator it is, its version, its options, or its place."""
    subgraph = graph.subgraphs[0]
    kind = int(generator.integers(5))
    code = _pick(graph.operatorCodes, generator)
    if kind == 0:
        code.builtinCode = int(generator.integers(0, 210))
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    elif kind == 1:
        code.version = _odd(generator)
    elif kind == 2:
        place = int(generator.integers(len(subgraph.operators)))
        subgraph.operators.insert(0, subgraph.operators.pop(place))
    elif kind == 3:
        operator = _pick(subgraph.operators, generator)
        operator.builtinOptions, operator.builtinOptionsType = None, 0
    else:
        code.customCode, code.builtinCode, code.deprecatedBuiltinCode = b"FlexErf", 32, 32


def _options(graph: Any, generator: np.random.Generator) -> None:
    """A number in an operator's options: strides, axes, activations."""
    having = [op for op in graph.subgraphs[0].operators if op.builtinOptions is not None]
    options = _pick(having, generator).builtinOptions
    numbers = [name for name, value in vars(options).items() if type(value) is int]
    if numbers:
        value = int(generator.integers(0, 100)) if generator.random() < 0.3 else _odd(generator)
        setattr(options, str(generator.choice(numbers)), value)


def _quantization(graph: Any, generator: np.random.Generator) -> None:
    scaled = [
        t
        for t in graph.subgraphs[0].tensors
        if t.quantization is not None and t.quantization.scale is not None
    ]
    if not scaled:
        return _types(graph, generator)
    quantization = _pick(scaled, generator).quantization
    kind = int(generator.integers(4))
    if kind == 0:
        quantization.scale = [float(generator.choice([0.0, -1.0, np.inf, np.nan, 1e30, 1e-30]))]
    elif kind == 1:
        quantization.zeroPoint = [2**40]
    elif kind == 2:
        quantization.zeroPoint = None
    else:
        quantization.quantizedDimension = _odd(generator)
    return None


def _texts(graph: Any, generator: np.random.Generator) -> None:
    """Names that are no text, empty, long, or orders to a terminal."""
    text = (b"\xff\xfe\x00", b"", b"a" * 100_000, b"\x1b]0;name\x07\x1b[2J", "[bold]名[/bold]".encode())
    name = text[int(generator.integers(len(text)))]
    signature = graph.signatureDefs[0]
    holders = (
        _pick(graph.subgraphs[0].tensors, generator),
        *signature.inputs,
        *signature.outputs,
        *graph.metadata,
    )
    _pick(holders, generator).name = name
    if generator.random() < 0.3:
        signature.signatureKey = name


def _manifest(graph: Any, generator: np.random.Generator) -> None:
    """A value in the manifest that is of another type, gone, or huge; or its text cut short."""
    data = graphs.metadata(graph, manifests.ENTRY) or b"{}"
    kind = int(generator.integers(3))
    if kind == 0:
        data = flip(data, generator)
    elif kind == 1:
        data = data[: int(generator.integers(0, len(data)))]
    else:
        try:
            document = json.loads(data)
        except ValueError:
            return
        edit_json(document, generator)
        data = json.dumps(document).encode()
    graphs.set_metadata(graph, manifests.ENTRY, data)


def edit_json(document: Any, generator: np.random.Generator) -> None:
    """Replace or remove one value anywhere in it."""
    places = list(_places(document))
    if not places:
        return
    holder, key = places[int(generator.integers(len(places)))]
    odd = (None, True, -1, 10**12, 1e308, "", "../../etc/passwd", [], {}, [[]], "x" * 10_000, [None] * 100)
    if isinstance(holder, dict) and generator.random() < 0.25:
        del holder[key]
    else:
        holder[key] = odd[int(generator.integers(len(odd)))]


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


def _pick(items: Any, generator: np.random.Generator) -> Any:
    return items[int(generator.integers(len(items)))]


def _odd(generator: np.random.Generator) -> int:
    return int(generator.choice(ODD))


def _step(generator: np.random.Generator) -> int:
    return int(generator.choice([-8, -4, -1, 1, 4, 8]))


def _near(count: int, generator: np.random.Generator) -> int:
    """Return an index inside or just outside of a list, or an edge number."""
    kind = generator.random()
    return int(generator.integers(-2, count + 3)) if kind < 0.7 else _odd(generator) % (2**31)


MUTATIONS: dict[str, Mutation] = {
    "bytes changed": flip,
    "cut short or longer": cut,
    "stretches moved": splice,
    "offsets and lengths": words,
    "tensor indices": _edited(_indices),
    "shapes": _edited(_shapes),
    "types": _edited(_types),
    "stored values": _edited(_buffers),
    "operators": _edited(_operators),
    "options": _edited(_options),
    "scales": _edited(_quantization),
    "names": _edited(_texts),
    "manifest": _edited(_manifest),
}
