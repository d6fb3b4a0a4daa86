"""Attention to slots and to given facts."""

import reference_memory as reference

from cases.attention import BATCH
from cases.attention import CHANNELS
from cases.attention import KEY
from cases.attention import KEY_DIM
from cases.attention import KEY_LENGTH
from cases.attention import MASKS
from cases.attention import NUM_HEADS
from cases.attention import QUERY
from cases.attention import QUERY_LENGTH
from cases.attention import VALUE
from cases.attention import VALUE_DIM
from cases.case import Case
from keras_attention import DynamicMemory
from keras_attention import MemoryAttention
from keras_attention import MemoryNetwork

NUM_SLOTS, NUM_FACTS, FACT_CHANNELS = 2, 5, 13
HOP_UNITS, UNITS = 3, 23  # products of many units give logits too sharp for central differences


def memory_attention(query, value, key=None, *, weights, config, **masks):
    sizes = {name: config[name] for name in ("num_heads", "key_dim", "num_slots")}
    return reference.memory_attention(query, value, key, weights=weights, **sizes, **masks)


def memory_network(query, value, *, weights, config, value_mask=None):
    return reference.memory_network(query, value, weights=weights, value_mask=value_mask, **config)


def dynamic_memory(query, value, *, weights, config, value_mask=None):
    return reference.dynamic_memory(query, value, weights=weights, value_mask=value_mask, **config)


def _memory_attention(name, config, num_weights, features=CHANNELS):
    return Case(
        name=f"memory_attention_{name}",
        cls=MemoryAttention,
        config={"num_heads": NUM_HEADS, "key_dim": KEY_DIM, "num_slots": NUM_SLOTS, **config},
        shapes=(QUERY, VALUE, KEY),
        output_shape=(BATCH, QUERY_LENGTH, features),
        scores_shape=(BATCH, NUM_HEADS, QUERY_LENGTH, KEY_LENGTH + NUM_SLOTS),
        num_weights=num_weights,
        masks=MASKS,  # none leaves nothing to attend to: there are the slots
        reference=memory_attention,
    )


def _facts(cls, name, config, num_weights, num_rounds, reference, **more):
    return Case(
        name=name,
        cls=cls,
        config=config,
        shapes=((BATCH, CHANNELS), (BATCH, NUM_FACTS, FACT_CHANNELS)),
        output_shape=(BATCH, config["units"]),
        scores_shape=(BATCH, num_rounds, NUM_FACTS),
        num_weights=num_weights,
        masks={"value_mask": (BATCH, NUM_FACTS)},
        keys_masked_by=("value_mask",),
        is_zero_when_masked=False,
        reference=reference,
        **more,
    )


def _dynamic_memory(name, config, num_weights, num_passes):
    return _facts(
        DynamicMemory,
        f"dynamic_memory_{name}",
        {"units": UNITS, "num_passes": num_passes, **config},
        num_weights,
        num_passes,
        dynamic_memory,
        gradient_tolerance=0.1,  # ReLU and absolute values
    )


CASES = [
    _memory_attention("default", {}, 10),
    _memory_attention(
        "no_bias", {"use_bias": False, "value_dim": VALUE_DIM, "output_shape": 31, "dropout": 0.3}, 6, 31
    ),
    _memory_attention("gate", {"use_gate": True, "kernel_regularizer": "l2"}, 12),
    _facts(MemoryNetwork, "memory_network_adjacent", {"units": HOP_UNITS}, 5, 3, memory_network),
    _facts(
        MemoryNetwork,
        "memory_network_layer_wise",
        {
            "units": HOP_UNITS,
            "num_hops": 2,
            "tying": "layer_wise",
            "max_facts": 17,
            "use_bias": True,
            "dropout": 0.3,
        },
        7,
        2,
        memory_network,
    ),
    _facts(
        MemoryNetwork,
        "memory_network_one_hop",
        {"units": HOP_UNITS, "num_hops": 1, "max_facts": 17, "kernel_constraint": "max_norm"},
        5,
        1,
        memory_network,
    ),
    _dynamic_memory("soft", {}, 13, 3),
    _dynamic_memory("gru", {"episode": "gru", "dropout": 0.3, "kernel_regularizer": "l2"}, 17, 2),
    _dynamic_memory("no_bias", {"episode": "gru", "use_bias": False}, 9, 1),
]
