"""All cases, by family."""

from __future__ import annotations

from benchmarks.bug_reports import attention
from benchmarks.bug_reports import bad_data
from benchmarks.bug_reports import image
from benchmarks.bug_reports import operators
from benchmarks.bug_reports import origins
from benchmarks.bug_reports import recurrent
from benchmarks.bug_reports.case import Case

FAMILIES: dict[str, list[Case]] = {
    "recurrent": recurrent.CASES,
    "attention": attention.CASES,
    "image": image.CASES,
    "operators": operators.CASES,
    "bad_data": bad_data.CASES,
    "origins": origins.CASES,
}
CASES: dict[str, Case] = {case.name: case for family in FAMILIES.values() for case in family}
