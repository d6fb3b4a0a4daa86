"""The templates, filled."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from keras_attention.tflite.apps.android import literals
from keras_attention.tflite.apps.android.views import Language

_TEMPLATES = Path(__file__).parent / "templates"


def environment(language: Language) -> jinja2.Environment:
    """Return the templates of a language, and those of both."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader([_TEMPLATES / language, _TEMPLATES / "shared"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - sources, not HTML: every name goes through `text` or `comment`
    )
    found.filters["text"] = partial(literals.text, language=language)
    found.filters["comment"] = literals.comment
    found.filters["number"] = literals.number
    return found


def render(templates: jinja2.Environment, template: str, /, **values: Any) -> str:
    """Return a filled template."""
    return templates.get_template(f"{template}.j2").render(**values)
