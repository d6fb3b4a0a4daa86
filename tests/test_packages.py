"""What is installed, under which names, and that each public name is documented and its example runs."""

import configparser
import importlib
import importlib.metadata
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attention
import keras_attention.serving
import keras_attention.tflite

ROOT = Path(__file__).resolve().parent.parent
in_checkout = pytest.mark.skipif(not (ROOT / "tflite").is_dir(), reason="only in a checkout")
PAGES = {
    keras_attention: [
        "layers.md",
        "blocks.md",
        "images.md",
        "long_sequences.md",
        "masks.md",
        "memory.md",
        "migration.md",
        "pooling.md",
        "positions.md",
    ],
    keras_attention.serving: ["servers.md"],
    keras_attention.tflite: [
        "conversion.md",
        "android.md",
        "arm64.md",
        "benchmark.md",
        "microcontrollers.md",
        "web.md",
    ],
}
PUBLIC = [
    pytest.param(package, name, id=f"{package.__name__}.{name}")
    for package in PAGES
    for name in package.__all__
    if not name.startswith("__")
]
EXAMPLE = re.compile(r"^( *)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


def setup_cfg():
    parser = configparser.ConfigParser()
    assert parser.read(ROOT / "setup.cfg")
    return parser


def words(option):
    return [line.split() for line in setup_cfg()["options"][option].strip().splitlines()]


@in_checkout
def test_packages_are_the_folders_on_disk():
    """A package left out of setup.cfg works in an editable install and is missing from the wheel."""
    tops = {"keras_attention": ROOT / "keras_attention", "keras_attention.tflite": ROOT / "tflite"}
    found = {}
    for name, top in tops.items():
        for file in top.rglob("__init__.py"):
            parts = file.parent.relative_to(top).parts
            found[".".join((name, *parts))] = str(file.parent.relative_to(ROOT))
    assert len(found) >= 3
    assert {name: folder for name, _, folder in words("package_dir")} == found
    assert [name for (name,) in words("packages")] == sorted(found)
    sources = {file.parent for top in tops.values() for file in top.rglob("*.py")}
    assert {str(folder.relative_to(ROOT)) for folder in sources} == set(found.values()), (
        "an __init__.py lacks"
    )


@in_checkout
def test_packages_do_not_share_a_name_with_their_functions():
    """`from package import name` would give one or the other, by the order of imports."""
    for package, folder in ((keras_attention, "keras_attention"), (keras_attention.tflite, "tflite")):
        modules = {file.stem for file in (ROOT / folder).glob("*.py")}
        assert len(modules) > 3
        assert not modules & set(package.__all__)


@in_checkout
def test_the_folder_is_no_package_of_its_own():
    result = subprocess.run(
        [sys.executable, "-c", "import tflite"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 1
    assert "ImportError" in result.stderr and "imported as 'tflite'" in result.stderr
    assert "pip install -e ." in result.stderr and "import keras_attention.tflite" in result.stderr


def test_importing_the_layers_does_not_import_the_conversion():
    program = (
        "import sys, keras_attention; print([m for m in sys.modules if m.startswith('keras_attention.t')])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == "[]", result.stderr


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\w+)?", keras_attention.__version__)
    if (ROOT / "setup.cfg").exists():
        module, _, attribute = setup_cfg()["metadata"]["version"].removeprefix("attr: ").rpartition(".")
        assert getattr(importlib.import_module(module), attribute) == keras_attention.__version__
    try:
        installed = importlib.metadata.version("keras-attention-tflite")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("not installed")
    assert installed == keras_attention.__version__


@in_checkout
def test_command_is_a_function():
    (entry,) = setup_cfg()["options.entry_points"]["console_scripts"].strip().splitlines()
    command, _, target = entry.partition(" = ")
    module, _, name = target.partition(":")
    assert command == "keras-attention"
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("package", PAGES, ids=lambda package: package.__name__)
def test_all_is_complete_and_true(package):
    assert len(set(package.__all__)) == len(package.__all__) > 2
    assert all(hasattr(package, name) for name in package.__all__)
    for name, value in vars(package).items():
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            assert name in package.__all__, f"{name} looks public"


@pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the pages are not part of the package")
@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_documented(package, name):
    text = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES[package])
    code = " ".join(re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL))
    assert re.search(rf"\b{name}\b", code), f"{PAGES[package]} don't speak of `{name}`"


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_docstrings(package, name):
    value = getattr(package, name)
    members = {name: value}
    if inspect.isclass(value):
        own = {"build", "call", "get_config", "compute_mask", "compute_output_shape", "compute_output_spec"}
        members |= {
            f"{name}.{key}": member
            for key, member in vars(value).items()
            if inspect.isfunction(member) and not key.startswith("_") and key not in own
        }
    for path, member in members.items():
        text = member.__doc__ or ""
        assert text.strip() and not text.startswith(f"{name}("), f"{path} has no docstring"
        assert text.strip().splitlines()[0].endswith((".", ":")), f"the first line of {path} is no sentence"


def examples(value):
    return [inspect.cleandoc(code) for _, code in EXAMPLE.findall(inspect.getdoc(value) or "")]


def test_there_are_examples():
    with_examples = [
        name for package in PAGES for name in package.__all__ if examples(getattr(package, name))
    ]
    assert {"MultiHeadAttention", "convert", "inspect"} <= set(with_examples)


FILES = {"benchmark", "check_micro", "inspect", "quantize", "verify"}
"""Functions whose examples read files."""


@pytest.fixture(scope="module")
def example_files(tmp_path_factory):
    """A folder with what those examples assume: a float file, an int8 file with its manifest, and samples."""
    folder = tmp_path_factory.mktemp("files")
    inputs = keras.Input((11, 3), name="window")
    model = keras.Model(inputs, keras.layers.Dense(5)(keras.layers.Flatten()(inputs)))
    samples = np.random.default_rng(3).gamma(2.0, size=(101, 11, 3)).astype("float32")
    np.savez(folder / "samples.npz", window=samples)
    convert = keras_attention.tflite.convert
    for name in ("float", "float32"):
        convert(model, folder / f"{name}.tflite", precision="float32", evaluation=samples, verbose=0)
    for name in ("model", "int8"):
        convert(model, folder / f"{name}.tflite", precision="int8", calibration=samples, verbose=0)
    return folder


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_examples_run(package, name, tmp_path, monkeypatch, request):
    codes = examples(getattr(package, name))
    if not codes:
        pytest.skip("no example")
    if package is not keras_attention and keras.config.backend() != "tensorflow":
        pytest.skip("conversion is shown on the default backend")
    if name == "check_micro":
        pytest.importorskip("tflite_micro", reason='needs "keras-attention-tflite[micro]"')
    monkeypatch.chdir(tmp_path)
    if name in FILES:
        shutil.copytree(request.getfixturevalue("example_files"), tmp_path, dirs_exist_ok=True)
    namespace = {}
    for code in codes:
        exec(compile(code, f"{name} example", "exec"), namespace)  # noqa: S102
    assert len(namespace) > 1
