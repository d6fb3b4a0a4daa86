"""Names, literals and files of generated Android sources, without a compiler."""

import importlib.util
import re
import zipfile
from pathlib import Path

import click.testing
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies

from keras_attention import tflite
from keras_attention.tflite.apps.android import arithmetic
from keras_attention.tflite.apps.android import literals
from keras_attention.tflite.apps.android import names
from keras_attention.tflite.apps.android import reserved
from keras_attention.tflite.apps.android import shapes
from keras_attention.tflite.apps.description import Signature
from keras_attention.tflite.apps.description import Tensor
from keras_attention.tflite.command_line import main

HERE = Path(__file__).parent


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


models = load(HERE / "android" / "tiny_models.py")
TinyGraph = load(HERE.parent / "tiny_graphs.py").TinyGraph
ODD = strategies.text(max_size=60) | strategies.sampled_from(
    ["class", "fun", "Result", "a b", "a_b", "aB", "ä", "7", "🦾"]
)


@given(strategies.lists(ODD, max_size=9))
def test_identifiers_are_safe_and_unique(given_names):
    found = names.identifiers(given_names, "input")
    assert len(found) == len({name.lower() for name in found}) == len(given_names)
    for name in found:
        assert re.fullmatch(r"[a-z][A-Za-z0-9]*", name)
        assert name not in names._KEYWORDS and name.lower() not in names._MEMBERS
        assert not re.search("(?i)(inputs|outputs|pixels|answer)$", name)


@given(ODD)
def test_class_names_are_safe(stem):
    name = names.class_name(stem)
    names.check_class_name(name)
    assert re.fullmatch(r"[a-z0-9_]+", names.asset_name(name))


def test_known_names():
    assert names.identifiers(
        ["window", "Left Arm", "left_arm", "class", "serving_default", "2nd"], "input"
    ) == [
        "window",
        "leftArm",
        "leftArm2",
        "classValue",
        "servingDefault",
        "input2Nd",
    ]
    assert names.class_name("model_int8") == "ModelInt8"
    assert names.class_name("golden") == "GoldenModel"
    assert names.class_name("7") == "Model7"
    assert names.asset_name("ModelInt8") == "model_int8"


@pytest.mark.parametrize(
    "name", ["", "a", "Ä", "A B", "String", "STRING", "R", "Golden", "WalkParity", "A" * 99, "A;"]
)
def test_other_class_names_are_refused(name):
    with pytest.raises(ValueError, match="`class_name` must"):
        names.check_class_name(name)


@pytest.mark.parametrize(
    "package", ["", "app", "com.class.app", "Com.app", "com..app", "com.app/../x", "com.ä.app", "a.b\n"]
)
def test_other_packages_are_refused(package):
    with pytest.raises(ValueError, match="`package` must be two or more words"):
        names.check_package(package)


@pytest.mark.parametrize("first", [*reserved.PACKAGES, *reserved.LIBRARIES])
def test_packages_of_others_are_refused(first):
    for package in (f"{first}.mine", first):
        with pytest.raises(ValueError, match="`package` must be"):
            names.check_package(package)
    names.check_package(f"{first}s.mine")
    names.check_package(f"mine.{first}")


def test_reserved_classes_are_given_an_ending_or_refused():
    for name in sorted(reserved.CLASSES):
        stem = name.capitalize()
        assert names.class_name(stem) == f"{names.pascal(stem)}Model"
        with pytest.raises(ValueError, match=f"`class_name` must not be .* '{stem}'; {stem}Model would do"):
            names.check_class_name(stem)
        names.check_class_name(f"{stem}Model")


def test_reserved_classes_are_all_that_the_templates_name():
    """What they import, declare or use with a capital, outside of comments and texts."""
    found = set()
    for path in (Path(names.__file__).parent / "templates").rglob("*.j2"):
        if path.suffixes[0] not in (".kt", ".java"):
            continue
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)
        text = re.sub(r'\{%.*?%\}|\{\{.*?\}\}|"(\\.|[^"\\])*"', "_", text)
        found |= set(re.findall(r"(?<!\w)[A-Z]\w*[a-z]\w*", text))
        found |= set(re.findall(r"import [\w.]+\.([A-Z]\w*)", text))
    assert len(found) > 60
    assert {name.lower() for name in found} <= reserved.CLASSES


@pytest.mark.skipif(not Path("/usr/lib/jvm").is_dir(), reason="needs the compilers' own lists of classes")
def test_reserved_classes_are_those_of_the_compilers():
    """Those of java.lang, from each installed JDK; Kotlin's from its library, as far as they are classes."""
    found = set()
    for path in Path("/usr/lib/jvm").glob("*/lib/ct.sym"):
        found |= set(re.findall(r"[^/\n]+/(?:java\.base/)?java/lang/([A-Z]\w*)\.sig", listing(path)))
    library = Path("/usr/share/java/kotlin-stdlib.jar")
    if library.exists():
        packages = "|annotation/|collections/|comparisons/|io/|ranges/|sequences/|text/|jvm/"
        found |= set(re.findall(rf"(?m)^kotlin/(?:{packages})([A-Z][a-z]\w*)\.class$", listing(library)))
    if not found:
        pytest.skip("neither ct.sym nor kotlin-stdlib.jar")
    found = {name for name in found if not name.endswith("Kt") and "__" not in name}
    assert {"Process", "String"} <= found
    assert {name.lower() for name in found} <= reserved.CLASSES


def listing(path):
    with zipfile.ZipFile(path) as archive:
        return "\n".join(archive.namelist())


@pytest.mark.parametrize("language", ["kotlin", "java"])
@given(value=strategies.text(max_size=40))
def test_literals_read_back(language, value):
    """Read as the compilers do: Java's \\u first, then the other escapes."""
    literal = literals.text(value, language)
    assert literal.isascii() and "\n" not in literal
    inside = literal[1:-1]
    assert not re.search(r'(?<!\\)(\\\\)*"', inside)
    if language == "kotlin":
        assert not re.search(r"(?<!\\)(\\\\)*\$", inside)
    units = re.sub(
        r"\\u([0-9a-f]{4})|\\(.)",
        lambda m: chr(int(m[1], 16)) if m[1] else {"n": "\n", "r": "\r", "t": "\t"}.get(m[2], m[2]),
        inside,
    )
    assert units.encode("utf-16-be", "surrogatepass").decode("utf-16-be") == value


@given(strategies.text(max_size=80))
def test_comments_stay_comments(value):
    found = literals.comment(value)
    assert (
        found.isascii()
        and "\n" not in found
        and "*/" not in found
        and "/*" not in found
        and "\\" not in found
    )


def test_numbers_read_back():
    assert float(literals.number(0.03999999910593033)) == 0.03999999910593033
    with pytest.raises(ValueError, match="finite"):
        literals.number(float("nan"))
    with pytest.raises(ValueError, match="at most 5000 characters"):
        literals.text("x" * 5001, "java")


def tensor(**changes):
    fields = {"name": "i", "index": 0, "dtype": "float32", "shape": (1, 4), "scale": None, "zero_point": None}
    fields |= {"task": None, "names": (), "units": (), "kind": "values", "normalization": None}
    return Tensor(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "float16"}, "of type float16"),
        ({"shape": (1, -1)}, "not fixed"),
        ({"dtype": "int64", "scale": 0.5}, "has steps of type int64"),
        ({"names": ("a", "b", "a", "c")}, "same name"),
        ({"shape": (1, 4001), "names": tuple(map(str, range(4001)))}, "more than 4000 names"),
    ],
)
def test_tensors_without_code_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        shapes.check(tensor(**changes))


@pytest.fixture(scope="module")
def window_file(tmp_path_factory):
    entries = {
        "features": models.AXES,
        "sampling_rate_hz": 50,
        "labels": {"o0": ["rest", "walk", "run", "climb"]},
    }
    folder = tmp_path_factory.mktemp("files")
    return models.save(
        TinyGraph, models.window_float, folder, "walk", entries, ["classification", "regression"], 3
    )


def test_the_command_writes_a_module(window_file, tmp_path):
    folder = tmp_path / "module"
    command = [
        "android",
        str(window_file),
        "-o",
        str(folder),
        "--language",
        "java",
        "--package",
        "org.example.walk",
    ]
    done = click.testing.CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "class org.example.walk.Walk" in done.output and "8 golden pairs are replayed" in done.output
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {
        "Walk.md",
        "build.gradle.kts",
        "src/main/assets/walk.golden",
        "src/main/assets/walk.tflite",
        "src/main/java/org/example/walk/Walk.java",
        "src/main/java/org/example/walk/WalkParity.java",
        "src/main/java/org/example/walk/WalkWindow.java",
        "src/compiledModel/java/org/example/walk/CompiledModelRuntime.java",
        "src/interpreter/java/org/example/walk/InterpreterRuntime.java",
        "src/test/java/org/example/walk/WalkParityTest.java",
        "src/test/python/host_runtime.py",
    } <= written
    assert (folder / "src/main/assets/walk.tflite").read_bytes() == window_file.read_bytes()
    gradle = (folder / "build.gradle.kts").read_text()
    for line in ('"com.google.ai.edge.litert:litert:2.3.0"', 'noCompress += "tflite"', "minSdk = 24"):
        assert line in gradle
    again = click.testing.CliRunner().invoke(main, command)
    assert again.exit_code == 0 and "build.gradle.kts is left as it was" in again.output


def test_users_files_are_kept(window_file, tmp_path):
    tflite.android(window_file, tmp_path)
    source = tmp_path / "src/main/kotlin/com/example/app/Walk.kt"
    source.write_text(source.read_text().replace("SERVE", "MINE"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(FileExistsError, match=r"Walk\.kt.*--overwrite"):
        tflite.android(window_file, tmp_path)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    tflite.android(window_file, tmp_path, overwrite=True)
    assert "MINE" not in source.read_text()


def test_another_file_of_the_same_name_may_follow(window_file, tmp_path):
    tflite.android(window_file, tmp_path, class_name="Walk")
    entries = {"features": models.AXES, "sampling_rate_hz": 50}
    other = models.save(TinyGraph, models.window_float, tmp_path, "o", entries, ["regression"] * 2, 5)
    tflite.android(other, tmp_path, class_name="Walk")
    asset = tmp_path / "src/main/assets/walk.tflite"
    assert asset.read_bytes() == other.read_bytes()
    asset.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match=r"walk\.tflite"):
        tflite.android(window_file, tmp_path, class_name="Walk")


def test_a_file_without_manifest_says_so(tmp_path):
    path = models.without_signature(TinyGraph, tmp_path, "foreign")
    done = tflite.android(path, tmp_path / "module")
    assert done.golden_pairs == 0
    assert any("no manifest" in remark for remark in done.remarks)
    assert any("can't check its answers" in remark for remark in done.remarks)
    assert any("no class that cuts windows" in remark for remark in done.remarks)
    assert "no golden pairs" in (tmp_path / "module/Foreign.md").read_text()
    assert "no golden pairs" in next(tmp_path.rglob("ForeignParity.kt")).read_text()


def test_a_language_that_there_is_not():
    with pytest.raises(ValueError, match="`language` must be one of"):
        tflite.android("a.tflite", "b", language="rust")


def test_golden_assets_stay_small(window_file, monkeypatch):
    from keras_attention.tflite.apps.android import golden_asset
    from keras_attention.tflite.apps.describing import describe

    description = describe(window_file)
    whole, count = golden_asset.content(description)
    assert count == 8
    monkeypatch.setattr(golden_asset, "MOST_BYTES", len(whole) // 2)
    half, fewer = golden_asset.content(description)
    assert 0 < fewer < count and len(half) <= len(whole) // 2
    raw = golden_asset.raw_values(np.full((1, 2), 5, np.int8), tensor(dtype="int8", scale=0.5, zero_point=3))
    np.testing.assert_array_equal(raw, [[1.0, 1.0]])


def test_what_is_too_much_for_one_class():
    scores = tensor(shape=(1, 3500), names=tuple(map(str, range(3500))), kind="classes")
    shapes.check_together([Signature("serve", (tensor(),), (scores,))])
    with pytest.raises(ValueError, match=r"7000 names of features and labels, .* too many for one class"):
        shapes.check_together([Signature("serve", (tensor(),), (scores, scores))])


STEPS = {"dtype": "int8", "zero_point": -128}


@pytest.mark.parametrize(
    ("changes", "given", "raw", "is_picture"),
    [
        ({"pixel_range": (0, 1)}, [0, 1, 0.2, 0.4], [0, 1, 51 / 255, 102 / 255], True),
        ({"pixel_range": (1, 0)}, [0, 1, 0.2, 0.4], [0, 1, 51 / 255, 102 / 255], True),
        ({"pixel_range": (0, 1)}, [0, 1, 0.2, 0.402], [0, 1, 0.2, 0.402], False),
        ({"pixel_range": (0, 1)}, [0, 1, 0.2, 1.1], [0, 1, 0.2, 1.1], False),
        ({"pixel_range": (0, 255)}, [0, 1, 0.2, 0.4], [0, 1, 0.2, 0.4], False),
        ({}, [0, 255, 7, 9], [0, 255, 7, 9], False),
        ({**STEPS, "scale": 0.5, "pixel_range": (0, 16)}, [-128, -96, -118, -117], [0, 16, 5, 5.5], True),
        (
            {**STEPS, "scale": 0.003, "pixel_range": (0, 1)},
            [-128, -127, -126, 0],
            [0, 0.003, 0.006, 0.384],
            False,
        ),
    ],
)
def test_which_golden_values_are_those_of_pictures(changes, given, raw, is_picture):
    """Those that whole numbers of 0 to 255 become, up to rounding; steps just those."""
    image = tensor(shape=(1, 2, 2, 1), kind="image", **changes)
    values = np.array(given, image.dtype).reshape(image.shape)
    found = arithmetic.as_bytes(image, values, np.array(raw, np.float32).reshape(image.shape))
    assert found == is_picture
