"""What the page of `tflite.web` is given, in a real browser: it refuses, asks or says what it made of it."""

import json
import shutil
import threading

import chromium
import numpy as np
import pen_strokes
import pytest
import web_files

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
NAMES = ["sixteen", "unknown", "tokens", "three", "values", "one_label"]
PROBLEM = "[...document.querySelectorAll('.problem')].map(p => p.textContent).join('')"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    paths = web_files.write_odd(tmp_path_factory.mktemp("files"))
    assert list(paths) == NAMES
    return paths


@pytest.fixture(scope="module")
def written(files, tmp_path_factory):
    return tflite.web(list(files.values()), tmp_path_factory.mktemp("page") / "site")


@pytest.fixture(scope="module")
def loaded(written):
    """The page in a browser, loaded once: each test shows a model of its own."""
    with chromium.Browser(width=390) as browser, serving.server(written.index.parent, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{server.server_address[1]}/")
        browser.evaluate("keras_attention.started.then(() => 1)")
        yield browser
        assert browser.complaints == []
        server.shutdown()


@pytest.fixture
def show(loaded):
    """A function that shows the page's tab of a file, and waits for its answer."""

    def choose(name):
        number = NAMES.index(name)
        loaded.evaluate(f"document.querySelectorAll('.tab input')[{number}].click()")
        loaded.evaluate(f"keras_attention.run({number}, {{}}).catch(() => 1)")
        loaded.wait("document.querySelector('.clock') && keras_attention.panels.every(one => !one.running)")
        return loaded

    return choose


def change(page, selector, value, event="input"):
    page.evaluate(
        f"(() => {{ const control = document.querySelector({selector!r}); control.value = {value!r};"
        f" control.dispatchEvent(new Event({event!r})); }})()"
    )


def settled(page, selector):
    """The text of an element, once nothing runs."""
    page.wait("keras_attention.panels.every(panel => !panel.running)")
    return page.evaluate(f"document.querySelector({selector!r}).textContent")


def draw(page, digit):
    page.evaluate("document.querySelector('.view button').click()")
    left, top, side = page.evaluate(
        "(() => { const p = document.querySelector('.pad'); p.scrollIntoView({block: 'center'});"
        " const b = p.getBoundingClientRect(); return [b.left, b.top, b.width]; })()"
    )
    for stroke in pen_strokes.DIGITS[digit]:
        page.drag([(left + u * side, top + v * side) for u, v in stroke])
    page.wait("keras_attention.panels.every(panel => !panel.running)")


def pixels(page, name):
    return page.evaluate(f"Array.from(keras_attention.panels[{NAMES.index(name)}].inputs[0].values)")


def test_drawn_digits_of_another_range(show):
    page = show("sixteen")
    right = []
    for digit in range(10):
        draw(page, digit)
        right.append(settled(page, ".answer").startswith(f"{digit} ("))
    assert right == [True] * 10
    assert 10 < max(pixels(page, "sixteen")) <= 16
    note = page.evaluate("document.querySelector('.view:last-child p').textContent")
    assert "8 pixels, 0 to 16" in note


def test_an_unknown_range_is_asked_for(show, written):
    (remark,) = written.remarks
    assert remark.startswith("unknown: Which numbers a picture's 0 and 255 become in input 'i0' is not known")
    page = show("unknown")
    assert settled(page, ".answer") != ""  # of a sample
    draw(page, 7)
    assert settled(page, ".answer") == "" and page.evaluate("document.querySelectorAll('.bar').length") == 0
    assert "choose them" in page.evaluate(PROBLEM) and "“pixel_range”" in page.evaluate(PROBLEM)
    change(page, "select", "1", "change")  # 0 to 1
    assert settled(page, ".answer").startswith("7 (")
    assert page.evaluate(PROBLEM) == ""
    shares = pixels(page, "unknown")
    assert 0.6 < max(shares) <= 1 and shares[0] == 0  # light on dark, whatever the random pairs look like
    change(page, "select", "own", "change")
    assert settled(page, ".answer") == ""
    change(page, ".beside + .row .field:nth-child(2) input", "-3")
    change(page, ".beside + .row .field:nth-child(3) input", "5")
    assert settled(page, ".answer") != ""
    np.testing.assert_allclose(pixels(page, "unknown"), np.asarray(shares) * 8 - 3, atol=1e-9)
    page.evaluate("document.querySelector('.check input').click()")
    assert settled(page, ".answer") != ""
    np.testing.assert_allclose(pixels(page, "unknown"), 5 - np.asarray(shares) * 8, atol=1e-9)


@pytest.mark.parametrize("wrong", [101, -1])
def test_tokens_without_a_row_are_refused(show, wrong):
    page = show("tokens")
    change(page, "textarea", "1 2 3 4 5 100")
    assert settled(page, ".answer") != ""
    change(page, "textarea", f"1 2 {wrong} 4 5 100")
    assert settled(page, ".answer") == ""
    assert f'"i0" takes numbers from 0 to 100, the rows of its table; there is {wrong} at place 3' in (
        page.evaluate(PROBLEM)
    )
    asked = f"keras_attention.run({NAMES.index('tokens')}, {{i0: [1, 2, {wrong}, 4, 5, 100]}})"
    assert "takes numbers from 0 to 100" in page.evaluate(f"{asked}.catch(error => error.message)")
    assert "0 to 100" in page.evaluate("document.querySelector('textarea').labels[0].textContent")


def test_several_inputs_at_a_time(show, files, tmp_path):
    page = show("three")
    text = page.evaluate("document.querySelector('main').innerText")
    assert "takes 3 inputs at a time" in text and "as in Python: yes" in text
    values = np.random.default_rng(11).normal(size=(5, 2)).round(3).astype("float32")
    rows = ['note,"say ""z""","x,y"', *(f'"a\nb",{z},{x}' for x, z in values)]
    (tmp_path / "five.csv").write_text("\n".join(rows))
    page.choose_files("input[type=file]", tmp_path / "five.csv")
    page.wait("document.body.innerText.includes('taken for 25 samples a second, as the model takes them')")
    page.wait("keras_attention.panels.every(panel => !panel.running)")
    (expected,) = runtime.run_samples(files["three"].read_bytes(), {"i0": values[None]})
    shown = page.evaluate("[...document.querySelectorAll('.bar .number')].map(e => Number(e.textContent))")
    np.testing.assert_allclose(shown, expected[0], rtol=1e-3)
    labels = page.evaluate("[...document.querySelectorAll('label')].map(l => l.textContent).join()")
    assert 'with the columns "x,y", "say ""z"""' in labels


def test_named_values_are_no_classes(show):
    page = show("values")
    assert settled(page, ".answer") == "" and page.evaluate("document.querySelectorAll('.bar').length") == 0
    heads = page.evaluate("[...document.querySelectorAll('.bars th')].map(e => e.textContent)")
    assert heads == ["height", "value 1 (no name)"]


def test_one_label_has_a_counterpart(show):
    page = show("one_label")
    answers = {}
    for sample in range(8):
        page.evaluate(f"document.querySelectorAll('.samples button')[{sample}].click()")
        answers[settled(page, ".answer").split(" (")[0]] = page.evaluate(
            "Number(document.querySelectorAll('.bar .number')[1].textContent.slice(0, -2))"
        )
    assert set(answers) == {"cat", "not cat"}
    assert answers["cat"] >= 50 > answers["not cat"]


def test_one_unit_at_one_half_is_the_second_label(loaded):
    tensor = {"kind": "classes", "names": ["no", "yes"], "shape": [1, 1], "task": "regression", "name": "y"}
    shown = loaded.evaluate(
        "import('./js/outputs.js').then(({OutputView}) => { const view = new OutputView("
        f"{json.dumps(tensor)}, true); view.show([0.5]); return view.answer.textContent; }})"
    )
    assert shown == "yes (50.0 %)"


# --- recordings

HEAD = "time,ax,T"


def read(page, text, features=("ax", "T"), rate=25, told=None):
    """What the page makes of a CSV text: the recording at the model's rate, or what it says is wrong."""
    asked = [text, list(features), rate]
    return page.evaluate(
        "import('./js/csv.js').then(({readRecording, atRate}) => { try {"
        f" const found = atRate(readRecording(...{json.dumps(asked)}), {json.dumps(rate)}, "
        f"{json.dumps(told or rate)});"
        " return {...found, values: Array.from(found.values), notes: found.notes.join(' ')}; }"
        " catch (error) { return error.message; } })"
    )


def recording(times, head=HEAD):
    """A straight line in time, and a temperature that falls."""
    return "\n".join([head, *(f"{time},{number},{40 - number}" for number, time in enumerate(times))])


@pytest.mark.parametrize(
    ("head", "times", "rate", "step", "said"),
    [
        ("time,ax,T", [0.02 * n for n in range(9)], 25, 2, 'from column "time", in seconds: 50 samples'),
        ("Time,ax,T", [20 * n for n in range(9)], 25, 2, "in milliseconds: 50 samples"),
        ("t,ax,T", [7_000_000 + 20_000 * n for n in range(9)], 25, 2, "in microseconds: 50 samples"),
        ("timestamp,ax,T", [17 * 10**17 + 20_000_000 * n for n in range(9)], 25, 2, "in nanoseconds: 50"),
        ("time (ms),ax,T", [1000 * n for n in range(9)], 25, 1 / 25, "in milliseconds: 1 samples"),
        ("time,ax,T", [3600 * n for n in range(9)], 1 / 3600, 1, "in seconds: 2.78e-4 samples"),
        ("time,ax,T", [f"2026-05-01T10:00:{n / 50:09.6f}Z" for n in range(9)], 25, 2, "in dates: 50 samples"),
        ("when,ax,T", range(9), 25, 1, "no column of times: taken for 25 samples a second, as the model"),
    ],
)
def test_times_and_their_units(loaded, head, times, rate, step, said):
    found = read(loaded, recording(times, head), rate=rate)
    assert said in found["notes"]
    assert ("The model takes 25: brought to that" in found["notes"]) == (step != 1)
    values = np.reshape(found["values"], (-1, 2))
    expected = np.arange(int(8 / step) + 1) * step
    np.testing.assert_allclose(values, np.stack([expected, 40 - expected], 1), atol=1e-4)


def test_a_temperature_is_no_time(loaded):
    text = recording(range(9), "ax,temperature,T")
    found = read(loaded, text, ("ax", "temperature"))
    assert "no column of times" in found["notes"]
    assert "no column of times" in read(loaded, recording(range(9), "t,ax,T"), ("t", "ax", "T"))["notes"]


def test_told_rates_and_gaps(loaded):
    found = read(loaded, recording(range(9), "n,ax,T"), told=50)
    assert "taken for 50 samples a second, as told above. The model takes 25" in found["notes"]
    assert found["values"][::2] == [0, 2, 4, 6, 8]
    times = [0, 0.04, 0.08, 0.48, 0.52]
    found = read(loaded, recording(times))
    assert "There is a gap of 0.4 s behind line 4: nothing was measured there" in found["notes"]
    np.testing.assert_allclose(found["values"][::2], [0, 1, *np.linspace(2, 3, 11), 4], atol=1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            recording([0, 0.04, 0.02, 0.06]),
            'Line 4 of the recording: the time 0.02 in column "time" doesn\'t come',
        ),
        (recording([0, 0.04, 0.04]), "Line 4 of the recording: the time 0.04"),
        (recording([0, "noon", 2]), '"noon" in column "time" is no number, nor a date'),
        (recording(["2026-05-01T10:00:00Z", 4, 5]), '"4" in column "time" is no date and time like those'),
        ("ax,T\n1,2\n3,4,5\n6,7", "Line 3 of the recording has 3 fields, and the first line names 2"),
        ("ax,T\n1,2\n\n3\n6,7", "Line 4 of the recording has 1 fields"),
        ('ax,T\n1,2\n"3,4\n', "Line 3 of the recording: a quotation mark is never closed"),
        ('ax,T\n1,2\n"3"4,5\n', 'Line 3 of the recording: "4" follows a closed quotation mark'),
        ("ax,T\n1,2\n,5\n", 'Line 3 of the recording: "" in column "ax" is no number'),
        ('ax,T,n\n1,2,"a\n\nb"\n3,x,c\n', 'Line 5 of the recording: "x" in column "T"'),
        ("ax,T,ax\n1,2,3\n1,2,3\n", 'two columns "ax"'),
        ('ax,"a,T"\n1,2\n1,2\n', 'no column "T". Its columns: ax, "a,T".'),
        ("ax,T\n1,2\n", "needs a line of column names and two or more"),
    ],
)
def test_what_is_wrong_in_a_recording(loaded, text, said):
    found = read(loaded, text)
    assert isinstance(found, str) and said in found


def test_quoted_fields(loaded):
    text = '\ufeff"a;""x""" ; b;note\r\n"1,5";2;"first\r\nsecond; third"\r\n-3e1; .5 ;""\r\n\r\n'
    found = read(loaded, text, ('a;"x"', "b"))
    assert found["values"] == [1.5, 2, -30, 0.5] and found["length"] == 2
