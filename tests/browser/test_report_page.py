"""The report in a real browser, as wide as a phone: nothing loaded, nothing said, nothing cut off."""

import chromium
import pytest
import report_examples

pytestmark = pytest.mark.skipif(
    chromium.find() is None, reason="needs Chromium; none of its names is on the PATH"
)
# What reaches beyond the screen. The head of a wide table is hidden by clipping, and bars are inside SVG.
CUT_OFF = """
[...document.querySelectorAll("main *")]
    .filter(e => !e.closest("svg") && !e.closest("thead"))
    .filter(e => e.getBoundingClientRect().right > 390.5 || e.getBoundingClientRect().left < -0.5)
    .map(e => e.outerHTML.slice(0, 200))
"""
LONG = "encoder_with_a_long_name/" * 9
REPORTS = {
    "small": report_examples.small(),
    "full": report_examples.full(),
    "hostile": report_examples.hostile(),
    "long": report_examples.full(
        model_name=LONG,
        remarks=(LONG,),
        changes={LONG: LONG},
        manifest={LONG: {LONG: {LONG: [LONG, 1.5]}}},
        partition_map=tuple(
            {
                "index": index,
                "operator": "ADD" * (1 + index % 7),
                "dtype": "int8",
                "partition": index % 3 or None,
            }
            for index in range(997)
        ),
    ),
}


@pytest.fixture(scope="module", params=["light", "dark"])
def browser(request):
    with chromium.Browser(dark=request.param == "dark") as browser:
        yield browser


@pytest.mark.parametrize("name", REPORTS)
def test_on_a_phone(browser, name, tmp_path):
    path = REPORTS[name].write(tmp_path / "report.html")
    browser.open(path)
    assert browser.requests == [path.as_uri()]
    assert browser.complaints == []
    assert browser.evaluate("innerWidth") == 390
    assert browser.evaluate("document.querySelector('h1').textContent").strip()
    browser.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert browser.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert browser.evaluate(CUT_OFF) == []
    assert browser.evaluate("document.scripts.length + (window.hit || 0)") == 0
    # Text that is smaller than this is not readable on a phone.
    sizes = "[...document.querySelectorAll('main *')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    assert browser.evaluate(f"Math.min(...{sizes})") >= 12


def test_the_browser_notices_what_is_wrong(browser, tmp_path):
    """The checks above could fail: a page that loads, complains and is too wide."""
    path = tmp_path / "bad.html"
    path.write_text(
        '<!doctype html><meta name="viewport" content="width=device-width"><main>'
        '<p style="width: 500px">wide</p><img src="missing.png"><script>console.log("said")</script></main>'
    )
    browser.open(path)
    assert browser.requests == [path.as_uri(), (tmp_path / "missing.png").as_uri()]
    assert len(browser.complaints) >= 2
    assert browser.evaluate("document.scrollingElement.scrollWidth") >= 500
    assert len(browser.evaluate(CUT_OFF)) >= 1
    assert browser.evaluate("document.scripts.length") == 1
