"""Which operators are relieved, on the real graph of a Transformer with noise that the test makes up."""

import math

import pytest

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import regions
from keras_attention.tflite import sensitivity


@pytest.fixture
def graph(float_file):
    return graphs.read_graph(float_file("transformer"))


@pytest.fixture
def plan(graph):
    plan = regions.plan_int8(graph)
    assert len(plan.static) == 8 and not plan.dynamic
    return plan


def measure(static, dynamic):
    """SQNR in dB where operator i adds the noise static[i] or dynamic[i] to a signal of power 1."""

    def sqnr_db(plan):
        noise = sum(static[i] for i in plan.static) + sum(dynamic[i] for i in plan.dynamic)
        return -10 * math.log10(noise)

    return sqnr_db


def relieve(graph, plan, static, dynamic):
    noises = (dict(zip(sorted(plan.static), values, strict=True)) for values in (static, dynamic))
    relieved = sensitivity.relieve(graph, plan, {}, measure(*noises))
    assert relieved.static | relieved.dynamic == plan.static and not relieved.static & relieved.dynamic
    return [number for number, index in enumerate(sorted(plan.static)) if index in relieved.dynamic]


def test_the_one_that_makes_nearly_all_noise(graph, plan):
    assert relieve(graph, plan, [1, 1, 1, 200, 1, 1, 1, 1], [0.5] * 8) == [3]


def test_a_third_at_most(graph, plan):
    assert relieve(graph, plan, [1, 9, 2, 8, 3, 7, 4, 6], [0.5] * 8) == [1, 3]


def test_no_gain_no_change(graph, plan):
    static = [1, 9, 2, 8, 3, 7, 4, 6]
    assert relieve(graph, plan, static, static) == []
    assert relieve(graph, plan, static, [1, 8.9, 2, 1, 3, 1, 4, 1]) == [3, 5], "the second gains too little"


def test_a_convolutional_part_stays_in_one_piece(float_file):
    graph = graphs.read_graph(float_file("cnn"))
    plan = regions.plan_int8(graph)
    numbers = dict.fromkeys(plan.static, 1.0)
    relieved = sensitivity.relieve(graph, plan, {}, measure(numbers, dict.fromkeys(plan.static, 0.01)))
    assert relieved == plan


def test_refused_scales_are_found_at_run_time_and_int8_weights_stay(graph, plan):
    bad = sorted(plan.static)[::3]

    def measure(candidate):
        return -200.0 if candidate.static & set(bad) else 40.0

    avoided = sensitivity.avoid_refused(graph, plan, measure)
    assert avoided.static == plan.static - set(bad)
    assert avoided.dynamic == set(bad), "all of them are products with weights"
