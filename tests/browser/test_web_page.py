"""The page of `tflite.web` in a real browser: its answers, what it can be given, and what it must not do."""

import functools
import json
import os
import shutil
import threading
import time
from http.server import SimpleHTTPRequestHandler
from http.server import ThreadingHTTPServer
from urllib.error import URLError
from urllib.request import urlopen

import chromium
import numpy as np
import pen_strokes
import pytest
import web_files
from PIL import Image

from keras_attention import tflite
from keras_attention.tflite import runtime
from keras_attention.tflite.apps.web import runtime_package
from keras_attention.tflite.apps.web import serving

RUNTIME = runtime_package.cache_folder() / runtime_package.ARCHIVE
pytestmark = [
    pytest.mark.skipif(
        chromium.find() is None,
        reason="needs Chromium: none of its names is on the PATH (apt-get install chromium)",
    ),
    pytest.mark.skipif(
        shutil.which("npm") is None and not RUNTIME.is_file(),
        reason="needs npm, which fetches LiteRT.js once (apt-get install npm)",
    ),
]
NUM_SAMPLES = 20
MARGIN = {"float32": 1e-6, "int8": 1 / 256, "int8_full": 1.0}
"""Largest difference from Python: rounding; one step of an int8 softmax; one step."""
FILES = {
    "digits": "int8",
    web_files.HOSTILE_NAME: "float32",
    "window_int8": "int8",
    "window_int8_full": "int8_full",
    "image_uint8": "int8_full",
    "two_inputs": "float32",
    "tokens": "int8",
    "two_signatures": "float32",
    "no_signature": "float32",
}
NAMES = list(FILES)
WINDOW = NAMES.index(web_files.HOSTILE_NAME)
CUT_OFF = """[...document.querySelectorAll("main *")]
    .filter(e => !e.closest("svg") && e.getClientRects().length)
    .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5)
    .map(e => e.outerHTML.slice(0, 200))"""


class Site:
    """A page's folder behind a server that can be stopped."""

    def __init__(self, folder, server=None):
        self.server = server or serving.server(folder, 0)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return web_files.write(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A recording at the model's rate, `(length, 3)`, and its CSV file."""
    path = tmp_path_factory.mktemp("recordings") / "walk & <b>run.csv"
    values = np.random.default_rng(7).normal(size=(60, 3)).round(3)
    rows = [",".join(web_files.FEATURES), *(",".join(map(str, row)) for row in values)]
    path.write_text("\n".join(rows))
    return values, path


@pytest.fixture(scope="module")
def folder(files, recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "site"
    tflite.web(list(files[0].values()), folder, title="Files & <friends>", recordings=[recording[1]])
    return folder


@pytest.fixture(scope="module")
def site(folder):
    site = Site(folder)
    yield site
    site.stop()


@pytest.fixture(scope="module")
def browser():
    with chromium.Browser(width=390) as browser:
        yield browser


@pytest.fixture
def page(browser, site):
    """The page, just loaded; at the end it has said nothing and asked nobody else."""
    browser.open(site.address)
    browser.evaluate("keras_attention.started.then(() => 1)")
    yield browser
    assert browser.complaints == []
    others = [url for url in browser.requests if not url.startswith((site.address, "data:", "blob:"))]
    assert others == [] and len(browser.requests) > 10


def show(page, number):
    """Choose a tab, and wait for its answer."""
    page.evaluate(f"document.querySelectorAll('.tab input')[{number}].click()")
    page.evaluate(f"keras_attention.run({number}, {{}}).catch(() => 1)")
    page.wait(
        "document.querySelector('.clock')?.textContent || document.querySelector('.problem')?.textContent"
    )


def answer(page):
    """The first word of the answer shown."""
    settled(page)
    return page.evaluate("document.querySelector('.answer').textContent")


def run_all(page, name, given, **options):
    """Stored answers to stored inputs, of one model."""
    call = f"keras_attention.run({NAMES.index(name)}, x, {json.dumps({'raw': True, **options})})"
    return page.evaluate(f"Promise.all({json.dumps(given)}.map(x => {call}))")


def change(page, selector, value, event="input"):
    """Give the first such control a value, and tell it."""
    page.evaluate(
        f"(() => {{ const control = document.querySelector({selector!r}); control.value = {value!r};"
        f" control.dispatchEvent(new Event({event!r})); }})()"
    )


def settled(page):
    page.wait("keras_attention.panels.every(panel => !panel.running)")


@pytest.mark.parametrize("name", NAMES[:-1])
def test_answers_are_python_s(page, files, name):
    paths, samples = files
    given, expected = web_files.python_answers(
        paths[name], {key: values[:NUM_SAMPLES] for key, values in samples[name].items()}
    )
    assert len(given) == NUM_SAMPLES
    answers = run_all(page, name, given)
    spread = []
    for mine, theirs in zip(answers, expected, strict=True):
        assert set(mine) == set(theirs)
        for key, values in theirs.items():
            np.testing.assert_allclose(mine[key], values, rtol=0, atol=MARGIN[FILES[name]])
            spread.append(values)
    assert max(float(np.ptp(values)) for values in spread) > 0.05  # answers that say something


@pytest.mark.parametrize("name", ["window_int8_full", "image_uint8"])
def test_real_numbers_are_turned_into_steps_and_back(page, files, name):
    """As for a drawing or a recording, whose values the page quantizes itself."""
    given = files[1][name]["i0"][:NUM_SAMPLES]
    call = f"keras_attention.run({NAMES.index(name)}, {{i0: x}})"
    answers = page.evaluate(f"Promise.all({given.reshape(NUM_SAMPLES, -1).tolist()}.map(x => {call}))")
    expected = runtime.run_samples(files[0][name].read_bytes(), {"i0": given})[0]
    step = 1 / 256  # of an int8 softmax
    np.testing.assert_allclose([one["o0"] for one in answers], expected, rtol=0, atol=1.01 * step)
    assert np.ptp(expected) > 50 * step


def test_second_signature(page, files):
    tokens = {key: values[:5] for key, values in files[1]["tokens"].items()}
    given, expected = web_files.python_answers(files[0]["two_signatures"], tokens, "words")
    answers = run_all(page, "two_signatures", given, signature=1)
    number = NAMES.index("two_signatures")
    for mine, theirs in zip(answers, expected, strict=True):
        np.testing.assert_allclose(mine["o0"], theirs["o0"], rtol=0, atol=1e-6)
    show(page, number)
    assert "Not checked" in page.evaluate("document.querySelector('.verdict').textContent")
    change(page, "select", 1, "change")
    change(page, "textarea", "1 2 3 4 5 100")
    page.wait("document.querySelectorAll('.bars td').length === 3")
    change(page, "textarea", "[1, 2]")
    page.wait("document.querySelector('.problem').textContent.includes('6 numbers; there are 2')")


def test_without_a_signature(page, files):
    """Such a file's tensors have names of their own."""
    first, second = (files[1]["no_signature"][name][0].tolist() for name in ("i0", "i1"))
    (mine,) = run_all(page, "no_signature", [{"0.0:": first, "0.1:": second}])
    (theirs,) = run_all(page, "two_inputs", [{"i0": first, "i1": second}])
    np.testing.assert_allclose(mine["0.5:"], theirs["o0"], rtol=0, atol=1e-6)


def test_every_model_checks_itself(page):
    for number, name in enumerate(NAMES):
        show(page, number)
        text = page.evaluate("document.querySelector('.verdict').innerText")
        if "signature" not in name:  # whose files have no manifest
            assert text.startswith("Answers as in Python: yes") and "known inputs" in text
        assert page.evaluate("document.querySelector('.clock').textContent").endswith("(median of 1).")


def test_drawn_digits(page):
    """Strokes of a pen, as pointer events, at two places and sizes."""
    right = []
    for digit, strokes in pen_strokes.DIGITS.items():
        x, y, scale = ((0.0, 0.0, 1.0), (0.2, 0.35, 0.6))[digit % 2]
        page.evaluate("document.querySelector('.view button').click()")
        left, top, side = page.evaluate(
            "(() => { const p = document.querySelector('.pad'); p.scrollIntoView({block: 'center'});"
            " const b = p.getBoundingClientRect(); return [b.left, b.top, b.width]; })()"
        )
        for stroke in strokes:
            page.drag([(left + (x + scale * u) * side, top + (y + scale * v) * side) for u, v in stroke])
        right.append(answer(page).startswith(f"{digit} ("))
    assert right == [True] * 10


def test_a_recording_is_scrubbed_and_played(page, files, recording):
    show(page, WINDOW)
    change(page, "select", 0, "change")
    page.wait("document.querySelector('input[type=range]').max == 47")
    change(page, "input[type=range]", 21)
    settled(page)
    window = recording[0][21 : 21 + web_files.WINDOW].astype("float32")
    normalized = (window - np.float32(web_files.MEAN)) / np.float32(web_files.STD)
    _, (expected,) = web_files.python_answers(files[0][web_files.HOSTILE_NAME], {"i0": normalized[None]})
    shown = page.evaluate(
        f"Array.from(new Float32Array(keras_attention.panels[{WINDOW}].last.o0.slice().buffer))"
    )
    np.testing.assert_allclose(shown, expected["o0"], rtol=0, atol=1e-6)
    shade = page.evaluate(
        "[...document.querySelectorAll('.attention rect')].map(r => +r.getAttribute('fill-opacity'))"
    )
    assert len(shade) == web_files.WINDOW
    assert int(np.argmax(shade)) == int(np.argmax(expected["o1"])) and min(shade) == 0
    page.evaluate("document.querySelector('.player button').click()")
    page.wait("document.querySelector('input[type=range]').value > 25")
    page.evaluate("document.querySelector('.player button').click()")
    assert page.evaluate("document.querySelector('.player button').textContent") == "Play"
    assert "From " in page.evaluate("document.querySelector('.chart p').textContent")


def test_a_csv_file_in_any_order_and_at_another_rate(page, tmp_path):
    show(page, WINDOW)
    values = np.random.default_rng(8).normal(size=(91, 3)).round(3)
    times = np.arange(91) * 10  # 100 Hz, in ms
    rows = ["az;time_ms;other;ax;ay"]
    rows += [f"{z};{t};x;{x};{y}" for t, (x, y, z) in zip(times, values, strict=True)]
    (tmp_path / "run.csv").write_text("\r\n".join(rows))
    page.choose_files("input[type=file]", tmp_path / "run.csv")
    page.wait("document.querySelector('input[type=range]').max == 10")
    shown = page.evaluate(f"Array.from(keras_attention.panels[{WINDOW}].inputs[0].window())")
    expected = values[:: 100 // web_files.RATE][: web_files.WINDOW]
    np.testing.assert_allclose(np.reshape(shown, (-1, 3)), expected, atol=1e-9)
    (tmp_path / "wrong.csv").write_text("ax,ay\n1,2\n3,4\n")
    page.choose_files("input[type=file]", tmp_path / "wrong.csv")
    page.wait(
        "[...document.querySelectorAll('.problem')].some(p => p.textContent.includes('no column \"az\"'))"
    )


def test_a_picture_file(page, tmp_path):
    show(page, NAMES.index("image_uint8"))
    picture = np.random.default_rng(9).integers(0, 256, (9, 7, 3)).astype("uint8")
    Image.fromarray(picture).save(tmp_path / "picture.png")
    page.choose_files("input[type=file]", tmp_path / "picture.png")
    values = f"Array.from(keras_attention.panels[{NAMES.index('image_uint8')}].inputs[0].values)"
    page.wait(f"{values}[0] === {picture[0, 0, 0]} && {values}[188] === {picture[-1, -1, -1]}")
    np.testing.assert_array_equal(page.evaluate(values), picture.ravel())
    (tmp_path / "broken.png").write_text("no picture")
    page.choose_files("input[type=file]", tmp_path / "broken.png")
    page.wait("[...document.querySelectorAll('.problem')].some(p => p.textContent.includes('no picture'))")


def test_by_keyboard_alone(page):
    page.press("Tab", 9)
    assert page.evaluate("document.activeElement.name") == "model"
    page.press("ArrowRight", 39)
    page.wait("document.querySelector('.legend') !== null")
    for _ in range(2):
        page.press("Tab", 9)
    assert page.evaluate("document.activeElement.closest('.samples') !== null")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    before = page.evaluate(f"Array.from(keras_attention.panels[{WINDOW}].inputs[0].window())")
    page.press("Enter", 13, "\r")
    settled(page)
    assert page.evaluate(f"Array.from(keras_attention.panels[{WINDOW}].inputs[0].window())") != before


def test_names_are_never_markup(page):
    show(page, WINDOW)
    text = page.evaluate("document.querySelector('main').innerText")
    for name in (*web_files.HOSTILE, web_files.HOSTILE_NAME, "Files & <friends>", "walk & <b>run"):
        assert name in text, name
    assert page.evaluate("document.title") == "Files & <friends>"
    assert page.evaluate("document.querySelectorAll('main img, main i, main b, #hit').length") == 0
    assert page.evaluate("typeof hit") == "undefined"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(page, scheme):
    page("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    for number in range(len(NAMES)):
        show(page, number)
        assert page.evaluate("[innerWidth, document.scrollingElement.scrollWidth]") == [390, 390]
        assert page.evaluate(CUT_OFF) == []
        sizes = "[...document.querySelectorAll('main *')].map(e => parseFloat(getComputedStyle(e).fontSize))"
        assert page.evaluate(f"Math.min(...{sizes})") >= 12
        low = (
            "[...document.querySelectorAll('main button')].map(b => b.clientHeight).filter(h => h && h < 40)"
        )
        assert page.evaluate(low) == []


def test_one_file_from_disk(browser, files, tmp_path):
    names = ["digits", web_files.HOSTILE_NAME]
    found = tflite.web([files[0][name] for name in names], tmp_path / "one", single_file=True)
    assert [path.name for path in found.index.parent.iterdir() if path.suffix == ".html"] == ["index.html"]
    browser.open(found.index)
    browser.evaluate("keras_attention.started.then(() => 1)")
    for number in range(2):
        show(browser, number)
        assert "as in Python: yes" in browser.evaluate("document.querySelector('.verdict').textContent")
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [found.index.as_uri()]


def test_what_is_wrong_is_said(browser, folder, tmp_path):
    """Another golden answer, a damaged model, a missing runtime: in the page, in plain words."""
    broken = shutil.copytree(folder, tmp_path / "broken")
    data = json.loads((broken / "page.json").read_text())
    pairs = data["models"][0]["pairs"]
    pairs[0]["outputs"], pairs[2]["outputs"] = pairs[2]["outputs"], pairs[0]["outputs"]
    (broken / "page.json").write_text(json.dumps(data))
    path = broken / data["models"][1]["file"]
    path.write_bytes(path.read_bytes()[:500])
    site = Site(broken)
    browser.open(site.address)
    browser.evaluate("keras_attention.started.then(() => 1)")
    text = browser.evaluate("document.querySelector('.verdict').innerText")
    assert text.startswith("Answers as in Python: no") and "Don't trust" in text
    show_broken = "document.querySelectorAll('.tab input')[1].click()"
    browser.evaluate(show_broken)
    browser.wait("document.querySelector('.verdict').innerText.startsWith('This model can')")
    assert "damaged" in browser.evaluate("document.querySelector('.verdict').innerText")
    site.stop()
    (broken / "sw.js").unlink()
    (broken / "litert" / "litert.wasm.gz").write_bytes(b"nothing")
    site = Site(broken)
    browser.open(site.address)
    browser.evaluate("keras_attention.started.then(() => 1)")
    assert "runtime doesn't start" in browser.evaluate("document.getElementById('state').innerText")
    site.stop()


def test_without_a_network(browser, folder):
    """Loaded once, the page works when the server is gone. Other tests' pages have other origins."""
    site = Site(folder)
    browser.open(site.address)
    browser.evaluate("keras_attention.started.then(() => 1)")
    browser.wait("document.getElementById('offline').textContent.startsWith('Stored on this device')")
    site.stop()
    with pytest.raises(URLError):
        urlopen(site.address, timeout=2)  # noqa: S310
    browser.open(site.address)
    browser.evaluate("keras_attention.started.then(() => 1)")
    show(browser, WINDOW)
    assert "as in Python: yes" in browser.evaluate("document.querySelector('.verdict').textContent")
    assert browser.complaints == []


def test_a_page_made_anew_is_seen_on_any_server(browser, folder, files, tmp_path):
    """One that says nothing of caching, with files of some age, which browsers then keep for days."""
    page = tmp_path / "page"
    shutil.copytree(folder, page)
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    site = Site(page, ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=page)))

    def age():
        for path in page.rglob("*"):
            os.utime(path, (0, time.time() - 20 * 86_400))

    age()
    browser.open(site.address)
    browser.evaluate("keras_attention.started.then(() => 1)")
    browser.wait("document.getElementById('offline').textContent.startsWith('Stored on this device')")
    tflite.web(next(iter(files[0].values())), page, title="Made anew")
    age()
    browser.open(site.address)
    browser.evaluate("keras_attention.started.then(() => 1)")
    assert browser.evaluate("document.title") == "Made anew"
    loaded = "fetch('page.json').then(found => found.json()).then(data => data.models.length)"
    assert browser.evaluate(loaded) == 1
    site.stop()
