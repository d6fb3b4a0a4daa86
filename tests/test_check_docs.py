"""Each rule of `check` has a page, and each page a rule; the index lists them all."""

import re
from pathlib import Path

import pytest

from keras_attention.tflite.linting import registry

DOCS = Path(__file__).resolve().parent.parent / "docs"
HEADINGS = ["## Why it matters", "## Cure", "## Example"]

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages are not part of the installed package")


def test_codes_are_pages():
    assert {page.stem for page in (DOCS / "checks").iterdir()} == set(registry.TITLES)
    assert all(re.fullmatch(r"KA[1234]\d\d", code) for code in registry.TITLES)
    assert list(registry.TITLES) == sorted(registry.TITLES)


@pytest.mark.parametrize("code", registry.TITLES)
def test_page(code):
    text = (DOCS / "checks" / f"{code}.md").read_text()
    assert text.startswith(f"# {code}: {registry.TITLES[code]}\n\nSeverity: ")
    assert re.findall(r"^## .*$", text, re.MULTILINE) == HEADINGS
    why = text.split(HEADINGS[0])[1].split(HEADINGS[1])[0]
    assert len(why.strip()) > 80
    example = text.split(HEADINGS[2])[1]
    assert code in example or "tflite.check(" in example


def test_index():
    index = (DOCS / "checks.md").read_text()
    listed = dict(re.findall(r"^\| \[(KA\d+)\]\(checks/\1\.md\) \|[^|]+\| (.+) \|$", index, re.MULTILINE))
    assert listed == registry.TITLES
