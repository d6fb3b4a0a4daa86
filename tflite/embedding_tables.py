"""Lookup tables in int8: an Embedding is most of a text model's file.

A row is looked up as it is stored and turned to float behind the lookup, so that a table takes a
quarter of its size and one operator more. One scale serves the whole table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_attention.tflite import editing
from keras_attention.tflite import graph as graphs

SMALLEST = 1_024
"""Tables of fewer values stay float: little is saved."""
_TABLES = {"GATHER": 0, "EMBEDDING_LOOKUP": 1}
"""Lookup -> position of the table among its inputs."""
_INT8_GATHER, _INT8_DEQUANTIZE = 2, 2
"""Operator versions that read int8."""


def quantize_tables(graph: Any) -> int:
    """Store the float tables of subgraph 0's lookups in int8, and return how many lookups read one."""
    subgraph = graph.subgraphs[0]
    stored: dict[int, int] = {}
    operators = []
    count = 0
    for operator in subgraph.operators:
        operators.append(operator)
        position = _TABLES.get(graphs.operator_name(graph, operator))
        if position is None or not _is_table(graph, int(operator.inputs[position])):
            continue
        table, result = int(operator.inputs[position]), int(operator.outputs[0])
        if table not in stored:
            stored[table] = _store(graph, table)
        inputs = [int(index) for index in operator.inputs]
        inputs[position] = stored[table]
        row = editing.add_tensor(subgraph, list(subgraph.tensors[result].shape), schema.TensorType.INT8)
        subgraph.tensors[row].quantization = subgraph.tensors[stored[table]].quantization
        operator.inputs, operator.outputs = inputs, [row]
        code = graph.operatorCodes[operator.opcodeIndex]
        builtin = max(code.builtinCode, code.deprecatedBuiltinCode)
        operator.opcodeIndex = graphs.operator_code(graph, builtin, max(code.version, _INT8_GATHER))
        operators.append(editing.new_operator(graph, "DEQUANTIZE", [row], [result], _INT8_DEQUANTIZE))
        count += 1
    subgraph.operators = operators
    if count:
        graphs.remove_unused(graph)
    return count


def _is_table(graph: Any, index: int) -> bool:
    tensor = graph.subgraphs[0].tensors[index]
    if graphs.tensor_type(tensor) != "float32" or not graphs.is_constant(graph, tensor):
        return False
    return len(tensor.shape) == 2 and int(np.prod(tensor.shape)) >= SMALLEST


def _store(graph: Any, index: int) -> int:
    """Store the table in int8 and return its tensor."""
    subgraph = graph.subgraphs[0]
    values = graphs.constant_value(graph, subgraph.tensors[index])
    step = float(np.abs(values).max()) / 127 or 1.0
    buffer = schema.BufferT()
    buffer.data = np.round(values / step).astype(np.int8).reshape(-1).view(np.uint8)
    graph.buffers.append(buffer)
    table = editing.add_tensor(subgraph, list(values.shape), schema.TensorType.INT8, len(graph.buffers) - 1)
    quantization = schema.QuantizationParametersT()
    quantization.scale, quantization.zeroPoint = [step], [0]
    subgraph.tensors[table].quantization = quantization
    return table
