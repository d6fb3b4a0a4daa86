"""The verdicts on many cases, some at the same time, each in processes that survive one another."""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from benchmarks.bug_reports.case import Case
from benchmarks.bug_reports.isolation import Isolated
from benchmarks.bug_reports.judging import Verdict
from benchmarks.bug_reports.judging import judge


def judge_all(cases: Sequence[Case], precisions: Sequence[str], jobs: int, console: Console) -> list[Verdict]:
    """Return the verdicts in the order of cases and precisions, and print each as it comes.

    The precisions of a case follow one another in one process, which builds the model once.
    """
    total = sum(precision in case.expect for case in cases for precision in precisions)
    count = itertools.count(1)
    local = threading.local()
    workers: list[Isolated] = []
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(jobs) as pool:

        def start() -> None:
            local.pair = Isolated(root), Isolated(root)
            workers.extend(local.pair)

        def judge_case(case: Case) -> list[Verdict]:
            if not hasattr(local, "pair"):
                start()
            verdicts = []
            for precision in precisions:
                if precision in case.expect:
                    verdicts.append(_timed(case, precision, root, *local.pair))
                    console.print(f"{next(count)}/{total} {_line(verdicts[-1])}", highlight=False)
            return verdicts

        try:
            return [verdict for verdicts in pool.map(judge_case, cases) for verdict in verdicts]
        finally:
            for worker in workers:
                worker.close()


def _timed(case: Case, precision: str, root: str, converter: Isolated, runner: Isolated) -> Verdict:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=root) as folder:
        verdict = judge(case, precision, Path(folder), converter, runner)
    return dataclasses.replace(verdict, seconds=round(time.perf_counter() - start, 1))


def _line(verdict: Verdict) -> str:
    colour = {"ok": "green", "refused": "cyan", "fault": "red"}[verdict.outcome]
    ratio = f" {verdict.scores['min_sqnr_db']:.1f} dB" if verdict.scores else ""
    detail = escape(f": {verdict.detail}") if verdict.detail else ""
    return (
        f"{verdict.case} {verdict.precision} [{colour}]{verdict.outcome}[/{colour}]{ratio}"
        f" ({verdict.seconds:.0f} s){detail}"
    )
