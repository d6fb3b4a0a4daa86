"""One thing that `check` found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing that a rule of `check` found.

    Attributes:
        code: the rule, such as "KA103"; it never changes its meaning.
        severity: "error" (it will fail, or give wrong answers), "warning" (it may, or costs accuracy or
            speed) or "note" (worth knowing).
        where: the layer's path, or the operator or tensor of the file.
        message: what was found.
        cure: what helps.
    """

    code: str
    severity: Severity
    where: str
    message: str
    cure: str

    @property
    def page(self) -> str:
        """The page of the documentation that explains the rule."""
        return f"docs/checks/{self.code}.md"
