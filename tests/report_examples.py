"""Reports without a conversion, for the tests of the page: small, full, and hostile."""

import dataclasses

from keras_attention.tflite import Report

HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>\"'&{{ 7 * 7 }}"


def small(**changes):
    """A report with nothing optional."""
    values = {
        "precision": "int8",
        "size_bytes": 136_664,
        "float32_size_bytes": 376_504,
        "predicted_size_bytes": 0,
        "operators": {"FULLY_CONNECTED": 13, "SOFTMAX": 3},
        "delegate_partitions": 1,
        "fully_delegated": True,
        "tensor_dtypes": {"float32": 113, "int8": 38},
        "inputs": ("window: float32[1, 128, 6]",),
        "outputs": ("exercise: float32[1, 7]",),
        "samples": 1773,
        "evaluation_source": "evaluation",
        "task": ("classification",),
        "agreement": 0.99996,
        "sqnr_db": 36.138,
        "max_abs_error": 0.0712966,
        "float32_sqnr_db": 133.407,
        "metric": None,
        "latency_ms": {"min": 0.0474, "median": 0.0515, "float32_min": 0.0746, "float32_median": 0.0808},
        "calibration": {},
        "changes": {},
        "remarks": (),
        "versions": {"keras": "3.15.1"},
    }
    return Report(**{**values, **changes})


def candidate(precision, **changes):
    """A row of `candidates`."""
    values = {
        "precision": precision,
        "size_bytes": 151_234,
        "latency_ms": {"min": 0.0613, "median": 0.0677},
        "agreement": 0.9871,
        "sqnr_db": 31.47,
        "metric": {"name": "accuracy", "keras": 0.8952, "tflite": 0.8917},
        "delegate_partitions": 3,
        "fully_delegated": False,
        "passes": False,
        "chosen": False,
        "remark": "agreement 0.9871 is below min_agreement=0.99",
    }
    return {**values, **changes}


def full(**changes):
    """A report with all there is; one operator is outside XNNPACK."""
    unmade = dict.fromkeys(
        (
            "size_bytes",
            "latency_ms",
            "agreement",
            "sqnr_db",
            "metric",
            "delegate_partitions",
            "fully_delegated",
        )
    )
    values = {
        "model_name": "activity",
        "metric": {"name": "accuracy", "keras": 0.8952, "tflite": 0.8965},
        "reason": "The smallest file that passes.",
        "candidates": (
            candidate("int8", chosen=True, passes=True, remark=""),
            candidate("int8_full"),
            candidate("int16x8", **unmade, remark="RSQRT has no int16 form"),
        ),
        "sensitivity": (
            {
                "layer": "encoder/block_1/dense",
                "operators": ["FULLY_CONNECTED"],
                "sqnr_db": 17.31,
                "treatment": "int8, scale at run time",
                "advice": "Leave it in float32.",
            },
        ),
        "by_output": (
            {"output": "exercise", "agreement": 0.99996, "sqnr_db": 36.138},
            {"output": "repetitions", "agreement": 1.0, "sqnr_db": None},
        ),
        "worst_samples": (
            {
                "index": 720,
                "output": "exercise",
                "keras": [0.125, -0.5, 0.625],
                "tflite": [0.25, -0.375, float("nan")],
                "first": 0,
                "max_abs_error": float("inf"),
                "agrees": False,
            },
        ),
        "partition_map": tuple(
            {"index": index, "operator": name, "dtype": "int8", "partition": partition}
            for index, (name, partition) in enumerate(
                [("CONV_2D", 0), ("CONV_2D", 0), ("CUMSUM", None), ("SOFTMAX", 1)]
            )
        ),
        "fully_delegated": False,
        "delegate_partitions": 2,
        "calibration": {
            "samples": 567,
            "ranges": "percentile",
            "trials": {"minmax": 46.6155, "percentile": 49.3},
        },
        "changes": {"memory": "written out in 7 steps"},
        "remarks": ("Compared on random inputs only.",),
        "manifest": {
            "labels": ["rest", "lift", "turn"],
            "rate_hz": 50,
            "golden": [{"window": [[0.25] * 6] * 128}],
            "nothing": None,
        },
        "minimum_runtime": "2.17.0",
        "sha256": "5f" * 32,
        "devices": {
            "cortex-a76 (emulated)": {"passed": True, "largest difference": 0.4375, "instructions": 4_661_543}
        },
    }
    return small(**{**values, **changes})


def hostile():
    """A full report in which every text that comes from the user is markup."""

    def poison(value):
        if isinstance(value, str):
            return HOSTILE
        if isinstance(value, dict):
            return {HOSTILE if "labels" not in value else key: poison(inner) for key, inner in value.items()}
        return type(value)(map(poison, value)) if isinstance(value, list | tuple) else value

    report = full()
    texts = ("model_name", "reason", "remarks", "inputs", "outputs", "minimum_runtime", "precision")
    trees = ("operators", "tensor_dtypes", "calibration", "changes", "versions", "manifest", "devices")
    changes = {name: poison(getattr(report, name)) for name in (*texts, *trees)}
    rows = ("candidates", "sensitivity", "by_output", "worst_samples", "partition_map")
    for name in rows:
        changes[name] = tuple(
            {
                key: poison(value) if isinstance(value, str) or key == "operators" else value
                for key, value in row.items()
            }
            for row in getattr(report, name)
        )
    metric = {"name": HOSTILE, "keras": 0.5, "tflite": 0.5}
    return dataclasses.replace(report, **changes, metric=metric)
