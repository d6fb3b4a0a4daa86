"""`tflite.web` without a browser: what is written, what is refused, and what the user is told."""

import base64
import gzip
import hashlib
import io
import json
import re
import runpy
import subprocess
import sys
import tarfile
import threading
import urllib.error
import urllib.request
from pathlib import Path

import click.testing
import numpy as np
import pytest
import tiny_graphs

from keras_attention import tflite
from keras_attention.tflite import command_line
from keras_attention.tflite.apps import folders
from keras_attention.tflite.apps.web import runtime_package
from keras_attention.tflite.apps.web import serving

SCRIPT, MODULE = b"var ModuleFactory;", b"\0asm module"


def archive(**changes):
    """A package as npm packs it."""
    members = {runtime_package._SCRIPT: SCRIPT, runtime_package._MODULE: MODULE, **changes}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as packed:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """The path of a package that counts as the right one."""
    content = archive()
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    monkeypatch.setattr(runtime_package, "INTEGRITY", digest)
    path = tmp_path / "runtime.tgz"
    path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A window of three named channels to two classes."""
    graph = tiny_graphs.TinyGraph()
    window = graph.input(1, 5, 3)
    flat = graph.op("RESHAPE", window, graph.constant([1, 15]), shape=(1, 15))
    rng = np.random.default_rng(1)
    kernel, bias = graph.constant(rng.normal(size=(2, 15)).astype("float32")), graph.constant([0.5, -0.5])
    content = graph.finish(graph.op("FULLY_CONNECTED", flat, kernel, bias, shape=(1, 2)))
    path = tmp_path_factory.mktemp("model") / "steps.tflite"
    tflite.quantize(
        content,
        path,
        precision="float32",
        calibration={"i0": rng.normal(size=(31, 5, 3)).astype("float32")},
        manifest={"features": ["ax", "ay", "az"], "labels": ["</script>", "walk"], "license": "CC0-1.0"},
        verbose=0,
    )
    return path


@pytest.fixture
def run():
    runner = click.testing.CliRunner()
    return lambda *arguments: runner.invoke(command_line.main, ["web", *map(str, arguments)])


def page_data(folder):
    return json.loads((folder / "page.json").read_text())


def test_folder(model, runtime, tmp_path):
    page = tflite.web(model, tmp_path / "page", runtime=runtime)
    assert page.index == tmp_path / "page" / "index.html" and page.remarks == ()
    names = {
        str(path.relative_to(tmp_path / "page")) for path in (tmp_path / "page").rglob("*") if path.is_file()
    }
    assert {"index.html", "sw.js", "style.css", "js/main.js", "litert/NOTICE.txt", folders.LIST} <= names
    assert (tmp_path / "page" / "litert" / "litert.js").read_bytes() == SCRIPT
    assert gzip.decompress((tmp_path / "page" / "litert" / "litert.wasm.gz").read_bytes()) == MODULE
    (entry,) = page_data(tmp_path / "page")["models"]
    assert (tmp_path / "page" / entry["file"]).read_bytes() == model.read_bytes()
    assert entry["name"] == "steps" and entry["texts"] == {"license": "CC0-1.0"} and len(entry["pairs"]) == 8
    (signature,) = entry["signatures"]
    assert (
        signature["inputs"][0]["names"] == ["ax", "ay", "az"] and signature["inputs"][0]["kind"] == "window"
    )
    pair = entry["pairs"][0]
    stored = np.frombuffer(base64.b64decode(pair["inputs"]["i0"]), "<f4").reshape(1, 5, 3)
    answer = np.frombuffer(base64.b64decode(pair["outputs"]["o0"]), "<f4").reshape(1, 2)
    kernel = np.random.default_rng(1).normal(size=(2, 15)).astype("float32")
    np.testing.assert_allclose(answer, stored.reshape(1, 15) @ kernel.T + [0.5, -0.5], atol=1e-5)
    listed = re.search(r'FILES = "(.*?)"', (tmp_path / "page" / "sw.js").read_text()).group(1).split()
    assert set(listed) == (names | {"./"}) - {"sw.js", folders.LIST}
    index = (tmp_path / "page" / "index.html").read_text()
    addresses = re.findall(r'(?:src|href)="([^"]*)"', index)
    assert len(addresses) == 5 and all(
        address == "data:," or (page.index.parent / address).is_file() for address in addresses
    )


def test_service_worker_changes_with_the_page(model, runtime, tmp_path):
    texts = []
    for title in ("one", "one", "two"):
        tflite.web(model, tmp_path / "page", title=title, runtime=runtime)
        texts.append((tmp_path / "page" / "sw.js").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_single_file(model, runtime, tmp_path):
    page = tflite.web({"a </script> <b>": model}, tmp_path, title="<b>", runtime=runtime, single_file=True)
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", folders.LIST, "runtime.tgz"}
    text = page.index.read_text()
    assert "<title>&lt;b&gt;</title>" in text and "<b>" not in text.replace("&lt;b&gt;", "")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1).replace("&#39;", "'")
    inline = re.findall(r"<script(?: type=\"(?:importmap|module)\")?>(.*?)</script>", text, re.DOTALL)
    assert len(inline) == 3
    for script in inline:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "default-src 'none'" in policy and "script-src data: 'wasm-unsafe-eval'" in policy
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert addresses == ["data:,"]


def test_files_of_the_user_stay(model, runtime, tmp_path, run):
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "index.html").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    result = run(model, "-o", folder, "--runtime", runtime)
    assert result.exit_code == 1 and "index.html" in result.stderr and "--overwrite" in result.stderr
    assert (folder / "index.html").read_text() == "mine"
    assert {path.name for path in folder.iterdir()} == {"index.html", "notes.txt"}
    result = run(model, "-o", folder, "--runtime", runtime, "--overwrite")
    assert result.exit_code == 0, result.output
    assert "<html" in (folder / "index.html").read_text()
    assert run(model, "-o", folder, "--runtime", runtime).exit_code == 0
    (folder / "style.css").write_text("mine")
    assert "style.css" in run(model, "-o", folder, "--runtime", runtime).stderr
    (folder / "style.css").unlink()
    assert run(model, "-o", folder, "--runtime", runtime, "--single-file").exit_code == 0
    assert {path.name for path in folder.iterdir() if path.is_file()} == {
        "index.html",
        "notes.txt",
        folders.LIST,
    }


def test_a_list_that_leads_out_of_the_folder_removes_nothing(model, runtime, tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("mine")
    folder = tmp_path / "page"
    folder.mkdir()
    listed = {"page": {"../kept.txt": [hashlib.sha256(b"mine").hexdigest()], "x": 3}, "y": 3}
    (folder / folders.LIST).write_text(json.dumps(listed))
    tflite.web(model, folder, runtime=runtime)
    assert kept.read_text() == "mine"


def test_names_of_the_models(model, runtime, tmp_path):
    other = tmp_path / 'o"ther $ü' / "steps.tflite"
    other.parent.mkdir()
    other.write_bytes(model.read_bytes())
    tflite.web([model, other], tmp_path / "page", runtime=runtime)
    first, second = page_data(tmp_path / "page")["models"]
    assert first["name"] == f"{model.parent.name}/steps" and second["name"] == 'o"ther $ü/steps'
    assert first["file"] == "models/1_steps.tflite" and second["file"] == "models/2_steps.tflite"
    with pytest.raises(ValueError, match="Two `models` are called"):
        tflite.web([model, model], tmp_path / "page", runtime=runtime)
    with pytest.raises(ValueError, match="at least one"):
        tflite.web([], tmp_path / "page", runtime=runtime)


def test_recordings(model, runtime, tmp_path):
    (tmp_path / "right ü.csv").write_text('az;"ax";ay\n1;2;3\n', encoding="utf-8")
    (tmp_path / "wrong.csv").write_text("ax,ay\n1,2\n")
    (tmp_path / "no.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "quoted.csv").write_text('"n;o\n;te", "ax",ay,az\n1,2,3,4\n')
    tflite.web(model, tmp_path / "page", recordings=[tmp_path / "quoted.csv"], runtime=runtime)
    assert page_data(tmp_path / "page")["recordings"][0]["columns"] == ["n;o\n;te", "ax", "ay", "az"]
    tflite.web(model, tmp_path / "page", recordings=[tmp_path / "right ü.csv"], runtime=runtime)
    assert page_data(tmp_path / "page")["recordings"] == [
        {"name": "right ü", "path": "recordings/1_right.csv", "columns": ["az", "ax", "ay"]}
    ]
    for name, message in (("wrong", r"'wrong' fits no model.*\['ax', 'ay'\]"), ("no", "CSV file in UTF-8")):
        with pytest.raises(ValueError, match=message):
            tflite.web(model, tmp_path / "p", recordings=[tmp_path / f"{name}.csv"], runtime=runtime)
    assert not (tmp_path / "p").exists()


def test_wrong_files(model, runtime, tmp_path, run):
    (tmp_path / "bad.tflite").write_bytes(b"no model at all")
    result = run(tmp_path / "bad.tflite", "-o", tmp_path / "page", "--runtime", runtime)
    assert result.exit_code == 1 and "can't be described" in result.stderr
    assert "No such file" in run(tmp_path / "no.tflite", "-o", tmp_path / "page", "--runtime", runtime).stderr
    (tmp_path / "file").write_text("")
    assert "where a file lies" in run(model, "-o", tmp_path / "file", "--runtime", runtime).stderr
    runtime.write_bytes(archive(extra=b"x"))
    assert "SHA-512 differs" in run(model, "-o", tmp_path / "page", "--runtime", runtime).stderr
    assert not (tmp_path / "page").exists()


def test_npm(runtime, tmp_path, monkeypatch):
    """Fetched once into the cache; without npm or a network, what to do is said."""
    monkeypatch.setattr(runtime_package, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(runtime_package.shutil, "which", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"there is no npm\. Install Node\.js, or run `npm pack"):
        runtime_package.read()
    monkeypatch.setattr(runtime_package.shutil, "which", lambda name: "/bin/npm")
    calls = []

    def fails(command, **options):
        calls.append(command)
        return subprocess.CompletedProcess(command, 1, "", "npm error network\nmore")

    monkeypatch.setattr(runtime_package.subprocess, "run", fails)
    with pytest.raises(OSError, match=r"npm error network\. Check the network"):
        runtime_package.read()

    def hangs(command, timeout, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(runtime_package.subprocess, "run", hangs)
    with pytest.raises(OSError, match="within 180 s"):
        runtime_package.read()

    def packs(command, cwd, **options):
        calls.append(command)
        (Path(cwd) / runtime_package.ARCHIVE).write_bytes(runtime.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(runtime_package.subprocess, "run", packs)
    for _ in range(2):
        assert runtime_package.read() == runtime_package.Runtime(SCRIPT, MODULE)
    assert len(calls) == 2 and calls[-1][-1] == "@litertjs/core@2.5.3"


def test_serving(tmp_path):
    (tmp_path / "a.js").write_text("1")
    with serving.server(tmp_path, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/a.js", timeout=10) as answer:
            assert answer.headers["Content-Type"] == "text/javascript" and answer.read() == b"1"
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/%00", timeout=10)
        with pytest.raises(OSError, match=f"Port {port} can't be used"):
            serving.server(tmp_path, port)
        server.shutdown()
    assert server.server_address[0] == "127.0.0.1"


def test_the_command_serves(model, runtime, tmp_path, run, monkeypatch):
    """A model may follow --serve; a port in use is said before anything is built."""
    served = []
    monkeypatch.setattr(serving, "run", lambda server, say: served.append(server.server_address[1]))
    arguments = ["-o", tmp_path / "page", "--runtime", runtime, "--port", 0, "--serve", model]
    assert run(*arguments).exit_code == 0 and served[0] > 0
    with serving.server(tmp_path, 0) as server:
        port = server.server_address[1]
        done = run(model, "-o", tmp_path / "other", "--runtime", runtime, "--serve", "--port", port)
    assert done.exit_code == 1 and f"Port {port} can't be used" in done.stderr and "--port" in done.stderr
    assert not (tmp_path / "other").exists() and len(served) == 1


BUILD = Path(__file__).resolve().parents[2] / "examples" / "web" / "build.py"


@pytest.mark.skipif(not BUILD.exists(), reason="only in a checkout")
def test_recordings_of_the_example(model, runtime, tmp_path, monkeypatch):
    """The page of both examples, with a small model in their places, and all seven exercises."""
    monkeypatch.setattr("sys.path", [*sys.path])
    build = runpy.run_path(str(BUILD))
    monkeypatch.setattr(runtime_package, "cache_folder", lambda: tmp_path)
    runtime.rename(tmp_path / runtime_package.ARCHIVE)
    arguments = ["--activity", model, "--images", model, "--out", tmp_path / "page"]
    result = click.testing.CliRunner().invoke(build["main"], [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    data = page_data(tmp_path / "page")
    assert [entry["name"] for entry in data["models"]] == ["Digits", "Exercises"]
    assert len(data["recordings"]) == 7
    for recording in data["recordings"]:
        assert recording["columns"] == ["time", "ax", "ay", "az", "wx", "wy", "wz"]
        rows = (tmp_path / "page" / recording["path"]).read_text().splitlines()
        assert len(rows) == 1001 and rows[1].startswith("0.00,") and rows[-1].startswith("19.98,")
