"""Every Python snippet of the README and the docs runs; every link inside the repo leads somewhere."""

import os
import re
from pathlib import Path

import keras
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)\)")

pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").exists(), reason="the pages are not part of the installed package"
)
WITH_SNIPPETS = [page for page in PAGES if page.exists() and SNIPPET.search(page.read_text())]


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    """A folder with what the pages assume that a user has: a trained model and samples of its input."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 4, 211)
    window = (3.0 * np.eye(4, 3)[labels][:, None] + generator.normal(size=(211, 17, 3))).astype("float32")
    keras.utils.set_random_seed(0)
    inputs = keras.Input((17, 3), name="window")
    pooled = keras.layers.GlobalAveragePooling1D()(inputs)
    model = keras.Model(inputs, keras.layers.Dense(4, activation="softmax")(pooled))
    model.compile(keras.optimizers.Adam(0.1), "sparse_categorical_crossentropy")
    model.fit(window, labels, epochs=5, verbose=0)
    model.save("model.keras")
    np.savez("samples.npz", window=window, targets=labels)
    return tmp_path


def test_there_are_snippets():
    assert ROOT / "README.md" in WITH_SNIPPETS
    assert len(WITH_SNIPPETS) >= 3


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the pages show the default backend")
@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=lambda page: page.name)
def test_snippets_run(page, user_folder):
    if page.name == "microcontrollers.md":
        pytest.importorskip("tflite_micro", reason='needs "keras-attention-tflite[micro]"')
    namespace = {}
    for snippet in SNIPPET.findall(page.read_text()):
        exec(compile(snippet, str(page), "exec"), namespace)  # noqa: S102
    assert namespace


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_repository(page):
    for target in LINK.findall(page.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pages_name_no_path_of_a_machine():
    for page in PAGES:
        assert not re.search(r"(?:^|[\s`(])/(?:home|root|work|tmp|opt)/", page.read_text()), page.name


def test_the_readme_commands_use_a_virtual_environment_of_the_checkout():
    text = (ROOT / "README.md").read_text()
    commands = re.findall(r"^python3 -m venv \.venv && .*$", text, re.MULTILINE)
    assert len(commands) == 2
    assert "examples/activity_recognition.py" in commands[0]
    assert "pytest" in commands[1]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
