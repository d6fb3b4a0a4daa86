"""The benchmark of long sequences: its small parts, and a short run."""

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import long_sequences
from benchmarks import long_sequences_child


def test_the_exponent_is_that_of_the_upper_half():
    lengths = (64, 128, 256, 512)
    assert long_sequences.exponent(lengths, [9.0, 8.0, 3 * 256**1.5, 3 * 512**1.5]) == pytest.approx(1.5)
    assert long_sequences.exponent(lengths[:3], [9.0, 2.0, 4.0]) == pytest.approx(1.0)


def test_what_a_length_would_need():
    assert long_sequences.would_need((256, 512, 2048), [1e6, 3e6], 2048) == 3e6 * 16
    assert long_sequences.would_need((256, 512), [], 512) == 0.0


def test_cells_of_lengths_that_were_not_run():
    assert long_sequences._cells([0.5, 0.25], 1e3, ".0f", (1, 2, 3)) == ["500", "250", "not run"]


def test_runs_take_turns():
    order = []
    runs = {name: lambda name=name: order.append(name) for name in "ab"}
    best = long_sequences._minima(runs, 2)
    assert order == ["a", "b"] * 3
    assert set(best) == {"a", "b"} and all(0 < value < 1 for value in best.values())


@pytest.mark.parametrize("name", [long_sequences.FULL, long_sequences.BLOCKS])
def test_models_are_seeded(name):
    first, second = (long_sequences.make_model(name, 8) for _ in range(2))
    x = long_sequences_child.sequence(8, long_sequences.CHANNELS)
    assert x.shape == (1, 8, long_sequences.CHANNELS)
    np.testing.assert_array_equal(first.predict_on_batch(x), second.predict_on_batch(x))


@pytest.mark.slow
def test_a_short_run(tmp_path):
    page = tmp_path / "page.md"
    arguments = ["--quick", "--layer", long_sequences.BLOCKS, "--out", str(page)]
    result = CliRunner().invoke(long_sequences.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    text = page.read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith(f"| {long_sequences.BLOCKS}")]
    assert len(rows) == 4, "time, memory, file and training"
    assert len(rows[0]) == 5 and "not run" not in text
    assert "Measured on" in text and "| exponent |" in text
