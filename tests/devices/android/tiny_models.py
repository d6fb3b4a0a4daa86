"""Small .tflite files of each kind that apps are written for, with manifests, made without TensorFlow."""

from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import merging
from keras_attention.tflite import runtime

AXES = ["ax", "ay", "az", "wx", "wy", "wz"]


def quantized(tiny, index, scale, zero_point):
    """Give a tensor its scale."""
    parameters = schema.QuantizationParametersT()
    parameters.scale, parameters.zeroPoint = [scale], [zero_point]
    tiny.subgraph.tensors[index].quantization = parameters
    return index


def dense(tiny, rng, inputs, units, size):
    """A dense layer over everything that the input holds."""
    flat = tiny.op("RESHAPE", inputs, tiny.constant([1, size]), shape=(1, size))
    kernel = tiny.constant(rng.normal(size=(units, size)).astype("float32") / np.sqrt(size))
    bias = tiny.constant(rng.normal(size=units).astype("float32"))
    return tiny.op("FULLY_CONNECTED", flat, kernel, bias, shape=(1, units), table="FullyConnected")


def real(tiny, index, shape):
    """An input as real numbers."""
    return tiny.op("DEQUANTIZE", index, shape=tuple(shape))


def steps(tiny, index, shape, kind, scale, zero_point):
    """Real numbers as an output of steps."""
    return quantized(tiny, tiny.op("QUANTIZE", index, shape=tuple(shape), kind=kind), scale, zero_point)


def softmax(tiny, index, units):
    """Probabilities."""
    return tiny.op("SOFTMAX", index, shape=(1, units), table="Softmax", beta=1.0)


def window_float(tiny, rng):
    """A float window with a second output over time."""
    window = tiny.input(1, 16, 6)
    scores = softmax(tiny, dense(tiny, rng, window, 4, 96), 4)
    return [scores, softmax(tiny, dense(tiny, rng, window, 16, 96), 16)]


def window_int8(tiny, rng):
    """A window and scores in int8."""
    window = quantized(tiny, tiny.input(1, 16, 6, kind="int8"), 0.04, 3)
    scores = softmax(tiny, dense(tiny, rng, real(tiny, window, [1, 16, 6]), 4, 96), 4)
    return [steps(tiny, scores, [1, 4], "int8", 1 / 256, -128)]


def image_uint8(tiny, rng):
    """A colour image in bytes that have no scale, and scores in uint8."""
    image = tiny.input(1, 7, 5, 3, kind="uint8")
    numbers = tiny.op("CAST", image, shape=(1, 7, 5, 3), table="Cast", inDataType=3, outDataType=0)
    scores = softmax(tiny, dense(tiny, rng, numbers, 3, 105), 3)
    return [steps(tiny, scores, [1, 3], "uint8", 1 / 256, 0)]


def image_float(tiny, rng):
    """A colour image in real numbers."""
    return [softmax(tiny, dense(tiny, rng, tiny.input(1, 7, 5, 3), 3, 105), 3)]


def image_int8(tiny, rng):
    """A grey image in int8."""
    image = quantized(tiny, tiny.input(1, 7, 5, 1, kind="int8"), 0.0625, -128)
    return [softmax(tiny, dense(tiny, rng, real(tiny, image, [1, 7, 5, 1]), 3, 35), 3)]


def batch(tiny, rng):
    """Three windows at a time."""
    flat = tiny.op("RESHAPE", tiny.input(3, 7, 2), tiny.constant([3, 14]), shape=(3, 14))
    kernel = tiny.constant(rng.normal(size=(4, 14)).astype("float32"))
    bias = tiny.constant(rng.normal(size=4).astype("float32"))
    return [tiny.op("FULLY_CONNECTED", flat, kernel, bias, shape=(3, 4), table="FullyConnected")]


def two_inputs(tiny, rng):
    """A window and two numbers, added; one unit between two labels."""
    window = dense(tiny, rng, tiny.input(1, 11, 3), 1, 33)
    other = dense(tiny, rng, tiny.input(1, 2), 1, 2)
    total = tiny.op("ADD", window, other, shape=(1, 1), table="Add")
    return [tiny.op("LOGISTIC", total, shape=(1, 1))]


def tokens(tiny, rng):
    """Token numbers, a table of embeddings, a class number."""
    given = tiny.input(1, 7, kind="int32")
    table = tiny.constant(rng.normal(size=(101, 4)).astype("float32"))
    rows = tiny.op("GATHER", table, given, shape=(1, 7, 4), table="Gather")
    scores = dense(tiny, rng, rows, 5, 28)
    return [
        tiny.op(
            "ARG_MAX",
            scores,
            tiny.constant(np.int32(1)),
            shape=(1,),
            kind="int64",
            table="ArgMax",
            outputType=4,
        )
    ]


def exercise(tiny, rng):
    """What the example app calls Exercise: a window in int8, scores and attention."""
    window = quantized(tiny, tiny.input(1, 128, 6, kind="int8"), 0.0625, -7)
    flat = real(tiny, window, [1, 128, 6])
    return [
        softmax(tiny, dense(tiny, rng, flat, 7, 768), 7),
        softmax(tiny, dense(tiny, rng, flat, 32, 768), 32),
    ]


def digit(tiny, rng):
    """What it calls Digit."""
    image = quantized(tiny, tiny.input(1, 8, 8, 1, kind="uint8"), 1.0, 0)
    flat = real(tiny, image, [1, 8, 8, 1])
    weights = softmax(tiny, dense(tiny, rng, flat, 64, 64), 64)
    places = tiny.op("RESHAPE", weights, tiny.constant([1, 8, 8]), shape=(1, 8, 8))
    return [softmax(tiny, dense(tiny, rng, flat, 10, 64), 10), places]


def save(tiny_graph, build, folder, name, entries, tasks, seed, names=None, given=None):
    """Write a file and its manifest; return its path.

    `names` are those of its inputs and outputs; `given` makes the only input's samples of 8-bit pictures.
    """
    tiny = tiny_graph()
    rng = np.random.default_rng(seed)
    content = tiny.finish(*build(tiny, rng))
    if names is not None:
        graph = graphs.read_graph(content)
        (signature,) = graph.signatureDefs
        for entry, own in zip([*signature.inputs, *signature.outputs], names, strict=True):
            entry.name = own.encode()
        content = graphs.write_graph(graph)
    return seal(content, folder, name, entries, tasks, rng, given)


def seal(content, folder, name, entries, tasks, rng, given=None, count=24):
    """Put a manifest into a file and beside it; return its path."""
    graph = graphs.read_graph(content)
    samples = {}
    for spec in graphs.interface(graph)["inputs"]:
        shape = (count, *spec["shape"][1:])
        if given is not None:
            samples[spec["name"]] = given(rng.integers(0, 256, shape)).astype(spec["dtype"])
        elif spec["dtype"] == "float32":
            samples[spec["name"]] = rng.normal(size=shape).astype("float32")
        else:
            low, high = {"int8": (-128, 128), "uint8": (0, 256)}.get(spec["dtype"], (0, 101))
            samples[spec["name"]] = rng.integers(low, high, shape).astype(spec["dtype"])
    answers = runtime.run_samples(content, samples)
    sealed = manifests.seal(
        content,
        entries,
        precision="float32",
        packages={},
        tasks=tasks,
        source="evaluation",
        samples=list(samples.values()),
        keras_answers=[answer.astype("float32") for answer in answers],
        file_answers=answers,
    )
    path = Path(folder) / f"{name}.tflite"
    path.write_bytes(sealed.content)
    manifests.sidecar_path(path).write_bytes(sealed.sidecar())
    return path


def two_signatures(tiny_graph, folder, name):
    """A file as `convert_signatures` merges it, without a manifest."""
    contents = {}
    for key, build in (("encode", window_float), ("step", two_inputs)):
        tiny = tiny_graph()
        contents[key] = tiny.finish(*build(tiny, np.random.default_rng(29)))
    path = Path(folder) / f"{name}.tflite"
    path.write_bytes(merging.merge(contents))
    return path


def pair_of_everything(tiny, rng):
    """Two inputs of different shapes, two outputs."""
    window, other = tiny.input(1, 11, 3), tiny.input(1, 2)
    return [softmax(tiny, dense(tiny, rng, window, 5, 33), 5), dense(tiny, rng, other, 3, 2)]


def without_signature(tiny_graph, folder, name, build=lambda tiny, rng: window_float(tiny, rng)[:1]):
    """A file of another tool: no signature, no manifest."""
    tiny = tiny_graph()
    graph = graphs.read_graph(tiny.finish(*build(tiny, np.random.default_rng(31))))
    graph.signatureDefs = []
    path = Path(folder) / f"{name}.tflite"
    path.write_bytes(graphs.write_graph(graph))
    return path
