"""The report's page: all numbers on it, sound HTML, nothing loaded, no text run as markup; JSON and back."""

import dataclasses
import hashlib
import html.parser
import json
import math
import re

import pytest
import report_examples
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_attention.tflite import Report
from keras_attention.tflite import formatting
from keras_attention.tflite import html_report
from keras_attention.tflite import operator_segments

VOID = {"meta", "link", "rect"}
OWN_TAGS = {
    *(
        "html",
        "head",
        "meta",
        "link",
        "title",
        "style",
        "body",
        "main",
        "header",
        "section",
        "div",
        "span",
        "p",
    ),
    *(
        "h1",
        "h2",
        "h3",
        "strong",
        "b",
        "dl",
        "dt",
        "dd",
        "ul",
        "ol",
        "li",
        "details",
        "summary",
        "svg",
        "rect",
    ),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
}


class Page(html.parser.HTMLParser):
    """Text, tags and attributes; asserts that each tag is closed where it belongs."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag == "rect", "only SVG closes a tag in itself"
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    def text(self):
        return " ".join(" ".join(self.words).split())


def page(report):
    return Page(html_report.render(report.to_dict()))


REPORTS = {
    "small": report_examples.small(),
    "full": report_examples.full(),
    "hostile": report_examples.hostile(),
    "refused": report_examples.full(refusal="SQNR 3.0 dB is below min_sqnr_db=10"),
    "empty": report_examples.full(
        operators={}, inputs=(), outputs=(), tensor_dtypes={}, versions={}, samples=0
    ),
    "broken": report_examples.small(
        agreement=0.0, sqnr_db=-200.0, max_abs_error=math.inf, size_bytes=0, float32_size_bytes=0
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_sound_page_that_loads_nothing(name):
    found = page(REPORTS[name])
    assert set(found.tags) <= OWN_TAGS
    for tag, attribute, value in found.attributes:
        assert not attribute.startswith("on")
        assert attribute not in ("src", "srcset", "action", "data", "style")
        if attribute == "href":
            assert (tag, value) == ("link", "data:,")
    text = html_report.render(REPORTS[name].to_dict())
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    assert text.startswith("<!doctype html>") and found.tags.count("h1") == found.tags.count("title") == 1
    assert found.tags.count("table") == found.tags.count("caption")
    for tag in re.findall(r"<svg[^>]*>", text):
        assert re.search(r'role="img" aria-label="|aria-hidden="true"', tag), tag


def test_numbers_with_units():
    text = page(REPORTS["full"]).text()
    for words in (
        *("activity as int8 .tflite", "136.7 kB", "float32: 376.5 kB", "0.047 ms", "float32: 0.075 ms"),
        *("99.99%", "1,773 samples", "36.1 dB", "133.4 dB", "largest error 0.0713", "Keras: 0.8952"),
        *("Right, with 2 remarks", "Compared on random inputs only.", "leaves out: CUMSUM"),
        *("with 36% of the size and 64% of the time", "The smallest file that passes."),
        *("int8 chosen", "151.2 kB", "98.71%", "31.5 dB", "0.061 ms ( 0.068 ms )", "RSQRT has no int16 form"),
        *("accuracy 0.8917 (Keras 0.8952)", "3 , operators left outside"),
        *("encoder/block_1/dense", "17.3 dB", "int8, scale at run time", "Leave it in float32."),
        *("Sample 720, exercise: error not finite differs", "lift -0.5 -0.375", "turn 0.625 not finite"),
        *(
            "Piece 1: 2 operators, 0 to 1",
            "CONV_2D int8 \N{MULTIPLICATION SIGN} 2",
            "Outside : 1 operator, 2",
            "113 float32, 38 int8",
        ),
        *("percentile", "46.62", "memory written out in 7 steps", "rate_hz 50", "2.17.0", "keras 3.15.1"),
        *("cortex-a76 (emulated)", "passed yes", "largest difference 0.4375", "instructions 4661543"),
        "40 dB of one hundredth",
    ):
        assert words.replace(" (", "(").replace(" ", "") in text.replace(" ", ""), words


def test_terminal_shows_candidates_and_layers(capsys):
    rows = [{**report_examples.full().sensitivity[0], "layer": f"layer_{n}"} for n in range(13)]
    report_examples.full(sensitivity=tuple(rows), reason="because [bold]").print()
    printed = capsys.readouterr().out
    for words in ("Candidates", "* ", "because [bold]", "layer_9", "3 more in the report", "oldest runtime"):
        assert words in printed
    assert "layer_10" not in printed
    report_examples.small().print()
    assert "Candidates" not in capsys.readouterr().out


def test_terminal_of_80_columns(capsys, monkeypatch):
    """Candidates and layers keep their names and numbers whole; what is said of them stands below."""
    monkeypatch.setenv("COLUMNS", "80")
    long = "encoder/block_1/multi_head_attention/query_projection"
    advice = "Look for a channel that is far larger than the others."
    layers = [
        {**report_examples.full().sensitivity[0], "layer": layer, "advice": advice}
        for layer in (long, "head")
    ]
    remark = "agreement 0.9871 of output 'exercise' is below min_agreement=0.99"
    rows = (
        report_examples.candidate("float32", sqnr_db=133.44, latency_ms={"min": 12.3456, "median": 13.0}),
        report_examples.candidate("int8_full", remark=remark, delegate_partitions=11),
        report_examples.candidate("int8, 4 layers in float", remark="", chosen=True),
    )
    report_examples.full(candidates=rows, sensitivity=tuple(layers)).print()
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    cells = {cell.strip() for line in printed.splitlines() for cell in re.split("[│┃]", line)}
    assert {"float32", "int8_full", "151.2 kB", "12.346 ms", "133.4 dB", "98.71%", "11 +", "passes"} <= cells
    assert {"encoder/block_1/multi_head_", "attention/query_projection", "17.3 dB"} <= cells
    text = " ".join(printed.split())
    assert f"int8_full: {remark}" in text and text.count(advice) == 1 and f"{long}, head: {advice}" in text


def test_devices_are_added_to_the_report_of_their_file(tmp_path, capsys):
    content = b"a file of thirty-seven bytes, exactly"
    report = report_examples.small(size_bytes=37, sha256=hashlib.sha256(content).hexdigest())
    first = report.with_device("cortex-a53", {"passed": True, "steps": 1}, content)
    both = first.with_device("tflite-micro", {"passed": False, "arena, bytes": 9_973}, content)
    again = both.with_device("cortex-a53", {"steps": 2}, content)
    assert report.devices == {} and list(both.devices) == ["cortex-a53", "tflite-micro"]
    assert again.devices["cortex-a53"] == {"steps": 2} and again.devices["tflite-micro"]["passed"] is False
    assert Report.read(again.write(tmp_path / "report.json")) == again
    text = page(again).text()
    assert "tflite-micro does not answer as it must" in text and "cortex-a53 does not" not in text
    again.print()
    assert re.search(r"On tflite-micro *\n(.*\n)*.*arena, bytes.*9973", capsys.readouterr().out)
    for other in (content + b".", content[::-1]):
        with pytest.raises(
            ValueError, match=r"report is of another file: it tells of 37 bytes, sha256 \w{64}"
        ):
            report.with_device("cortex-a53", {}, other)
    unknown = dataclasses.replace(report, sha256="")
    assert unknown.with_device("cortex-a53", {}, content[::-1]).devices == {"cortex-a53": {}}


def test_a_report_from_before_devices_is_read(tmp_path):
    values = report_examples.full().to_dict()
    del values["devices"], values["sha256"]
    (tmp_path / "old.json").write_text(json.dumps(values))
    assert Report.read(tmp_path / "old.json").devices == {}


def test_verdicts():
    assert "Right The int8 file answers as Keras does in" in page(report_examples.small()).text()
    assert "Refused The int8 file is less exact than allowed" in page(REPORTS["refused"]).text()
    low = page(report_examples.small(agreement=0.9899)).text()
    assert "To be checked, with one remark" in low and "Only 98.99% of the answers are those of Keras." in low
    outside = page(report_examples.small(fully_delegated=False)).text()
    assert "Right, with one remark" in outside and "leaves out: some operators" in outside


def test_empty_fields_leave_no_heading():
    text = page(REPORTS["small"]).text()
    for heading in (
        "Candidates",
        "Which layers",
        "Samples with",
        "Why this",
        "Manifest",
        "Devices",
        "Lowering",
        "Remarks",
    ):
        assert heading not in text
    assert "Model as int8 .tflite" in text


def test_text_of_the_user_is_text():
    found = page(REPORTS["hostile"])
    assert found.text().count("<script>window.hit = 1</script>") >= 20
    assert found.text().count("{{ 7 * 7 }}") >= 20 and "49" not in found.text().replace("49.3", "")
    assert any("<script>" in (value or "") for _, name, value in found.attributes if name == "aria-label")


def bar_widths(report, title):
    text = html_report.render(report.to_dict())
    return [
        (label, float(width))
        for label, width in re.findall(
            rf'aria-label="{title}, ([^:]*): .*?".*?class="(?:file|reference)" width="([\d.]+)%"',
            text,
            re.DOTALL,
        )
    ]


def test_lengths_of_bars():
    assert bar_widths(report_examples.small(), "Size") == [("float32", 100.0), ("int8, this file", 36.30)]
    ratios = bar_widths(report_examples.small(), r"Signal to noise \(SQNR\)")
    assert ratios == [("float32", 100.0), ("int8, this file", 45.17)]
    shown = bar_widths(report_examples.full(), "Latency")
    assert shown == [("float32", 100.0), ("int8", 82.17), ("int8_full", 82.17)]
    own = report_examples.candidate("float32", size_bytes=302_468)
    candidates = (own, report_examples.candidate("int8"))
    widths = bar_widths(report_examples.small(candidates=candidates), "Size")
    assert widths == [("float32", 100.0), ("int8", 50.0)]


def test_bars_of_a_sample_start_at_zero():
    sample = {"output": "y", "keras": [-1.0, 3.0], "tflite": [0.0, 2.0], "first": 0}
    rows = html_report._sample(sample, None)["rows"]
    places = [(row[side]["start"], row[side]["width"]) for row in rows for side in ("keras", "tflite")]
    assert places == [("0.00", "25.00"), ("25.00", "0.00"), ("25.00", "75.00"), ("25.00", "50.00")]
    assert [row["label"] for row in rows] == ["[0]", "[1]"]


@pytest.mark.parametrize(
    ("first", "labels", "shown"),
    [
        (0, ["no", "yes"], ["no", "yes"]),
        (6, ["no", "yes"], ["no", "yes"]),
        (7, ["no", "yes"], ["[7]", "[8]"]),
        (0, ["no", "yes", "perhaps"], ["[0]", "[1]"]),
        (0, {"y": ["no", "yes"], "z": ["a", "b"]}, ["no", "yes"]),
        (0, {"z": ["a", "b"]}, ["[0]", "[1]"]),
        (0, "no", ["[0]", "[1]"]),
    ],
)
def test_labels_of_a_sample(first, labels, shown):
    sample = {"output": "y", "keras": [1.0, 3.0], "tflite": [0.0, 2.0], "first": first}
    assert [row["label"] for row in html_report._sample(sample, labels)["rows"]] == shown


def test_long_lists_are_cut():
    rows = tuple(
        {"index": index, "operator": f"OP_{index}", "dtype": "int8", "partition": 0 if index < 503 else None}
        for index in range(1009)
    )
    found = operator_segments.segments(rows)
    assert [(s["partition"], s["first"], s["last"], s["count"]) for s in found["shown"]] == [
        (0, 0, 502, 503),
        (None, 503, 1008, 506),
    ]
    assert [s["hidden_runs"] for s in found["shown"]] == [303, 306] and found["hidden"] == 0
    assert (found["shown"][1]["start"], found["shown"][1]["width"]) == ("49.851", "50.149")
    alternating = tuple({**row, "partition": row["index"] % 2} for row in rows)
    assert (operator_segments.segments(alternating)["hidden"], found["operators"]) == (809, 1009)
    manifest = {"golden": [{"window": list(range(997))}] * 11, "text": "word " * 997}
    text = page(report_examples.full(partition_map=rows, manifest=manifest)).text()
    assert "303 more in report.json" in text and "997 in all" in text and "11 in all" in text
    assert len(text) < 40_000


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100%"),
        (0.99999, "99.99%"),
        (0.29, "29%"),
        (0.0, "0%"),
        (None, "\N{EN DASH}"),
        (math.nan, "\N{EN DASH}"),
    ],
)
def test_percent_is_cut(share, text):
    assert formatting.percent(share) == text


@pytest.mark.parametrize("name", REPORTS)
def test_page_from_json_is_the_page(name, tmp_path):
    report = REPORTS[name]
    direct = report.write(tmp_path / "direct.HTML").read_text()
    read = Report.read(report.write(tmp_path / "report.json"))
    assert read.write(tmp_path / "later.html").read_text() == direct
    assert json.dumps(read.to_dict()) == json.dumps(report.to_dict())


@pytest.mark.parametrize("name", ["report", "report.txt", "report.json.gz", ".html"])
def test_other_endings(name, tmp_path):
    with pytest.raises(
        ValueError, match=r"must be a \.json or \.html file\. Received: '.*" + re.escape(name)
    ):
        report_examples.small().write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": 1}, "field 'surprise' is unknown"),
        ({"size_bytes": None}, "size_bytes must be int. Received: None"),
        ({"size_bytes": True}, "size_bytes must be int. Received: True"),
        ({"agreement": "most"}, "agreement must be float. Received: 'most'"),
        ({"agreement": 10**400}, "agreement must be float"),
        ({"remarks": "none"}, "remarks must be tuple[str, ...]. Received: 'none'"),
        ({"operators": {"ADD": "many"}}, "operators must be dict[str, int]"),
        ({"latency_ms": {"min": 1.0}}, "latency_ms lacks 'median'"),
        ({"metric": {"name": "accuracy", "keras": 1}}, "metric lacks 'tflite'"),
        ({"candidates": [{"precision": "int8"}]}, "candidates[0] lacks 'size_bytes'"),
        ({"devices": {"tflite-micro": 3}}, "devices must be dict[str, dict[str, "),
        ({"devices": {"tflite-micro": {"arena": [1]}}}, "devices must be dict[str, dict[str, "),
        ({"candidates": [3]}, "candidates must be tuple"),
        (
            {"candidates": [report_examples.candidate("int8", latency_ms={"min": 1})]},
            "candidates[0].latency_ms lacks 'median'",
        ),
        (
            {"worst_samples": [{**report_examples.full().worst_samples[0], "keras": ["x"]}]},
            "worst_samples[0].keras must be list[float]. Received: ['x']",
        ),
    ],
)
def test_damaged_fields(change, message, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**report_examples.full().to_dict(), **change}))
    with pytest.raises(ValueError, match="is no report of a conversion: " + re.escape(message)) as caught:
        Report.read(path)
    assert repr(str(path)) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"\xff\xfe\x00", "codec can't decode"),
        (b"[]", "must hold an object"),
        (b"{}", "field 'precision' is missing"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_what_is_no_report(content, message, tmp_path):
    path = tmp_path / "notes.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"notes\.json' is no report of a conversion: .*{message}"):
        Report.read(path)
    with pytest.raises(FileNotFoundError, match=r"must be a report in JSON\. No such file: '.*gone\.json"):
        Report.read(tmp_path / "gone.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=7,
)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_report_is_refused_or_shown(tmp_path_factory, data):
    """Wherever a value is replaced: an error that says so, or a sound page."""
    values = json.loads(json.dumps(report_examples.full().to_dict()))
    place = values
    while True:
        keys = list(range(len(place))) if isinstance(place, list) else list(place)
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not (isinstance(inner, list | dict) and inner and data.draw(st.booleans())):
            break
        place = inner
    place[key] = data.draw(JSON)
    path = tmp_path_factory.mktemp("damaged") / "report.json"
    path.write_text(json.dumps(values))
    try:
        report = Report.read(path)
    except ValueError as error:
        assert "is no report of a conversion" in str(error)
    else:
        assert set(page(report).tags) <= OWN_TAGS
