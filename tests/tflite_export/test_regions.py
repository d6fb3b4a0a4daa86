"""Which operators become int8, planned on real float files and seen in the quantized ones."""

import collections

import numpy as np
import pytest

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import metrics
from keras_attention.tflite import quantization
from keras_attention.tflite import regions
from keras_attention.tflite import runtime

# The quantizer's own interpreter warns so; users see it in the log of the child at most.
pytestmark = pytest.mark.filterwarnings("ignore:Warning. Enabling `experimental_preserve_all_tensors`")


def operators(graph):
    return graph.subgraphs[0].operators


def names_of(graph, chosen):
    """Operator name -> count among the chosen indices."""
    return collections.Counter(graphs.operator_name(graph, operators(graph)[i]) for i in chosen)


def everything(graph):
    return names_of(graph, range(len(operators(graph))))


def activations(graph, operator, side):
    tensors = graph.subgraphs[0].tensors
    return [t for t in graphs.indices(getattr(operator, side)) if not graphs.is_constant(graph, tensors[t])]


def islands(graph, static):
    """Static operators without weights that touch a value which is float on one side."""
    producer = {t: i for i, op in enumerate(operators(graph)) for t in graphs.indices(op.outputs)}
    readers = collections.defaultdict(set)
    for index, operator in enumerate(operators(graph)):
        for tensor in activations(graph, operator, "inputs"):
            readers[tensor].add(index)
    weighted = {"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"}
    found = []
    for index in static:
        operator = operators(graph)[index]
        if graphs.operator_name(graph, operator) in weighted:
            continue
        before = {producer.get(t) for t in activations(graph, operator, "inputs")}
        after = set().union(*(readers[t] or {None} for t in activations(graph, operator, "outputs")))
        if not before | after <= set(static):
            found.append(index)
    return found


def quantized(name, case, content, precision="int8"):
    """The quantized file, its graph, and its SQNR against the float one."""
    samples = case(name).calibration
    (key,) = [d.split(":")[0] for d in graphs.describe_interface(graphs.read_graph(content))["inputs"]]
    result = quantization.quantize(content, precision, {key: samples})
    wanted = runtime.run_samples(content, {key: samples})
    ratio = metrics.sqnr_db(wanted[0], runtime.run_samples(result.content, {key: samples})[0])
    return result, graphs.read_graph(result.content), ratio


# --- convolutions


def test_cnn_is_int8_throughout(float_file):
    graph = graphs.read_graph(float_file("cnn"))
    plan = regions.plan_int8(graph)
    counts = everything(graph)
    assert counts["CONV_2D"] == 5 and counts["MEAN"] == 2 and counts["LOGISTIC"] == 1 and counts["ADD"] == 1
    assert not plan.dynamic
    assert everything(graph) - names_of(graph, plan.static) == {"SOFTMAX": 1}
    assert islands(graph, plan.static) == []


def test_cnn_has_one_conversion_at_each_end(case, float_file):
    result, graph, ratio = quantized("cnn", case, float_file("cnn"))
    counts = everything(graph)
    assert (counts["QUANTIZE"], counts["DEQUANTIZE"]) == (1, 1)
    assert runtime.partitions_and_operators(result.content)[0] == 1
    assert set(result.trials) - {"relieved"} == {"minmax", "percentile"}
    assert result.trials[result.ranges] == max(result.trials["minmax"], result.trials["percentile"])
    assert (result.static, result.dynamic) == (counts.total() - 3, 0), "a whole part is left in one piece"
    assert ratio > 25.0
    assert graphs.count_tensor_types(graph)["int8"] >= 6


def test_depthwise_is_static_in_int8_and_stored_in_dynamic(float_file):
    graph = graphs.read_graph(float_file("depthwise"))
    counts = everything(graph)
    assert counts["DEPTHWISE_CONV_2D"] == 2 and counts["CONV_2D"] == 1 and counts["FULLY_CONNECTED"] == 1
    static = names_of(graph, regions.plan_int8(graph).static)
    assert static["DEPTHWISE_CONV_2D"] == 2 and static["FULLY_CONNECTED"] == 1
    dynamic = regions.plan_dynamic(graph)
    assert names_of(graph, dynamic.dynamic) == {"CONV_2D": 1, "FULLY_CONNECTED": 1}
    assert dynamic.static == frozenset() and names_of(graph, dynamic.stored) == {"DEPTHWISE_CONV_2D": 2}


# --- attention


def test_transformer_is_int8_in_its_matrices_only(float_file):
    graph = graphs.read_graph(float_file("transformer"))
    counts = everything(graph)
    assert counts["SOFTMAX"] == 2 and counts["BATCH_MATMUL"] == 2 and counts["FULLY_CONNECTED"] == 8
    plan = regions.plan_int8(graph)
    assert names_of(graph, plan.static) == {"FULLY_CONNECTED": 8}
    assert not plan.dynamic
    assert names_of(graph, regions.plan_dynamic(graph).dynamic) == {"FULLY_CONNECTED": 8}


def test_transformer_keeps_its_float_operators(case, float_file):
    result, graph, ratio = quantized("transformer", case, float_file("transformer"))
    tensors = graph.subgraphs[0].tensors
    seen = collections.Counter()
    for operator in operators(graph):
        name = graphs.operator_name(graph, operator)
        kinds = {graphs.tensor_type(tensors[t]) for t in activations(graph, operator, "inputs")}
        if name == "FULLY_CONNECTED":  # weights are int8 either way
            assert graphs.tensor_type(tensors[operator.inputs[1]]) == "int8"
            seen["dynamic" if kinds == {"float32"} else "static"] += 1
        elif name in ("SOFTMAX", "BATCH_MATMUL", "RSQRT", "GELU"):
            seen[name] += 1
            assert kinds == {"float32"}, name
    assert seen["SOFTMAX"] == 2 and seen["BATCH_MATMUL"] == 2 and seen["RSQRT"] == 2
    assert (seen["static"], seen["dynamic"]) == (result.static, result.dynamic)
    assert result.static + result.dynamic == 8 and result.dynamic <= 3, "a third at most is relieved"
    assert runtime.partitions_and_operators(result.content)[0] == 1
    assert ratio > 25.0


# --- recurrence


def test_wide_recurrent_products_are_dynamic(float_file):
    graph = graphs.read_graph(float_file("wide_lstm"))
    plan = regions.plan_int8(graph)
    assert not plan.static, "inputs of all steps and the answer stand between float values"
    assert names_of(graph, plan.dynamic) == {"FULLY_CONNECTED": 8}  # the first step has no state yet
    weights = [graph.subgraphs[0].tensors[operators(graph)[i].inputs[1]] for i in plan.dynamic]
    assert [tuple(tensor.shape) for tensor in weights].count((4 * 41, 41)) == 6, "the recurrent kernel"
    dynamic = regions.plan_dynamic(graph)
    assert not dynamic.static and names_of(graph, dynamic.dynamic) == {"FULLY_CONNECTED": 8}


def test_narrow_recurrence_stays_float(float_file):
    graph = graphs.read_graph(float_file("lstm"))
    assert 4 * 11 * 11 < regions.RECURRENT_WEIGHTS <= 4 * 41 * 41
    assert everything(graph)["FULLY_CONNECTED"] == 8
    plan = regions.plan_int8(graph)
    assert names_of(graph, plan.dynamic) == {"FULLY_CONNECTED": 2} and not plan.static
    assert names_of(graph, regions.plan_dynamic(graph).dynamic) == {"FULLY_CONNECTED": 2}


@pytest.mark.parametrize("name", ["lstm", "wide_lstm"])
def test_recurrent_file(case, float_file, name):
    result, graph, ratio = quantized(name, case, float_file(name))
    counts = everything(graph)
    assert counts["QUANTIZE"] <= 2 and counts["DEQUANTIZE"] <= 2, "no conversions in each step"
    assert counts["WHILE"] == 0
    assert runtime.partitions_and_operators(result.content)[0] == 1
    assert ratio > 25.0


def test_two_products_of_one_matrix_are_no_recurrence(float_file):
    graph = graphs.read_graph(float_file("dense"))
    plan = regions.plan_int8(graph)
    assert names_of(graph, plan.static) == {"FULLY_CONNECTED": 2} and not plan.dynamic


# --- quantize


@pytest.mark.parametrize("name", ["cnn", "transformer", "wide_lstm", "dense", "depthwise"])
def test_dynamic_needs_no_samples(case, float_file, name):
    content = float_file(name)
    result = quantization.quantize(content, "dynamic", None)
    assert (result.ranges, result.trials) == ("none", {})
    graph = graphs.read_graph(result.content)
    stored = everything(graph)["DEPTHWISE_CONV_2D"]  # their weights are turned to float on loading
    assert everything(graph)["QUANTIZE"] == 0 and everything(graph)["DEQUANTIZE"] == stored
    assert graphs.count_tensor_types(graph)["int8"] >= 1
    assert runtime.partitions_and_operators(result.content)[0] == 1


def test_int8_needs_samples(float_file):
    with pytest.raises(ValueError, match="'int8' needs calibration samples"):
        quantization.quantize(float_file("dense"), "int8", None)


def test_the_better_kind_of_range_is_taken(case, float_file):
    """One absurd value in many ruins true ranges; percentiles leave it out."""
    rng = np.random.default_rng(8)
    values = rng.normal(size=(8009, 7)).astype(np.float32)
    values[4001, 2] = 3000.0
    content = float_file("dense")
    result = quantization.quantize(content, "int8", {"features": values})
    assert result.ranges == "percentile"
    assert result.trials["percentile"] > result.trials["minmax"] + 10.0
    clean = quantization.quantize(content, "int8", {"features": values[:101]})
    assert clean.trials["minmax"] == clean.trials["percentile"], "few values: the two are one"
    assert result.content == quantization.quantize(content, "int8", {"features": values}).content


def test_progress_of_calibration(case, float_file):
    seen = []
    samples = {"features": case("dense").calibration[:11]}
    quantization.quantize(float_file("dense"), "int8", samples, progress=lambda *n: seen.append(n))
    assert seen == [(n + 1, 11) for n in range(11)]
