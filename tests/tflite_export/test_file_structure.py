"""What doesn't hold together in a .tflite file is named."""

import numpy as np
import pytest

from keras_attention.tflite import file_structure
from keras_attention.tflite import graph as graphs


@pytest.fixture(scope="module")
def content(converted):
    return converted("dense", "int8").path.read_bytes()


def test_sound_files(converted, content):
    for read in (content, converted("transformer", "int8").path.read_bytes()):
        file_structure.read(read)


def test_lists_that_are_left_out_are_empty(content):
    graph = graphs.read_graph(content)
    graph.signatureDefs, graph.metadata = None, None
    graph.subgraphs[0].operators[0].intermediates = None
    read = file_structure.read(graphs.write_graph(graph))
    assert (read.signatureDefs, read.metadata, read.subgraphs[0].operators[0].intermediates) == ([], [], [])


def _scales(tensors, scale, zeros):
    tensor = next(t for t in tensors if t.quantization is not None and t.quantization.scale is not None)
    tensor.quantization.scale, tensor.quantization.zeroPoint = scale, zeros


EDITS = {
    r"it holds no graph": lambda g, s: setattr(g, "subgraphs", []),
    r"operator 1 refers to tensor 997 of \d+": lambda g, s: setattr(s.operators[1], "inputs", [997, 0, 1]),
    r"operator 0 refers to tensor -7 of": lambda g, s: setattr(s.operators[0], "outputs", [-7]),
    r"operator 0 refers to operator code 97 of": lambda g, s: setattr(s.operators[0], "opcodeIndex", 97),
    r"the graph's inputs refers to tensor 997": lambda g, s: setattr(s, "inputs", [997]),
    r"an offset, a length or an index in it": lambda g, s: setattr(s.tensors[1], "buffer", 997),
    r"tensor 0 has a negative size, shape \[1, -7\]": lambda g, s: setattr(s.tensors[0], "shape", [1, -7]),
    r"tensor 0 is larger than any": lambda g, s: setattr(s.tensors[0], "shape", [2**30, 2**30]),
    r"tensor 0 is larger than any runtime takes, shape \[1, 1,": lambda g, s: setattr(
        s.tensors[0], "shape", [1] * 9
    ),
    r"tensor \d+ has 1 scales and 3 zero points": lambda g, s: _scales(s.tensors, [1.0], [0, 0, 0]),
    r"tensor \d+ has scales that are not finite": lambda g, s: _scales(s.tensors, [np.nan], [0]),
    r"a signature refers to subgraph 5 of 1": lambda g, s: setattr(g.signatureDefs[0], "subgraphIndex", 5),
    r"a signature's outputs refers to tensor 997": lambda g, s: setattr(
        g.signatureDefs[0].outputs[0], "tensorIndex", 997
    ),
    r"the name of tensor 0 is no text": lambda g, s: setattr(s.tensors[0], "name", b"\xff\xfe"),
    r"the name of a signature holds control characters": lambda g, s: setattr(
        g.signatureDefs[0], "signatureKey", b"\x1b[2J"
    ),
}


@pytest.mark.parametrize("words", EDITS)
def test_what_is_wrong_is_said(content, words):
    graph = graphs.read_graph(content)
    EDITS[words](graph, graph.subgraphs[0])
    with pytest.raises(ValueError, match=rf"The file is damaged: {words}"):
        file_structure.read(graphs.write_graph(graph))


@pytest.mark.parametrize("change", [-3, 5])
def test_constants_of_another_size(content, change):
    graph = graphs.read_graph(content)
    tensor = next(t for t in graph.subgraphs[0].tensors if graphs.is_constant(graph, t) and len(t.shape) == 2)
    data = np.array(graph.buffers[tensor.buffer].data)
    graph.buffers[tensor.buffer].data = np.resize(data, len(data) + change)
    with pytest.raises(
        ValueError, match=rf"needs {len(data):,} bytes for its shape .* has {len(data) + change:,}\."
    ):
        file_structure.read(graphs.write_graph(graph))


def test_cut_files_and_other_bytes(content):
    for size in (20, 100, len(content) // 2):
        with pytest.raises(ValueError, match="an offset, a length or an index in it leads outside the file"):
            file_structure.read(content[:size])
    with pytest.raises(graphs.NoGraphError, match=r"not a \.tflite file: its mark"):
        file_structure.read(b"text, not a model")
