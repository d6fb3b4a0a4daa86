"""A conversion killed at any moment leaves the old file or the new one, no process and no stray file."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_killed_at_several_moments():
    command = [sys.executable, "-m", "benchmarks.killing", "--times", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert "8 conversions" in done.stdout and "0 faults" in done.stdout
