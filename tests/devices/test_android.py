"""Generated Android sources compile in both languages, run on a JVM, and give Python's outputs bit by bit.

A shim of the runtimes' classes, over a Python child with ai_edge_litert, stands for the phone. All cases are
compiled in one go for each language, and run in one JVM.
"""

import dataclasses
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_attention.tflite import runtime
from keras_attention.tflite.apps import folders
from keras_attention.tflite.apps.android import names
from keras_attention.tflite.apps.android import rendering
from keras_attention.tflite.apps.android import sources
from keras_attention.tflite.apps.describing import describe
from keras_attention.tflite.apps.description import Description

HERE = Path(__file__).parent / "android"
ROOT = Path(__file__).resolve().parents[2]
JARS = Path("/usr/share/java")
LANGUAGES = ("kotlin", "java")
RUNTIMES = {"kotlin": "CompiledModelRuntime", "java": "InterpreterRuntime"}
HOSTILE = [
    '"; } /* ${x} $y */',
    "\\u000a\\",
    "umläut 🦾\u2028",
    "*/ @Override",
    "line\nbreak\ttab\r",
    "</script>'`",
    " ",
]
TOOLS = {"javac": "openjdk-17-jdk-headless", "java": "openjdk-17-jdk-headless", "kotlinc": "kotlin"}

missing = [
    f"{tool} (Debian package {package})" for tool, package in TOOLS.items() if shutil.which(tool) is None
]
if not (JARS / "junit4.jar").exists():
    missing.append("junit4.jar (Debian package junit4)")
pytestmark = [
    pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"),
    pytest.mark.skipif(not (ROOT / "examples").is_dir(), reason="only in a checkout"),
]


def load(path):
    """A module beside these tests."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


faults = load(HERE / "faults.py")
hostile = load(HERE / "hostile.py")
models = load(HERE / "tiny_models.py")
reference = load(HERE / "reference.py")
TinyGraph = load(HERE.parent.parent / "tiny_graphs.py").TinyGraph


@dataclasses.dataclass
class Model:
    """A file, the class that is generated for it, and its description."""

    path: Path
    name: str
    description: Description


COLOURS = {"mean": [0.25, -0.125, 0.0625], "std": [0.75, 0.5, 0.3]}


def save(folder, build, name, entries, tasks, seed, **options):
    return models.save(TinyGraph, build, folder, name, entries, tasks, seed, **options)


def make_files(folder):
    """One file for each kind of input and output."""
    window = {"features": models.AXES, "sampling_rate_hz": 50, "window_length": 16}
    gestures = {"labels": {"o0": ["rest", "walk", "run", "climb"]}, "attention": ["o1"]}
    merged = folder / "merged.tflite"
    models.two_signatures(TinyGraph, folder, "merged")
    models.without_signature(TinyGraph, folder, "foreign")
    models.without_signature(TinyGraph, folder, "foreign_pair", models.pair_of_everything)
    scaled = {"preprocessing": {"mean": [1, 2, 3, 4, 5, 6], "std": [2, 3, 4, 5, 6, 7]}}
    kinds = ["classification", "regression"]
    files = {
        "WindowFloat": save(folder, models.window_float, "window_float", {**window, **gestures}, kinds, 3),
        "Scaled": save(folder, models.window_float, "scaled", {**window, **gestures, **scaled}, kinds, 5),
        "WindowBytes": save(
            folder,
            models.window_int8,
            "window_int8",
            {**window, "labels": ["rest", "walk", "run", "climb"]},
            kinds[:1],
            7,
        ),
        "Picture": save(
            folder, models.image_uint8, "picture", {"labels": ["cat", "dog", "owl"]}, kinds[:1], 11
        ),
        "PictureFloat": save(
            folder,
            models.image_float,
            "picture_float",
            {"labels": ["cat", "dog", "owl"], "pixel_range": {"i0": [-1, 1]}, "preprocessing": COLOURS},
            kinds[:1],
            37,
            given=lambda levels: (levels / np.float32(127.5) - 1 - COLOURS["mean"]) / COLOURS["std"],
        ),
        "PictureSteps": save(
            folder,
            models.image_int8,
            "picture_steps",
            {"labels": ["cat", "dog", "owl"], "pixel_range": {"i0": [0, 16]}},
            kinds[:1],
            41,
            given=lambda levels: np.clip(np.round(levels * 16 / 255 / 0.0625) - 128, -128, 127),
        ),
        "PictureOther": save(
            folder, models.image_float, "picture_other", {"labels": ["cat", "dog", "owl"]}, kinds[:1], 43
        ),
        "Batch": save(folder, models.batch, "batch", {}, kinds[1:], 47),
        "OneLabel": save(folder, models.two_inputs, "one_label", {"labels": ["walk"]}, kinds[1:], 53),
        "Both": save(
            folder,
            models.two_inputs,
            "both",
            {
                "features": {"i0": ["x", "y", "z"], "i1": ["age", "class"]},
                "labels": ["no", "yes"],
                "sampling_rate_hz": 104,  # no whole number of nanoseconds
            },
            kinds[:1],
            13,
        ),
        "Tokens": save(
            folder, models.tokens, "tokens", {"labels": ["a", "b", "c", "d", "e"]}, ["labels"], 17
        ),
        "Hostile": save(
            folder,
            models.window_float,
            'odd " $name\u00fc',
            {
                "labels": {"o0": HOSTILE[:4], "o1": (HOSTILE + [str(n) for n in range(9)])},
                "features": HOSTILE[:6],
                "sampling_rate_hz": 50,
            },
            kinds,
            19,
        ),
        "Merged": merged,
        "Foreign": folder / "foreign.tflite",
        "ForeignPair": folder / "foreign_pair.tflite",
    }
    described = {name: Model(path, name, describe(path)) for name, path in files.items()}
    window = described["WindowFloat"]
    for name, (rate, _) in RATES.items():
        entries = {**window.description.entries, "sampling_rate_hz": rate}
        described[name] = Model(window.path, name, dataclasses.replace(window.description, entries=entries))
    return described


RATES = {
    "Slow3": (3, 3_333_333_334),
    "Slow1": (1, 10**10),
    "SlowTenth": (0.1, 10**11),
    "Usual50": (50, 250_000_000),
    "Fast1000": (1000, 250_000_000),
}
"""Class -> samples in a second, and the longest gap that starts no new window, where none is said."""
FAULTS = {
    "Axes": ('"ax", "ay"', '"ay", "ax"'),
    "Length": ("_LENGTH = 16", "_LENGTH = 15"),
    "Scale": ("0.03999999910593033, 3", "0.03125, 3"),
    "Labels": ('"walk", "run"', '"run", "walk"'),
}
"""What is changed in the sources of the int8 window model."""


SUFFIXES = {"kotlin": ".kt", "java": ".java"}


def generate_apart(files, folder):
    """Sources in packages of their own, to be compiled too: faults in what models share; hostile names."""
    found = {language: [] for language in LANGUAGES}
    for language in LANGUAGES:
        for fault, (name, changes, _) in faults.FAULTS.items():
            target = folder / "apart" / language / fault
            package = f"cases.{language}{fault.lower()}"
            contents, _, _ = sources.generate(files[name].description, fault, package, language)
            folders.write(target, contents, owner=fault)
            faults.plant(target, language, changes)
            used = [*target.glob("src/main/**/*"), *target.rglob(f"{RUNTIMES[language]}.*")]
            found[language] += [str(path) for path in used if path.suffix == SUFFIXES[language]]
        package = f"cases.{language}names.java.kotlin.android.string.it.field.value"
        names.check_package(package)
        described = hostile.description(files["Both"].description)
        contents, _, _ = sources.generate(described, names.class_name("file"), package, language)
        folders.write(folder / "apart" / language / "Names", contents, owner="Names")
        found[language] += map(str, (folder / "apart" / language / "Names").rglob(f"*{SUFFIXES[language]}"))
    return found


def write(model, folder, language, name):
    """Generate the sources of a file under another class name; return the folder."""
    contents, _, _ = sources.generate(model.description, name, f"cases.{language}code", language)
    folders.write(folder / language / name, contents, owner=name)
    return folder / language / name


def generate(files, folder):
    """Write all cases in both languages: one folder per class, one package per language."""
    for language in LANGUAGES:
        for model in files.values():
            write(model, folder, language, model.name)
        for fault, (right, wrong) in FAULTS.items():
            target = write(files["WindowBytes"], folder, language, f"Fault{fault}")
            (source,) = target.rglob(f"Fault{fault}.{'kt' if language == 'kotlin' else 'java'}")
            text = source.read_text()
            assert text.count(right) == 1, (fault, language)
            source.write_text(text.replace(right, wrong))
        (asset,) = write(files["WindowBytes"], folder, language, "FaultFile").rglob("*.tflite")
        asset.write_bytes(files["WindowFloat"].path.read_bytes())


APP = ROOT / "examples" / "android" / "app" / "src"


def generate_example(folder):
    """The modules of examples/android for small files; return what is known of the exercises' file."""
    exercise = models.save(
        TinyGraph,
        models.exercise,
        folder,
        "activity",
        {
            "features": models.AXES,
            "sampling_rate_hz": 50,
            "window_length": 128,
            "labels": {"exercise": list("ABCDEFG")},
            "attention": ["attention_map"],
        },
        ["classification", "regression"],
        23,
        names=["window", "exercise", "attention_map"],
    )
    digit = models.save(
        TinyGraph,
        models.digit,
        folder,
        "digits",
        {"labels": {"label": list("0123456789")}, "attention": ["attention_map"]},
        ["classification", "regression"],
        29,
        names=["image", "label", "attention_map"],
    )
    out = folder / "example"
    script = ROOT / "examples" / "android" / "generate.py"
    run(sys.executable, script, "--activity", exercise, "--images", digit, "--out", out)
    return describe(exercise)


def files_of(folder, suffix):
    """The sources of all cases, those that the cases share only once."""
    found = {}
    for path in sorted(folder.rglob(f"*{suffix}")):
        known = found.setdefault(path.name, path)
        assert known.read_bytes() == path.read_bytes(), f"{path} differs from {known}"
    return [str(path) for path in found.values()]


FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A compiler's JVM that runs once is three times as fast without its second compiler."""


def run(*command, folder=None):
    environment = {**os.environ, "JAVA_OPTS": FAST_START}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


class Jvm:
    """Compiled cases, and requests to run in one JVM; see driver/Driver.java."""

    def __init__(self, folder, others):
        self.folder = folder
        self.classes, self.lines = folder / "classes", []
        self.classes.mkdir()
        self.script = folder / "host_runtime.py"
        text = rendering.render(rendering.environment("java"), "host_runtime.py")
        counts = "len(interpreter.get_input_details()), len(interpreter.get_output_details())"
        started = 'answers.write(b"ok"'
        assert text.count(started) == 1
        self.script.write_text(text.replace(started, f"{started} + struct.pack('>ii', {counts})"))
        libraries = [JARS / f"{name}.jar" for name in ("junit4", "hamcrest", "kotlin-stdlib")]
        self.path = ":".join(map(str, [self.classes, *libraries]))
        java = [*map(str, (HERE / "shim").rglob("*.java")), *map(str, (HERE / "driver").rglob("*.java"))]
        java += [
            *map(str, (HERE / "stubs").rglob("*.java")),
            *files_of(folder / "java", ".java"),
            *others["java"],
        ]
        run(
            "javac",
            *(f"-J{option}" for option in FAST_START.split()),
            "-Werror",
            "-Xlint:all,-processing,-try",
            "-d",
            self.classes,
            "-cp",
            self.path,
            *java,
        )
        kotlin = [*files_of(folder / "kotlin", ".kt"), *others["kotlin"]]
        kotlin += [*map(str, (folder / "example").rglob("*.kt")), *map(str, APP.rglob("*.kt"))]
        run("kotlinc", "-Werror", "-jvm-target", "1.8", "-d", self.classes, "-cp", self.path, *kotlin)

    def ask(self, *fields):
        """Note a request; its answer is at this place in what `results` returns."""
        self.lines.append("\t".join(map(str, fields)))
        return len(self.lines) - 1

    def results(self):
        requests = self.folder / "requests.txt"
        requests.write_text("\n".join(self.lines), encoding="utf-8")
        options = [
            f"-DLITERT_PYTHON={sys.executable}",
            f"-DLITERT_HOST_SCRIPT={self.script}",
            "-Dfile.encoding=UTF-8",
        ]
        output = run("java", *FAST_START.split(), *options, "-cp", self.path, "Driver", requests)
        answers = output.splitlines()
        assert len(answers) == len(self.lines)
        return answers

    def test(self, module):
        """Run the generated JUnit test of a module in its folder, and the example app's."""
        tests = [
            "io.github.kerasattention.exercise.ExerciseParityTest",
            "io.github.kerasattention.example.SensorWindowsTest",
        ]
        python = f"-DLITERT_PYTHON={sys.executable}"
        return run(
            "java",
            *FAST_START.split(),
            python,
            "-cp",
            self.path,
            "org.junit.runner.JUnitCore",
            *tests,
            folder=module,
        )

    def package(self, language):
        return f"cases.{language}code"

    def assets(self, language, name):
        return self.folder / language / name / "src" / "main" / "assets"


def write_samples(path, samples):
    """Raw values, sample by sample and input by input."""
    count = len(next(iter(samples)))
    with path.open("wb") as stream:
        stream.write(struct.pack(">i", count))
        for number in range(count):
            for values in samples:
                stream.write(struct.pack(">i", values[number].size) + values[number].astype(">f8").tobytes())


def raw_samples(tensor, count, rng):
    """Raw values for an input, beyond what a quantized one can hold too; ties of rounding among them."""
    shape = (count, *tensor.shape)
    if tensor.kind == "tokens":
        return rng.integers(0, 101, shape).astype("int32")
    if tensor.pixel_range is not None:
        return rng.integers(0, 256, shape).astype("float32")
    raw = rng.normal(size=shape, scale=2.0).astype("float32")
    if tensor.scale:
        raw.reshape(count, -1)[0, :40] = (np.arange(40) - 19.5) * tensor.scale
    return raw


def expected(path, signature, samples, key):
    """Python's answers: the reference's preprocessing, LiteRT, and scores as real numbers."""
    given = {}
    for tensor, raw in zip(signature.inputs, samples, strict=True):
        scaling = tensor.normalization
        mean, std = (np.array(scaling.mean), np.array(scaling.std)) if scaling else (None, None)
        given[tensor.name] = reference.stored(raw, tensor.scale, tensor.zero_point, tensor.dtype, mean, std)
    interpreter = runtime.load_interpreter(path.read_bytes())
    rows = []
    runner = interpreter.get_signature_runner(key) if key else None
    for number in range(len(samples[0])):
        one = {t.name: given[t.name][number].reshape(t.shape) for t in signature.inputs}
        if runner is None:
            for detail, values in zip(interpreter.get_input_details(), one.values(), strict=True):
                interpreter.set_tensor(detail["index"], values)
            interpreter.invoke()
            found = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
        else:
            answers = runner(**one)
            found = [answers[tensor.name] for tensor in signature.outputs]
        row = []
        for tensor, values in zip(signature.outputs, found, strict=True):
            if tensor.scale:
                values = ((values.astype(np.float64) - tensor.zero_point) * tensor.scale).astype(np.float32)
            if len(tensor.names) == 2 and values.size == 1:
                values = np.concatenate([1 - values.ravel(), values.ravel()])
            row.append(values.ravel().astype(np.float64))
        rows.append(np.concatenate(row))
    return np.stack(rows)


ANSWERED = [
    ("WindowFloat", 0, "serve"),
    ("Scaled", 0, "serve"),
    ("WindowBytes", 0, "serve"),
    ("Picture", 0, "serve"),
    ("Picture", 0, "servePixels"),
    ("PictureFloat", 0, "serve"),
    ("PictureFloat", 0, "servePixels"),
    ("PictureSteps", 0, "servePixels"),
    ("PictureOther", 0, "serve"),
    ("Batch", 0, "serve"),
    ("OneLabel", 0, "serve"),
    ("Both", 0, "serve"),
    ("Tokens", 0, "serve"),
    ("Hostile", 0, "serve"),
    ("Merged", 0, "encode"),
    ("Merged", 1, "step"),
    ("Foreign", 0, "predict"),
    ("ForeignPair", 0, "predict"),
]
STREAMS = {
    "steady": (1, 10**9),
    "two sensors": (3, 10**9),
    "gaps": (5, 60_000_000),
    **dict.fromkeys(RATES, (7, 0)),
}
"""Kind -> hop, and the longest gap; 0 for that of the rate."""


def stream(kind):
    """Events of one or two sensors with uneven times, a repeated one and, for gaps, holes."""
    rng = np.random.default_rng(41)
    if kind == "steady":
        steady = rng.normal(size=(37, 6)).astype("float32")
        return [["wx", "az", "ay", "ax", "wz", "wy"]], [
            (0, 20_000_000 * n, row) for n, row in enumerate(steady)
        ]
    events = []
    for source in (0, 1):
        steps = rng.integers(4_000_000, 31_000_000, 97)
        steps[11] = 0
        if kind == "gaps":
            steps[40 + 20 * source] = 70_000_000
        times = 10**15 + 7_654_321 * source + np.cumsum(steps)
        events += [(source, int(time), rng.normal(size=3).astype("float32")) for time in times]
    events.sort(key=lambda event: event[1])
    return [["ay", "ax", "az"], ["wz", "wy", "wx"]], events


def uneven(name):
    """Events at about the model's rate, with the longest gap that is filled, and later one that is longer."""
    rate, gap = RATES[name]
    rng = np.random.default_rng(43)
    moments = np.rint(rng.uniform(0.8, 1.1, 101) * 1e9 / rate).astype(np.int64)
    moments[[40, 70]] = gap, gap + 1
    values = rng.normal(size=(101, 6)).astype("float32")
    times = 10**15 + np.cumsum(moments)
    return [models.AXES], [(0, int(time), row) for time, row in zip(times, values, strict=True)]


def recorded_windows():
    """200 windows of people's exercises."""
    watch_data = load(ROOT / "examples" / "common" / "watch_data.py")
    windows = watch_data.cut(watch_data.load()).inputs
    return windows[:: len(windows) // 200][:200]


BEST = {
    ("no,yes", "0.49999"): "no",
    ("no,yes", "0.5"): "yes",
    ("a,b,c", "0.25,0.5,0.5"): "b",
    ("a,b,c", "0.25,NaN,0.5"): "the model answered NaN for b",
    ("no,yes", "NaN"): "the model answered NaN for no",
}
"""Labels and scores -> the best one's label, or the error."""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """All requests, answered by one JVM: name of the request -> what was printed, and the folder."""
    folder = tmp_path_factory.mktemp("android")
    files = make_files(folder)
    generate(files, folder)
    exercise = generate_example(folder)
    jvm = Jvm(folder, generate_apart(files, folder))
    asked, wanted = {}, {}
    for language in LANGUAGES:
        package, kind = jvm.package(language), RUNTIMES[language]
        for fault in faults.FAULTS:
            assets = folder / "apart" / language / fault / "src" / "main" / "assets"
            own = f"cases.{language}{fault.lower()}"
            asked[language, "fault", fault] = jvm.ask("parity", own, fault, kind, assets, "")
        for case, (name, number, method) in enumerate(ANSWERED):
            signature = files[name].description.signatures[number]
            rng = np.random.default_rng(case + 53)
            samples = [raw_samples(tensor, 23, rng) for tensor in signature.inputs]
            given = samples
            if method.endswith("Pixels"):
                levels = samples[0]
                colours = np.broadcast_to(levels.astype(np.int64), (*levels.shape[:-1], 3))
                given = [255 << 24 | colours[..., 0] << 16 | colours[..., 1] << 8 | colours[..., 2]]
                low, high = signature.inputs[0].pixel_range
                samples = [(low + (high - low) * levels.astype(np.float64) / 255).astype("float32")]
            wanted[case] = expected(files[name].path, signature, samples, signature.key)
            write_samples(folder / f"in{case}", given)
            asked[language, "answer", case] = jvm.ask(
                "answer",
                package,
                name,
                kind,
                jvm.assets(language, name),
                method,
                folder / f"in{case}",
                folder / f"out{language}{case}",
            )
        for name in [*files, *(f"Fault{fault}" for fault in [*FAULTS, "File"])]:
            asked[language, "parity", name] = jvm.ask(
                "parity", package, name, kind, jvm.assets(language, name), ""
            )
        for gpu in ("right", "wrong", "absent"):
            asked[language, "gpu", gpu] = jvm.ask(
                "parity",
                package,
                "WindowFloat",
                "CompiledModelRuntime",
                jvm.assets(language, "WindowFloat"),
                gpu,
            )
        for stream_kind, (hop, gap) in STREAMS.items():
            axes, events = uneven(stream_kind) if stream_kind in RATES else stream(stream_kind)
            with (folder / f"stream {stream_kind}").open("wb") as out:
                out.write(struct.pack(">i", len(events)))
                for source, time, values in events:
                    out.write(struct.pack(">iqi", source, time, len(values)) + values.astype(">f4").tobytes())
            asked[language, "window", stream_kind] = jvm.ask(
                "window",
                package,
                "",
                f"{stream_kind if stream_kind in RATES else 'WindowFloat'}Window",
                folder / f"stream {stream_kind}",
                folder / f"windows {language} {stream_kind}",
                ";".join(map(",".join, axes)),
                hop,
                gap,
            )
        tokens = np.arange(7, dtype="int32")[None]
        for wrong in (-1, 101):
            tokens[0, 3] = wrong
            write_samples(folder / f"wrong{wrong}", [tokens])
            asked[language, "token", wrong] = jvm.ask(
                "answer",
                package,
                "Tokens",
                kind,
                jvm.assets(language, "Tokens"),
                "serve",
                folder / f"wrong{wrong}",
                folder / "none",
            )
        for labels, scores in BEST:
            asked[language, "best", labels, scores] = jvm.ask("best", package, labels, scores)
        for field in ("SERVE_OUTPUT_O0_LABELS", "SERVE_OUTPUT_O1_LABELS", "SERVE_INPUT_I0_FEATURES"):
            asked[language, "labels", field] = jvm.ask(
                "labels", package, "Hostile", field, folder / f"{language} {field}"
            )
    recorded = recorded_windows()
    signature = exercise.signatures[0]
    wanted["recorded"] = expected(exercise.path, signature, [recorded], "serve")
    write_samples(folder / "recorded", [recorded])
    asked["recorded"] = jvm.ask(
        "answer",
        "io.github.kerasattention.exercise",
        "Exercise",
        "CompiledModelRuntime",
        folder / "example" / "exercise" / "src" / "main" / "assets",
        "serve",
        folder / "recorded",
        folder / "out recorded",
    )
    for case in ("right", "wrong", "absent"):
        assets = folder / f"assets {case}"
        for module in ("exercise", "digit"):
            parts = folder / "example" / module / "src" / "main" / "assets"
            shutil.copytree(parts, assets, dirs_exist_ok=True)
        if case == "wrong":
            shutil.copy(assets / "exercise.tflite", assets / "digit.tflite")
        elif case == "absent":
            (assets / "digit.tflite").unlink()
        asked["models", case] = jvm.ask("models", assets)
    results = jvm.results()
    asked["junit"] = len(results)
    results.append(jvm.test(folder / "example" / "exercise"))
    return {key: results[place] for key, place in asked.items()}, wanted, folder


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", range(len(ANSWERED)), ids=lambda case: "-".join(map(str, ANSWERED[case])))
def test_answers_are_those_of_python(done, language, case):
    results, wanted, folder = done
    assert results[language, "answer", case] == "ok"
    found = np.fromfile(folder / f"out{language}{case}", ">f8").reshape(wanted[case].shape)
    assert len(np.unique(found)) > 3
    np.testing.assert_array_equal(found, wanted[case])


def test_two_hundred_recorded_windows_through_the_example_app(done):
    results, wanted, folder = done
    assert results["recorded"] == "ok"
    found = np.fromfile(folder / "out recorded", ">f8").reshape(200, 7 + 32)
    assert len(np.unique(found[:, :7].argmax(axis=1))) > 2
    np.testing.assert_array_equal(found, wanted["recorded"])


def test_the_example_app_closes_what_it_opened(done):
    """Also the first model where the second can't be opened."""
    results, _, _ = done
    right = results["models", "right"]
    assert right.startswith("[Exercise: GPU: 8 golden pairs answered right, Digits: CPU: 8 golden pairs")
    assert right.endswith(" open 2 left 0")
    wrong = results["models", "wrong"]
    assert "This app does not compute what the model does. CPU: SHA-256" in wrong and wrong.endswith(
        " left 0"
    )
    absent = results["models", "absent"]
    assert "FileNotFoundException" in absent and absent.endswith(" left 0")


def test_the_generated_tests_and_those_of_the_example_pass(done):
    assert "OK (3 tests)" in done[0]["junit"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", STREAMS)
def test_windows_are_those_of_python(done, language, kind):
    results, _, folder = done
    axes, events = uneven(kind) if kind in RATES else stream(kind)
    hop, gap = STREAMS[kind]
    rate, gap = RATES.get(kind, (50, gap))
    known = reference.windows(events, axes, models.AXES, 16, float(rate), hop, gap)
    assert results[language, "window", kind] == "ok"
    found = np.fromfile(
        folder / f"windows {language} {kind}", np.dtype([("time", ">i8"), ("values", ">f4", (16, 6))])
    )
    assert len(known) > 2
    np.testing.assert_array_equal(found["time"], [time for time, _ in known])
    np.testing.assert_array_equal(found["values"], [values for _, values in known])
    if kind in RATES:
        before, after = events[69][1], events[70][1]
        assert sum(time <= before for time, _ in known) > 5
        assert sum(time >= after + int(15e9 / rate) for time, _ in known) > 1
        assert not any(before < time < after + int(15e9 / rate) for time, _ in known)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_right_app_passes(done, language):
    results, _, _ = done
    whole = ("WindowFloat", "Scaled", "WindowBytes", "Both", "Tokens", "Hostile", "Batch", "OneLabel")
    for name in (*whole, "Picture", "PictureFloat", "PictureSteps", "PictureOther"):
        assert results[language, "parity", name] == "passed [CPU: 8 golden pairs answered right]"
    for name in RATES:
        assert results[language, "parity", name] == "passed [CPU: 8 golden pairs answered right]"
    for name in ("Merged", "Foreign", "ForeignPair"):
        assert "it has no golden pairs, so no answer was checked" in results[language, "parity", name]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("fault", "says", "answers"),
    [
        ("Axes", "order of i0 is", "o0 of golden pair 0 differs by 0."),
        (
            "Length",
            "window length is 15, the file has 16",
            "golden pair 0 fails: java.lang.IllegalArgumentException: 16 samples made 2",
        ),
        ("Scale", "scale of i0 is 0.03125, the file has 0.0399", "o0 of golden pair 0 differs by 0."),
        ("Labels", "order of o0 is", "o0 of golden pair 0 differs by 0."),
        ("File", "SHA-256 of the .tflite file is", "golden pair 0 fails"),
    ],
)
def test_planted_faults_are_caught(done, language, fault, says, answers):
    """Twice each: by the code's constants, and by the answers alone."""
    result = done[0][language, "parity", f"Fault{fault}"]
    assert "This app does not compute what the model does." in result
    assert says in result
    assert answers in result


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("fault", faults.FAULTS)
def test_faults_of_arithmetic_are_caught(done, language, fault):
    """Which no golden pair shows: rounding, limits, NaN, interpolation and hop."""
    result = done[0][language, "fault", fault]
    assert "This app does not compute what the model does." in result
    for words in faults.FAULTS[fault][2]:
        assert re.search(words, result), (words, result)


@pytest.mark.parametrize("language", LANGUAGES)
def test_another_processor_is_used_only_with_the_right_answers(done, language):
    results, _, _ = done
    assert results[language, "gpu", "right"] == "passed [GPU: 8 golden pairs answered right]"
    wrong = results[language, "gpu", "wrong"]
    assert wrong.startswith("passed [GPU: o0 of golden pair") and "differs by" in wrong
    assert wrong.endswith("CPU: 8 golden pairs answered right]")
    absent = results[language, "gpu", "absent"]
    assert absent.startswith("passed [GPU: can't be opened: ") and "Failed to compile model" in absent
    assert absent.endswith("CPU: 8 golden pairs answered right]")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("wrong", [-1, 101])
def test_tokens_beyond_the_table_are_refused(done, language, wrong):
    found = done[0][language, "token", wrong]
    assert f"i0: number {wrong} at place 3 is none of 0 to 100, which the model knows" in found


@pytest.mark.parametrize("language", LANGUAGES)
def test_pixels_only_where_their_range_is_known(done, language):
    """A float image of no known range takes its values alone, and the remarks say what is missing."""
    source = {"kotlin": ".kt", "java": ".java"}[language]
    for name, takes in (("PictureFloat", True), ("PictureOther", False)):
        folder = done[2] / language / name
        for part in (name, f"{name}Parity"):
            (path,) = folder.rglob(f"{part}{source}")
            assert ("servePixels" in path.read_text()) == takes
        assert ("'pixel_range' in `convert" in (folder / f"{name}.md").read_text()) != takes


@pytest.mark.parametrize("language", LANGUAGES)
def test_odd_names_arrive_whole(done, language):
    results, _, folder = done
    for field, odd in (
        ("SERVE_OUTPUT_O0_LABELS", HOSTILE[:4]),
        ("SERVE_OUTPUT_O1_LABELS", [*HOSTILE, *map(str, range(9))]),
        ("SERVE_INPUT_I0_FEATURES", HOSTILE[:6]),
    ):
        assert results[language, "labels", field] == "ok"
        written = (folder / f"{language} {field}").read_bytes().decode()
        assert written == "".join(f"{name}\n" for name in odd)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_best_class(done, language):
    results = done[0]
    for request, label in BEST.items():
        assert results[(language, "best", *request)] == label
