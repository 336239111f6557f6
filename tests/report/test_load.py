"""The work of a report grows with what it reads: counted, as times depend on the machine."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_runs import write_run

import lfiw.results.statistics
from lfiw.report import write_report
from lfiw.report.summary import summarise
from lfiw.results.methods import read_methods
from lfiw.runs import read, rows

SEEDS, EVALUATIONS = 3, 30


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for task in ("A-v0", "B-v0"):
        for name in ("sac-uniform", "sac-lfiw", "td3-uniform", "td3-lfiw"):
            returns = rng.normal(size=(SEEDS, EVALUATIONS)).cumsum(axis=1) + np.arange(EVALUATIONS)
            values = {seed: own.tolist() for seed, own in enumerate(returns)}
            write_run(tmp_path / "runs" / task, name, values, task, ess=[0.5] * EVALUATIONS)
    return tmp_path / "runs"


def test_a_log_is_read_once(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = Counter[str]()

    def counting(line: bytes) -> Any:
        parsed["rows"] += 1
        return rows.parse_row(line)

    monkeypatch.setattr(read, "parse_row", counting)
    assert len(read_methods([runs])) == 8
    assert parsed["rows"] == 8 * SEEDS * EVALUATIONS * 2  # training and evaluation


def test_no_bootstrap_copies_curves(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn are numbers of runs or their scores, a block at a time: [block, runs]."""
    largest = Counter[str]()
    real = lfiw.results.statistics.bootstrap

    def watching(statistic: Any, *samples: Any, **options: Any) -> Any:
        def watched(*drawn: Any) -> Any:
            largest["block"] = max(largest["block"], *(t.size for s in drawn for t in s))
            return statistic(*drawn)

        return real(watched, *samples, **options)

    monkeypatch.setattr("lfiw.report.comparison.bootstrap", watching)
    summary = summarise(read_methods([runs]))
    assert all(outcome.efficiency for (_, name), outcome in summary.outcomes.items() if "l" in name)
    assert 0 < largest["block"] <= lfiw.results.statistics.BLOCK * SEEDS


def test_a_figure_is_laid_out_once_for_all_formats(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    laid_out = Counter[int]()
    execute = ConstrainedLayoutEngine.execute

    def counting(self: Any, figure: Any) -> Any:
        laid_out[id(figure)] += 1
        return execute(self, figure)

    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", counting)
    written = write_report([runs], tmp_path / "report")
    figures = [path for path in written if path.suffix == ".pdf"]
    assert len(figures) == 5
    assert sum(laid_out.values()) == len(figures)
