"""`convert` from end to end, and everything it refuses before and after."""

import collections
import json
import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from keras import layers

from keras_attention.tflite import ConversionError
from keras_attention.tflite import FidelityError
from keras_attention.tflite import child
from keras_attention.tflite import convert
from keras_attention.tflite import finishing
from keras_attention.tflite import load_model
from keras_attention.tflite import metrics
from keras_attention.tflite import reporting
from keras_attention.tflite.manifest import Sealed
from keras_attention.tflite.quantization import Quantized

CONVERTED = [
    ("swapped", "float32"),
    ("tokens", "float16"),
    ("conv_lstm", "dynamic"),
    ("subclassed", "dynamic"),
    ("transformer", "int8"),
    ("half", "int8"),
    ("cnn", "int8"),
]
FLOOR_DB = {"float32": 90.0, "float16": 45.0, "dynamic": 30.0, "int8": 25.0}
INPUTS = {"swapped": ["zebra", "apple"], "subclassed": ["right", "left"], "tokens": ["tokens"]}
OUTPUTS = {"swapped": ["zeta", "alpha"], "subclassed": ["output_0"], "half": ["answer"], "cnn": ["classes"]}
LOWERED = {
    "conv_lstm": {"memory": "14 recurrent steps unrolled"},
    "half": {"gru": "11 recurrent steps unrolled", "policy mixed_float16": "4 layers compute in float32"},
}
EACH = pytest.mark.parametrize(("name", "precision"), CONVERTED)


def in_order(samples):
    """Input name -> array would need the names; the arrays in the file's order are enough."""
    if isinstance(samples, dict):
        return list(samples.values())
    return samples if isinstance(samples, list) else [samples]


def run_file(path, samples):
    """The file's own answers through a plain interpreter, without XNNPACK's help or ours."""
    interpreter = Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    arrays = in_order(samples)
    answers = []
    for number in range(len(arrays[0])):
        for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
            interpreter.set_tensor(detail["index"], array[number : number + 1].astype(detail["dtype"]))
        interpreter.invoke()
        answers.append(
            [interpreter.get_tensor(d["index"])[0].copy() for d in interpreter.get_output_details()]
        )
    return [np.stack(parts) for parts in zip(*answers, strict=True)]


def decibels(reference, result):
    reference, result = reference.astype(np.float64), result.astype(np.float64)
    return 10 * np.log10((reference**2).sum() / ((reference - result) ** 2).sum())


def type_names():
    return {code: name for name, code in vars(schema.TensorType).items() if not name.startswith("_")}


def read_tensors(content):
    """(type, shape, whether stored) of each tensor, and the shape signatures, from the flatbuffer itself."""
    model = schema.Model.GetRootAs(content, 0)
    names, found, open_sizes = type_names(), [], []
    for s in range(model.SubgraphsLength()):
        subgraph = model.Subgraphs(s)
        for t in range(subgraph.TensorsLength()):
            tensor = subgraph.Tensors(t)
            stored = model.Buffers(tensor.Buffer()).DataLength() > 0
            shape = tuple(tensor.ShapeAsNumpy()) if tensor.ShapeLength() else ()
            found.append((names[tensor.Type()], shape, stored))
            if tensor.ShapeSignatureLength():
                open_sizes.extend(tensor.ShapeSignatureAsNumpy())
    return found, open_sizes


def read_operators(content):
    model = schema.Model.GetRootAs(content, 0)
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    names = {c: n for n, c in vars(schema.BuiltinOperator).items() if not n.startswith("_")}
    return [names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())] for code in codes]


# --- every conversion


@EACH
def test_close_to_keras(converted, name, precision):
    got = converted(name, precision)
    report = got.result.report
    for expected, answer in zip(got.expected, run_file(got.path, got.case.evaluation), strict=True):
        assert answer.shape == expected.shape and answer.dtype == np.float32
        assert np.ptp(expected) > 1e-3, "an answer that never changes proves nothing"
        assert decibels(expected, answer) >= FLOOR_DB[precision]
    assert report.sqnr_db >= FLOOR_DB[precision]
    assert report.float32_sqnr_db >= (25.0 if name == "half" else 90.0)


@EACH
def test_report_says_what_the_file_answers(converted, name, precision):
    got = converted(name, precision)
    report = got.result.report
    answers = run_file(got.path, got.case.evaluation)
    pairs = list(zip(got.expected, answers, strict=True))
    worst = min(decibels(expected, answer) for expected, answer in pairs)
    assert report.sqnr_db == pytest.approx(worst, abs=0.05 if worst < 90 else 3.0)
    assert report.max_abs_error == pytest.approx(
        max(np.abs(e.astype(np.float64) - a).max() for e, a in pairs), rel=0.01, abs=1e-6
    )
    agreed = min((e.argmax(-1) == a.argmax(-1)).mean() for e, a in pairs)
    assert report.agreement == pytest.approx(agreed, abs=1e-9)
    assert report.task == ("classification",) * len(pairs)
    assert (report.samples, report.evaluation_source) == (37, "evaluation")
    assert report.metric is None and report.precision == precision


@EACH
def test_file_is_what_was_returned(converted, name, precision):
    got = converted(name, precision)
    assert got.result.path == got.path
    assert got.path.read_bytes() == got.result.content
    assert got.result.report.size_bytes == len(got.result.content)
    beside = got.path.with_suffix(".manifest.json")
    assert {entry.name for entry in got.path.parent.iterdir()} == {got.path.name, beside.name}


@EACH
def test_types_in_the_flatbuffer(converted, name, precision):
    got = converted(name, precision)
    tensors, open_sizes = read_tensors(got.result.content)
    stored = collections.Counter(kind for kind, shape, is_stored in tensors if is_stored and len(shape) >= 2)
    assert sum(stored.values()) > 0
    if precision == "float32":
        assert set(stored) <= {"FLOAT32", "INT32"} and stored["FLOAT32"] >= 3
    elif precision == "float16":
        assert stored["FLOAT16"] >= 4
    else:
        assert stored["INT8"] >= 2, "int8 weights"
        dynamic_only = not any(kind == "INT8" and not is_stored for kind, _, is_stored in tensors)
        assert dynamic_only == (precision == "dynamic"), "int8 activations"
    counts = collections.Counter(kind.lower() for kind, _, _ in tensors)
    assert got.result.report.tensor_dtypes == counts
    assert -1 not in open_sizes


@EACH
def test_builtin_operators_only(converted, name, precision):
    got = converted(name, precision)
    operators = read_operators(got.result.content)
    assert not {"CUSTOM", "WHILE", "IF", "CALL", "VAR_HANDLE", "SHAPE", "PACK"} & set(operators), operators
    assert set(got.result.report.operators) == set(operators)
    if name != "tokens":  # XNNPACK has no lookup and none of the operators of a mask
        assert got.result.report.delegate_partitions == 1 and got.result.report.fully_delegated


@EACH
def test_signature(converted, name, precision):
    got = converted(name, precision)
    interpreter = Interpreter(model_path=str(got.path))
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    (key, signature), *more = interpreter.get_signature_list().items()
    assert (key, more) == ("serve", [])
    assert sorted(signature["inputs"]) == sorted(d["name"] for d in inputs)
    for detail, array in zip(inputs, in_order(got.case.evaluation), strict=True):
        assert tuple(detail["shape"]) == (1, *array.shape[1:])
    if name in INPUTS:
        assert [d["name"] for d in inputs] == INPUTS[name]
    if name in OUTPUTS:
        assert [d["name"] for d in outputs] == OUTPUTS[name]
    described = [text.split(":")[0] for text in got.result.report.inputs]
    assert described == [d["name"] for d in inputs]
    assert {d["dtype"] for d in inputs} == {np.int32 if name == "tokens" else np.float32}


@EACH
def test_size_and_the_rest_of_the_report(converted, name, precision):
    report = converted(name, precision).result.report
    share = {"cnn": 0.75, "subclassed": 0.9, "tokens": 0.9}.get(name, 1.2)
    assert report.size_bytes < share * report.float32_size_bytes
    assert (report.size_bytes == report.float32_size_bytes) == (precision == "float32")
    assert report.changes == LOWERED.get(name, {})
    about_precision = [remark for remark in report.remarks if "half precision" in remark]
    assert bool(about_precision) == (name == "half")
    is_slow = report.latency_ms["min"] > reporting.SLOWER * report.latency_ms["float32_min"]
    about_samples = [remark for remark in report.remarks if "looks like random numbers" in remark]
    sizes = [np.size(values) for values in keras.tree.flatten(converted(name, precision).case.calibration)]
    assert bool(about_samples) == (precision == "int8" and name != "tokens" and max(sizes) >= 1000)
    assert len(report.remarks) == len(about_precision) + len(about_samples) + is_slow
    if precision == "int8":
        assert report.calibration["samples"] == 64
        assert list(report.calibration["inputs"]) == [text.split(":")[0] for text in report.inputs]
        assert report.calibration["ranges"] in report.calibration["trials"]
    else:
        assert report.calibration == {}
    assert set(report.latency_ms) == {"min", "median", "float32_min", "float32_median"}
    assert all(0 < value < 1000 for value in report.latency_ms.values())
    assert report.versions["keras"] == keras.__version__


def test_report_as_json_and_as_a_table(converted, tmp_path, capsys):
    result = converted("cnn", "int8").result
    path = result.write_report(tmp_path / "report.json")
    read = json.loads(path.read_text())
    assert read == json.loads(json.dumps(result.report.to_dict()))
    assert read["sqnr_db"] == result.report.sqnr_db and read["inputs"] == ["image: float32[1, 17, 19, 3]"]
    result.report.print()
    table = capsys.readouterr().out
    for words in ("Conversion to int8", f"{result.report.sqnr_db:.1f} dB", "1, whole graph"):
        assert words in table


def test_same_bytes_and_the_same_numbers_again(converted, make_case, tmp_path, capfd):
    """A fresh model of the same weights, calibration as a dict, and over an old file."""
    before = converted("cnn", "int8").result
    case = make_case("cnn")
    path = tmp_path / "again.tflite"
    path.write_bytes(b"old")
    data = {"image": case.calibration}
    result = convert(case.model, str(path), calibration=data, evaluation=[case.evaluation], verbose=0)
    assert path.read_bytes() == before.content
    assert result.path == path
    assert (result.report.sqnr_db, result.report.agreement) == (
        before.report.sqnr_db,
        before.report.agreement,
    )
    assert "Conversion" not in capfd.readouterr().out, "silent"


PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:3]
import conftest
from keras_attention.tflite import convert
case = conftest.build("transformer")
samples = {"calibration": case.calibration, "evaluation": case.evaluation}
convert(case.model, sys.argv[3], precision="int8", verbose=0, **samples)
"""


def test_same_bytes_in_a_process_that_hashes_otherwise(converted, tmp_path):
    """Sets of texts have another order in each process; no byte may follow it."""
    path = tmp_path / "other.tflite"
    seed = "7" if os.environ.get("PYTHONHASHSEED") != "7" else "8"
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    command = [sys.executable, "-c", PROGRAM, *folders, str(path)]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, timeout=300)
    assert path.read_bytes() == converted("transformer", "int8").path.read_bytes()


def test_loop_is_kept_and_remarked_on_in_float32(case, tmp_path):
    wanted = case("lstm")
    result = convert(
        wanted.model,
        precision="float32",
        evaluation=wanted.evaluation,
        max_unrolled_steps=3,
        task="regression",
        verbose=0,
    )
    assert "WHILE" in result.report.operators
    (remark,) = result.report.remarks
    assert "'memory' keeps its loop over 7 steps" in remark and "max_unrolled_steps=7" in remark
    assert result.report.sqnr_db > 90 and result.path is None
    assert result.report.task == ("regression",) and result.report.agreement == 1.0


def test_layer_that_is_random_at_inference_is_refused(tmp_path):
    class Noise(layers.Layer):
        def call(self, inputs):
            import tensorflow as tf

            return inputs + 0.1 * tf.random.normal((1, 3))

    inputs = keras.Input((3,), name="x")
    model = keras.Model(inputs, Noise()(inputs), name="noisy")
    samples = np.random.default_rng(0).normal(size=(29, 3))
    with pytest.raises(ConversionError, match=r"'noisy' computes something else .* random at inference"):
        convert(model, tmp_path / "m.tflite", precision="float32", evaluation=samples, verbose=0)
    assert not list(tmp_path.iterdir())


# --- the gate: the real parent on a child that answers what the test wants


@pytest.fixture
def gate(case, monkeypatch, tmp_path):
    """A function that converts "dense" (Keras' answers plus given errors), and the path it writes to."""
    wanted = case("dense")
    reference = wanted.model.predict(wanted.evaluation, verbose=0)
    path = tmp_path / "out" / "model.tflite"
    path.parent.mkdir()

    def run(error=0.0, *, float_error=0.0, targets=None, **options):
        def run_job(folder, job, progress, *, ahead=None):
            progress("verify", 1, 1)
            assert ahead.task == job["task"]
            if ahead.task == "convert":
                return {"outputs": ["answer"]}
            source = Path(job["source"])
            (source / "float32.tflite").write_bytes(b"a" * 997)
            (folder / "model.tflite").write_bytes(b"b" * 499)
            np.savez(source / "float32_outputs.npz", reference + float_error)
            np.savez(folder / "model_outputs.npz", reference + error)
            file = {"operators": {}, "tensor_dtypes": {}, "inputs": [], "outputs": []}
            file |= {"delegate_partitions": 1, "fully_delegated": True, "partition_map": []}
            latency = [{"min": 0.2, "median": 0.3}, {"min": 0.1, "median": 0.15}]
            chosen = {key: value for key, value in vars(Quantized(b"")).items() if key != "content"}
            return {"quantization": chosen, "latency": latency, "file": file}

        monkeypatch.setattr(child, "run_job", run_job)
        document = {"app": {}, "file": {"sha256": 64 * "0"}}
        monkeypatch.setattr(
            finishing.manifests, "seal", lambda content, *_, **__: Sealed(content, document, ())
        )
        evaluation = wanted.evaluation if targets is None else (wanted.evaluation, targets)
        return convert(
            wanted.model, path, precision="dynamic", evaluation=evaluation, verbose=0, **options
        ).report

    run.reference, run.path = reference, path
    return run


def noise(reference, ratio_db):
    """Errors of one size and both signs, with exactly that ratio to the reference."""
    level = np.sqrt(np.mean(reference.astype(np.float64) ** 2)) * 10 ** (-ratio_db / 20)
    return level * np.where(np.arange(reference.size).reshape(reference.shape) % 2, 1.0, -1.0)


def test_gate_lets_a_good_file_through(gate):
    report = gate(noise(gate.reference, 40.0), min_sqnr_db=39.9)
    assert gate.path.read_bytes() == b"b" * 499
    assert report.sqnr_db == pytest.approx(40.0, abs=1e-3)
    assert (report.size_bytes, report.float32_size_bytes, report.float32_sqnr_db) == (499, 997, 200.0)
    assert report.latency_ms == {"min": 0.1, "median": 0.15, "float32_min": 0.2, "float32_median": 0.3}


@pytest.mark.parametrize("old", [None, b"old file"])
@pytest.mark.parametrize(("ratio", "floor"), [(40.0, 40.1), (9.9, None)], ids=["asked_for", "default"])
def test_gate_on_noise(gate, ratio, floor, old):
    if old is not None:
        gate.path.write_bytes(old)
    with pytest.raises(FidelityError) as caught:
        gate(noise(gate.reference, ratio), min_sqnr_db=floor)
    assert f"SQNR {ratio:.1f} dB is below min_sqnr_db={floor or 10:g}" in str(caught.value)
    assert caught.value.report.sqnr_db == pytest.approx(ratio, abs=1e-3)
    assert [e.read_bytes() for e in gate.path.parent.iterdir()] == ([] if old is None else [old])


def test_gate_can_be_opened_wide(gate):
    assert gate(noise(gate.reference, 3.0), min_sqnr_db=0.0).sqnr_db == pytest.approx(3.0, abs=1e-3)


def test_gate_on_agreement(gate):
    wrong = np.zeros_like(gate.reference)
    rows = np.arange(5)  # five of 37 samples get another answer
    wrong[rows, gate.reference[rows].argmin(-1)] = 3.0 * np.ptp(gate.reference, axis=-1)[rows]
    share = 32 / 37
    assert gate(wrong, min_sqnr_db=-200, min_agreement=share - 1e-9).agreement == pytest.approx(share)
    with pytest.raises(FidelityError, match=r"agreement 0\.8649 is below min_agreement=0\.9"):
        gate(wrong, min_sqnr_db=-200, min_agreement=0.9)


def test_gate_on_accuracy(gate):
    targets = gate.reference.argmax(-1)
    targets[-4:] = (targets[-4:] + 1) % 3  # Keras is right in 33 of 37
    wrong = np.zeros_like(gate.reference)
    wrong[np.arange(3), gate.reference[:3].argmin(-1)] = 100.0  # three more answers are wrong
    options = {"targets": targets, "min_sqnr_db": -200}
    report = gate(wrong, max_metric_drop=0.09, **options)
    assert report.metric == {"name": "accuracy", "keras": 33 / 37, "tflite": 30 / 37}
    with pytest.raises(FidelityError, match=r"accuracy loses 0\.0811, more than max_metric_drop=0\.08"):
        gate(wrong, max_metric_drop=0.08, **options)


def test_gate_on_mean_absolute_error(gate):
    error = 0.02 * np.abs(gate.reference).max()
    options = {"targets": gate.reference, "task": "regression"}
    report = gate(error, max_metric_drop=error * 1.01, **options)
    assert report.metric["name"] == "mean_absolute_error" and report.metric["keras"] == 0.0
    assert report.metric["tflite"] == pytest.approx(error, rel=1e-3)
    with pytest.raises(FidelityError, match=r"mean_absolute_error loses .*, more than max_metric_drop="):
        gate(error, max_metric_drop=error * 0.99, **options)
    gate(error, targets=gate.reference + error, task="regression", max_metric_drop=0.0)  # it gains


def test_gate_on_an_answer_that_is_not_finite(gate):
    with pytest.raises(FidelityError, match=r"SQNR -200\.0 dB") as caught:
        gate(np.where(np.arange(3) == 1, np.nan, 0.0))
    assert caught.value.report.agreement == 0.0 and caught.value.report.max_abs_error == np.inf


def test_gate_on_the_float_form(gate):
    gate(float_error=noise(gate.reference, 61.0))
    with pytest.raises(ConversionError, match=r"something else once converted.* SQNR 59\.0 dB .* 60 dB"):
        gate(float_error=noise(gate.reference, 59.0))


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (None, {"max_metric_drop": 0.1}, r"`max_metric_drop` needs targets: pass evaluation=\(inputs, targ"),
        (
            np.zeros((37, 2)),
            {},
            r"`evaluation` has targets of shape \(37, 2\).*first output of shape \(37, 3\)",
        ),
        (np.zeros(37), {"task": "regression"}, r"`evaluation` has targets of shape \(37,\)"),
        (np.zeros(36), {}, r"`evaluation` holds 37 samples, but its targets have shape \(36,\)"),
    ],
    ids=["missing", "width", "values_per_sample", "count"],
)
def test_gate_on_targets(gate, targets, options, message):
    with pytest.raises(ValueError, match=message):
        gate(targets=targets, **options)
    assert not gate.path.exists()


def test_write_that_fails_is_told_before_the_work(gate, monkeypatch):
    gate.path.parent.rmdir()
    monkeypatch.setattr(metrics, "sqnr_db", lambda *_: pytest.fail("worked in vain"))
    with pytest.raises(FileNotFoundError, match="folder of `path` doesn't exist"):
        gate()


# --- models that are refused before the child starts


@pytest.fixture
def no_child(monkeypatch):
    """No child that converts; files are looked through in one."""
    run = child.run_job

    def run_job(folder, job, *arguments, **options):
        assert job["task"] == "keras_file", "the child was started"
        return run(folder, job, *arguments, **options)

    monkeypatch.setattr(child, "run_job", run_job)


def small():
    inputs = keras.Input((3,), name="x")
    return keras.Model(inputs, layers.Dense(2, name="answer")(inputs), name="small")


def samples(count=17, shape=(3,)):
    return np.random.default_rng(1).normal(size=(count, *shape)).astype(np.float32)


def nan_weights():
    model = small()
    kernel, bias = model.get_weights()
    kernel[1, 1], kernel[2, 0] = np.nan, np.inf
    model.set_weights([kernel, bias])
    return model


def recurrent(**options):
    inputs = keras.Input((11, 3), batch_size=2 if options else None, name="x")
    return keras.Model(inputs, layers.LSTM(5, name="memory", **options)(inputs))


def quantized_by_keras():
    model = small()
    model.quantize("int8")
    return model


class Lazy(keras.Model):
    def __init__(self):
        super().__init__(name="lazy")
        self.dense = layers.Dense(3)

    def call(self, inputs):
        return self.dense(inputs)


REFUSED_MODELS = {
    "nan_weights": (
        nan_weights,
        (3,),
        r"Weight '[\w/]*answer/kernel' of model 'small' holds 2 NaN or infinite",
    ),
    "unbuilt": (Lazy, (3,), r"Model 'lazy' is not built: it has no weights yet\. Call it once"),
    "unbuilt_sequential": (lambda: keras.Sequential([layers.Dense(2)]), (3,), "has no weights yet"),
    "stateful": (
        lambda: recurrent(stateful=True),
        (11, 3),
        r"Layer 'memory' is stateful and was built for 2 samples.*batch_shape=\(1, \.\.\.\)",
    ),
    "quantized": (quantized_by_keras, (3,), r"Layer 'answer' was quantized by Keras already \(mode 'int8'\)"),
    "too_long": (recurrent, (11, 3), r"Layer 'memory' runs over 11 steps, more than max_unrolled_steps=10"),
    "answers_nan": (
        lambda: keras.Model(x := keras.Input((3,), name="x"), keras.ops.log(x), name="logarithm"),
        (3,),
        r"Model 'logarithm' has no finite answer: NaN or infinity in output 0, first for sample \d+",
    ),
}


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize` method:UserWarning")
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of model.quantize
@pytest.mark.parametrize("precision", ["int8", "dynamic"])
@pytest.mark.parametrize("name", REFUSED_MODELS)
def test_refused_models(no_child, tmp_path, name, precision):
    make, shape, message = REFUSED_MODELS[name]
    path = tmp_path / "model.tflite"
    path.write_bytes(b"old file")
    with pytest.raises(ConversionError, match=message):
        convert(
            make(),
            path,
            precision=precision,
            calibration=samples(shape=shape),
            max_unrolled_steps=10,
            verbose=0,
        )
    assert [e.read_bytes() for e in tmp_path.iterdir()] == [b"old file"]


@pytest.mark.parametrize("model", [None, 3, layers.Dense(3), keras.Model, lambda x: x])
def test_what_is_no_model(no_child, model):
    with pytest.raises(
        TypeError, match=r"`model` must be a keras\.Model or the path of a \.keras file\. Rec"
    ):
        convert(model, calibration=samples(), verbose=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "phone"}, r"`target` must be one of \('cpu', .*Received: 'phone'"),
        ({"precision": "dynamic", "target": "npu"}, r"precision='auto' chooses for\. Received: target='npu'"),
        (
            {"precision": "dynamic", "target": "microcontroller"},
            r"goes with precision 'auto', 'int8_full', 'int16x8'\. Received: 'dynamic'",
        ),
        ({"precision": "int4"}, r"`precision` must be one of \('float32', .*Received: 'int4'"),
        ({"precision": None}, r"`precision` must be one of .*Received: None"),
        ({"precision": "int8"}, r"`calibration` is needed for precision='int8'.*precision='dynamic'"),
        ({"task": "ranking"}, r"`task` must be one of \('classification', 'regression'\).*'ranking'"),
        ({"min_agreement": 99.5}, r"`min_agreement` must be a share from 0 to 1\. Received: 99\.5"),
        ({"min_agreement": {"zeta": 1.5}}, r"`min_agreement` must be a share from 0 to 1\. Received: 1\.5"),
        ({"min_agreement": {}}, r"`min_agreement` must name an output"),
        ({"min_agreement": {"nowhere": 0.5}}, r"`min_agreement` names no output of the model"),
        ({"min_agreement": -0.1}, r"`min_agreement` must be .*Received: -0\.1"),
        ({"max_unrolled_steps": -1}, r"`max_unrolled_steps` must be an integer .*Received: -1"),
        ({"max_unrolled_steps": True}, r"`max_unrolled_steps` must be .*Received: True"),
        ({"max_unrolled_steps": 10.0}, r"`max_unrolled_steps` must be .*Received: 10\.0"),
        ({"input_shapes": {"y": (3,)}}, r"`input_shapes` names no input .*\['x'\]\. Received: \['y'\]"),
        ({"evaluation": samples(shape=(4,))}, r"`evaluation`, input 'x'.*\(3,\).*Received: shape=\(17, 4\)"),
        ({"calibration": samples() * np.inf}, r"`calibration`, input 'x': holds NaN or infinite"),
    ],
)
def test_refused_arguments(no_child, options, message):
    with pytest.raises(ValueError, match=message):
        convert(small(), **{"precision": "dynamic", "verbose": 0, **options})


def test_child_that_dies_leaves_no_file(case, monkeypatch, tmp_path):
    def die(folder, job, progress, **_):
        raise ConversionError("ended by signal SIGSEGV")

    monkeypatch.setattr(child, "run_job", die)
    path = tmp_path / "model.tflite"
    path.write_bytes(b"old")
    with pytest.raises(
        ConversionError, match=r"'dense_model' \(features: float32\[7\]\) to dynamic: ended by s"
    ):
        convert(
            case("dense").model, path, precision="dynamic", evaluation=case("dense").evaluation, verbose=0
        )
    assert [e.read_bytes() for e in tmp_path.iterdir()] == [b"old"]


# --- .keras files


@pytest.fixture
def keras_file(tmp_path):
    path = tmp_path / "small.keras"
    keras.utils.set_random_seed(5)
    save(small(), path)
    return path


def save(model, path):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="__array__ implementation")  # Keras and NumPy 2
        model.save(path)


def refuse(path, message, tmp_path):
    out = tmp_path / "out.tflite"
    out.write_bytes(b"old file")
    with pytest.raises(ConversionError, match=message) as caught:
        convert(path, out, precision="dynamic", verbose=0)
    assert repr(str(path)) in str(caught.value)
    assert out.read_bytes() == b"old file"


def test_file_is_loaded(keras_file):
    model = load_model(str(keras_file))
    np.testing.assert_array_equal(model(samples()), keras.saving.load_model(keras_file)(samples()))


def test_missing_file(no_child, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`model` must be the path .*No such file: '.*gone\.keras'"):
        convert(tmp_path / "gone.keras", precision="dynamic", verbose=0)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file(no_child, keras_file, tmp_path, share):
    content = keras_file.read_bytes()
    keras_file.write_bytes(content[: int(len(content) * share)])
    refuse(keras_file, r"no complete \.keras file .* cut short .* model\.save", tmp_path)


def test_text_with_the_name_of_a_model(no_child, tmp_path):
    path = tmp_path / "notes.keras"
    path.write_text("the model is on the other disk")
    refuse(path, r"no complete \.keras file", tmp_path)


@pytest.mark.parametrize("lost", ["config.json", "model.weights.h5"])
@pytest.mark.parametrize("how", ["missing", "garbage"])
def test_file_with_a_broken_part(no_child, keras_file, tmp_path, lost, how):
    path = tmp_path / "broken.keras"
    with zipfile.ZipFile(keras_file) as old, zipfile.ZipFile(path, "w") as new:
        assert lost in old.namelist()
        for part in old.namelist():
            if part != lost:
                new.writestr(part, old.read(part))
            elif how == "garbage":
                new.writestr(part, b"\x00garbage")
    refuse(path, r"can't be loaded. While reading the file: \S.* Save the model again", tmp_path)


def test_lambda_is_never_run(no_child, tmp_path):
    inputs = keras.Input((3,))
    path = tmp_path / "lambda.keras"
    save(keras.Model(inputs, layers.Lambda(lambda x: x * 2)(inputs)), path)
    refuse(path, r"Lambda layer, whose code would have to be run .*registered\s+layer", tmp_path)


def test_layer_that_nobody_registered(no_child, tmp_path):
    class Unregistered(layers.Layer):
        def call(self, inputs):
            return inputs * 2.0

    inputs = keras.Input((3,))
    path = tmp_path / "own.keras"
    save(keras.Model(inputs, Unregistered()(inputs)), path)
    refuse(path, r"(?s)Unregistered.*register_keras_serializable.*pass the loaded model", tmp_path)
