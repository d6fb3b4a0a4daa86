"""Small .tflite files of all kinds that a page must run, made in seconds: graphs by hand, then quantized."""

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from sklearn import datasets
from sklearn import neural_network
from tiny_graphs import TinyGraph

from keras_attention import tflite
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import manifest as manifests
from keras_attention.tflite import merging
from keras_attention.tflite import runtime

FEATURES = ("ax", "ay", "az")
WINDOW = 13
RATE = 25
MEAN, STD = (0.5, -1.0, 2.0), (2.0, 0.5, 1.5)
HOSTILE = ("</script><img src=x onerror=hit()>", '"><b id=hit>&amp;', "ünï 🏃", "long" * 30)
HOSTILE_NAME = "we\"ird <i>&'ü$"
SEED = 5


def weights(rng, *shape):
    """Random weights that keep the size of what goes through."""
    return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype("float32")


def dense(graph, rng, source, inputs, units, rows=1):
    """FULLY_CONNECTED with random weights."""
    kernel, bias = graph.constant(weights(rng, units, inputs)), graph.constant(np.zeros(units, "float32"))
    return graph.op("FULLY_CONNECTED", source, kernel, bias, shape=(rows, units))


def reshape(graph, source, *shape):
    """RESHAPE."""
    return graph.op("RESHAPE", source, graph.constant(list(shape)), shape=shape)


def softmax(graph, source, *shape):
    """SOFTMAX."""
    return graph.op("SOFTMAX", source, shape=shape, beta=1.0)


def window_file():
    """A window to classes, and how much each step counts."""
    graph, rng = TinyGraph(), np.random.default_rng(SEED)
    window = graph.input(1, WINDOW, 3)
    scores = dense(graph, rng, reshape(graph, window, WINDOW, 3), 3, 1, rows=WINDOW)
    attention = softmax(graph, reshape(graph, scores, 1, WINDOW), 1, WINDOW)
    flat = reshape(graph, window, 1, WINDOW * 3)
    return graph.finish(softmax(graph, dense(graph, rng, flat, WINDOW * 3, 4), 1, 4), attention)


def image_file():
    """A picture, higher than wide, to classes."""
    graph, rng = TinyGraph(), np.random.default_rng(SEED)
    flat = reshape(graph, graph.input(1, 9, 7, 3), 1, 9 * 7 * 3)
    return graph.finish(softmax(graph, dense(graph, rng, flat, 9 * 7 * 3, 5), 1, 5))


def two_inputs_file():
    """Two vectors to two numbers."""
    graph, rng = TinyGraph(), np.random.default_rng(SEED)
    both = graph.op("CONCATENATION", graph.input(1, 5), graph.input(1, 3), shape=(1, 8), axis=1)
    return graph.finish(dense(graph, rng, both, 8, 2))


def tokens_file():
    """Six tokens to three classes."""
    graph, rng = TinyGraph(), np.random.default_rng(SEED)
    tokens = graph.input(1, 6, kind="int32")
    rows = graph.op("GATHER", graph.constant(weights(rng, 101, 8)), tokens, shape=(1, 6, 8))
    flat = reshape(graph, rows, 1, 48)
    return graph.finish(softmax(graph, dense(graph, rng, flat, 48, 3), 1, 3))


def digits_file(images, labels, most=255):
    """scikit-learn's digits, 0 to so much, to classes: a small network trained here."""
    network = neural_network.MLPClassifier((64,), learning_rate_init=0.003, random_state=0)
    for _ in range(40):
        network.partial_fit(images.reshape(-1, 64) / most, labels, classes=range(10))
    graph = TinyGraph()
    hidden = reshape(graph, graph.input(1, 8, 8, 1), 1, 64)
    hidden = graph.op("MUL", hidden, graph.constant(np.float32(1 / most)), shape=(1, 64))
    for number, (kernel, bias) in enumerate(zip(network.coefs_, network.intercepts_, strict=True)):
        values = [graph.constant(array.astype("float32")) for array in (kernel.T.copy(), bias)]
        hidden = graph.op("FULLY_CONNECTED", hidden, *values, shape=(1, len(bias)))
        if number == 0:
            hidden = graph.op("RELU", hidden, shape=(1, len(bias)))
    return graph.finish(softmax(graph, hidden, 1, 10))


def write(folder):
    """Write all files; name -> path, in the order of the page's tabs, and name -> samples of each input."""
    rng = np.random.default_rng(SEED)
    digits = datasets.load_digits()
    pixels = np.round(digits.images * (255 / 16)).astype("float32")[..., None]
    window = {"i0": rng.normal(size=(101, WINDOW, 3)).astype("float32")}
    entries = {
        "labels": {"o0": list(HOSTILE)},
        "features": list(FEATURES),
        "attention": ["o1"],
        "sampling_rate_hz": RATE,
        "window_length": WINDOW,
        "preprocessing": {"mean": MEAN, "std": STD},
        "description": HOSTILE[0],
    }
    tokens = {"i0": rng.integers(0, 101, (101, 6)).astype("int32")}
    pair = {
        "i0": rng.normal(size=(101, 5)).astype("float32"),
        "i1": rng.normal(size=(101, 3)).astype("float32"),
    }
    picture = {"i0": rng.integers(0, 256, (101, 9, 7, 3)).astype("float32")}
    digit = {"i0": pixels[::7]}
    wanted = {
        "digits": (
            digits_file(pixels, digits.target),
            digit,
            "int8",
            {},
            {"labels": list("0123456789"), "pixel_range": [0, 255]},
        ),
        HOSTILE_NAME: (window_file(), window, "float32", {}, entries),
        "window_int8": (window_file(), window, "int8", {}, entries),
        "window_int8_full": (window_file(), window, "int8_full", {}, entries),
        "image_uint8": (image_file(), picture, "int8_full", {"io_dtype": "uint8"}, {}),
        "two_inputs": (two_inputs_file(), pair, "float32", {}, {"features": {"i1": ["u", "v", "w"]}}),
        "tokens": (tokens_file(), tokens, "int8", {}, {"labels": ["a", "b", "c"]}),
    }
    paths, samples = {}, {}
    for name, (content, given, precision, options, manifest) in wanted.items():
        paths[name], samples[name] = folder / f"{name}.tflite", given
        tflite.quantize(
            content,
            paths[name],
            precision=precision,
            calibration=given,
            manifest=manifest,
            task="regression" if name == "two_inputs" else None,
            min_sqnr_db=0.0,
            verbose=0,
            **options,
        )
    paths["two_signatures"] = folder / "two_signatures.tflite"
    both = {"whole": window_file(), "words": tokens_file()}
    paths["two_signatures"].write_bytes(merging.merge(both))
    samples["two_signatures"] = window
    bare = graphs.read_graph(two_inputs_file())
    bare.signatureDefs = []
    paths["no_signature"] = folder / "no_signature.tflite"
    paths["no_signature"].write_bytes(graphs.write_graph(bare))
    samples["no_signature"] = pair
    return paths, samples


def seal(path, content, entries, task, samples, source="evaluation"):
    """Write a file with its manifest, without converting anything."""
    answers = runtime.run_samples(content, samples)
    sealed = manifests.seal(
        content,
        entries,
        precision="float32",
        packages={},
        tasks=[task],
        source=source,
        samples=list(samples.values()),
        keras_answers=answers,
        file_answers=answers,
    )
    path.write_bytes(sealed.content)
    manifests.sidecar_path(path).write_bytes(sealed.sidecar())


def linear_file(*shape, units, sigmoid=False):
    """Numbers to a few others; the first axis counts samples."""
    graph, rng = TinyGraph(), np.random.default_rng(SEED)
    size = int(np.prod(shape[1:]))
    flat = reshape(graph, graph.input(*shape), shape[0], size)
    numbers = dense(graph, rng, flat, size, units, rows=shape[0])
    return graph.finish(graph.op("LOGISTIC", numbers, shape=(shape[0], units)) if sigmoid else numbers)


def write_odd(folder):
    """Write files that the page must ask about or be careful with; name -> path, in the order of the tabs."""
    rng = np.random.default_rng(SEED)
    digits = datasets.load_digits()
    images = digits.images[..., None].astype("float32")
    noise = {"i0": rng.normal(size=(9, 8, 8, 1)).astype("float32")}
    labels = {"labels": list("0123456789")}
    sixteen = {**labels, "pixel_range": [0, 16]}
    signs, shares = (digits_file(images * scale, digits.target, 16 * scale) for scale in (1, 1 / 16))
    wanted = {
        "sixteen": (signs, sixteen, "classification", {"i0": images[::7]}, "evaluation"),
        "unknown": (shares, labels, "classification", noise, "random"),
        "tokens": (
            tokens_file(),
            {},
            "classification",
            {"i0": rng.integers(0, 101, (9, 6)).astype("int32")},
            "evaluation",
        ),
        "three": (
            linear_file(3, 5, 2, units=4),
            {"labels": list("abcd"), "features": ["x,y", 'say "z"'], "sampling_rate_hz": 25},
            "classification",
            {"i0": rng.normal(size=(9, 5, 2)).astype("float32")},
            "evaluation",
        ),
        "values": (
            linear_file(1, 4, units=2),
            {"labels": ["height", " "]},
            "regression",
            {"i0": rng.normal(size=(9, 4)).astype("float32")},
            "evaluation",
        ),
        "one_label": (
            linear_file(1, 4, units=1, sigmoid=True),
            {"labels": ["cat"]},
            "regression",
            {"i0": rng.normal(size=(9, 4)).astype("float32")},
            "evaluation",
        ),
    }
    paths = {}
    for name, (content, entries, task, samples, source) in wanted.items():
        paths[name] = folder / f"{name}.tflite"
        seal(paths[name], content, entries, task, samples, source)
    return paths


def python_answers(path, samples, signature=None):
    """Stored inputs and outputs of LiteRT in Python, one dictionary per sample."""
    interpreter = Interpreter(model_path=str(path))
    keys = list(interpreter.get_signature_list())
    runner = interpreter.get_signature_runner(signature or keys[0])
    given, answers = [], []
    for number in range(len(next(iter(samples.values())))):
        stored = {}
        for name, detail in runner.get_input_details().items():
            values = samples[name][number : number + 1]
            scale, zero_point = detail["quantization"]
            if scale and detail["dtype"] in (np.int8, np.uint8):
                limits = np.iinfo(detail["dtype"])
                values = np.clip(np.round(values / scale) + zero_point, limits.min, limits.max)
            stored[name] = values.astype(detail["dtype"])
        given.append({name: values.ravel().tolist() for name, values in stored.items()})
        answers.append({name: values.ravel() for name, values in runner(**stored).items()})
    return given, answers
