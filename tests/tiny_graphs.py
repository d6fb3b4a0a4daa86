"""Float graphs of a few operators, written by hand: exact about which operator is tested, and fast."""

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs
from keras_attention.tflite import runtime


class TinyGraph:
    """A file that is put together operator by operator; every method returns the index of a tensor."""

    def __init__(self):
        self.graph = schema.ModelT()
        self.graph.version, self.graph.operatorCodes, self.graph.metadata = 3, [], []
        self.graph.buffers = [schema.BufferT()]
        self.subgraph = schema.SubGraphT()
        self.subgraph.tensors, self.subgraph.operators = [], []
        self.subgraph.inputs, self.subgraph.outputs = [], []
        self.graph.subgraphs = [self.subgraph]

    def tensor(self, shape, kind="float32", layer=""):
        """A tensor called as `layer_names` calls it."""
        index = editing.add_tensor(self.subgraph, list(shape), getattr(schema.TensorType, kind.upper()))
        self.subgraph.tensors[index].name = f"0.{index}:{layer}".encode()
        return index

    def input(self, *shape, kind="float32"):
        """One more input, called i0, i1, ..."""
        self.subgraph.inputs.append(self.tensor(shape, kind))
        return self.subgraph.inputs[-1]

    def constant(self, values):
        """Stored values: float32, int32 or bool; Python numbers become float32."""
        array = np.asarray(values)
        if array.dtype not in (np.float32, np.int32, np.bool_):
            array = array.astype(np.int32 if array.dtype.kind == "i" else np.float32)
        index = editing.add_constant(self.graph, self.subgraph, array)
        self.subgraph.tensors[index].name = f"0.{index}:".encode()
        return index

    def quantized(self, index, scale, zero_point=0, values=None):
        """Make a float tensor an int8 quantity with one scale or several, perhaps of stored values."""
        tensor = self.subgraph.tensors[index]
        tensor.type = schema.TensorType.INT8
        tensor.quantization = schema.QuantizationParametersT()
        scales = np.atleast_1d(np.asarray(scale, np.float32))
        tensor.quantization.scale, tensor.quantization.zeroPoint = scales, np.full(scales.shape, zero_point)
        if values is not None:
            data = np.frombuffer(np.asarray(values, np.int8).tobytes(), np.uint8)
            self.graph.buffers[tensor.buffer].data = data
        return index

    def op(self, name, *inputs, shape, kind="float32", version=1, table=None, layer="", **options):
        """An operator with one output, or several where `shape` is a list of shapes."""
        shapes = shape if isinstance(shape, list) else [shape]
        outputs = [self.tensor(one, kind, layer) for one in shapes]
        if table is None:
            operator = editing.new_operator(self.graph, name, list(inputs), outputs, version, **options)
        else:
            operator = editing.new_operator(self.graph, name, list(inputs), outputs, version)
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, f"{table}Options")
            operator.builtinOptions = getattr(schema, f"{table}OptionsT")()
            for field, value in options.items():
                assert hasattr(operator.builtinOptions, field), field
                setattr(operator.builtinOptions, field, value)
        self.subgraph.operators.append(operator)
        return outputs if isinstance(shape, list) else outputs[0]

    def finish(self, *outputs):
        """The bytes of the file, with a signature."""
        self.subgraph.outputs = list(outputs)
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = b"serve", 0
        for side in ("inputs", "outputs"):
            entries = []
            for position, tensor in enumerate(getattr(self.subgraph, side)):
                entry = schema.TensorMapT()
                entry.name, entry.tensorIndex = f"{side[0]}{position}".encode(), tensor
                entries.append(entry)
            setattr(signature, side, entries)
        self.graph.signatureDefs = [signature]
        return graphs.write_graph(self.graph)


def normal(graph, count=61, seed=7, scale=1.0):
    """Seeded samples for the inputs of a graph: normal numbers, small ids, or bytes."""
    rng = np.random.default_rng(seed)
    samples = {}
    for position, index in enumerate(graph.subgraphs[0].inputs):
        tensor = graph.subgraphs[0].tensors[index]
        shape, kind = (count, *tensor.shape[1:]), graphs.tensor_type(tensor)
        if kind == "float32":
            samples[f"i{position}"] = (scale * rng.normal(size=shape)).astype(np.float32)
        elif kind == "bool":
            samples[f"i{position}"] = rng.random(shape) < 0.5
        else:
            samples[f"i{position}"] = rng.integers(0, 101, shape).astype(kind)
    return samples


def operator_names(graph):
    """The names of subgraph 0's operators in order."""
    return [graphs.operator_name(graph, operator) for operator in graph.subgraphs[0].operators]


def compared(build, change, samples=None):
    """Answers before and after a change of the graph, what the change returned, and the new operators."""
    tiny = TinyGraph()
    outputs = build(tiny)
    content = tiny.finish(*(outputs if isinstance(outputs, list) else [outputs]))
    graph = graphs.read_graph(content)
    returned = change(graph)
    graphs.remove_dead(graph)
    graphs.remove_unused(graph)
    samples = normal(graph) if samples is None else samples
    old = runtime.run_samples(content, samples)
    new = runtime.run_samples(graphs.write_graph(graph), samples)
    assert [a.shape for a in old] == [a.shape for a in new]
    return old, new, returned, operator_names(graph)
