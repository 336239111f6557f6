import io
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from lfiw.cli.train import show_outcome
from lfiw.errors import InputError, RunError
from lfiw.results.curves import Curves, collapses, collapses_text, comparison_table, read_curves
from lfiw.results.methods import read_methods
from lfiw.runs.layout import find_folders


def curves(steps: list[int], returns: list[list[float]], env: str = "Ant-v5") -> Curves:
    return Curves(
        env, "sac", "sac-lfiw", tuple(range(len(returns))), np.array(steps), np.array(returns)
    )


def write_run(folder: Path, evaluations: list[tuple[int, int, float | None]]) -> Path:
    """A method folder with evaluations (seed, env_steps, return)."""
    folder.mkdir(parents=True, exist_ok=True)
    seeds = sorted({seed for seed, _, _ in evaluations})
    config = {"config": {"env": {"id": "Ant-v5"}, "agent": {"name": "sac"}, "seeds": seeds}}
    (folder / "config.json").write_text(json.dumps(config))
    rows: list[dict[str, Any]] = [{"kind": "train", "seed": 0, "env_steps": 5}]
    rows += [
        {"kind": "eval", "seed": seed, "env_steps": env_steps, "return_mean": value}
        for seed, env_steps, value in evaluations
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_maximum_final_and_area_by_hand() -> None:
    """Trapezia: (0+4)/2 * 10 + (4+2)/2 * 30 = 110 over 40 steps."""
    seen = curves([10, 20, 50], [[0, 4, 2], [1, 1, 1]])
    assert seen.maximum().tolist() == [4, 1]
    assert seen.final().tolist() == [2, 1]
    assert seen.area().tolist() == [2.75, 1]


def test_final_is_a_tenth_of_a_short_curve_and_ten_of_a_long_one() -> None:
    """The last n of the returns 0, 1, ..., E - 1 have the mean E - (n + 1) / 2."""
    for count, last in ((1, 1), (9, 1), (20, 2), (39, 3), (100, 10), (1000, 10)):
        seen = curves(list(range(count)), [list(map(float, range(count)))])
        assert seen.final().tolist() == [count - (last + 1) / 2]


THOUSANDS = [20_000, 40_000, 60_000, 80_000, 100_000]


def test_collapses_by_hand() -> None:
    """Means of three are 4, 3, 1 (below half of 4); 4, 3, 2 (half of it); 0, 0, -3."""
    runs = [[4, 4, 4, 1, -2], [4, 4, 4, 1, 1], [0, 0, 0, 0, -9]]
    np.testing.assert_array_equal(curves(THOUSANDS, runs).collapsed(), [1, 0, np.nan])
    assert collapses_text([curves(THOUSANDS, runs), curves(THOUSANDS, runs[1:])]) == "1 of 5"


def test_a_single_bad_evaluation_is_no_collapse() -> None:
    steps = [10_000 * (1 + index) for index in range(12)]
    returns = [5.0] * 11 + [0.0]
    assert curves(steps, [returns]).collapsed().tolist() == [0]  # 10 / 3 > 5 / 2


@pytest.mark.parametrize("every", [5_000, 10_000, 20_000])
def test_how_often_a_run_is_evaluated_does_not_change_what_a_collapse_is(every: int) -> None:
    """Every 20,000 steps 6, 6, 6, 0, 0: the last mean is 2, below half of 6. What lies between, 9,
    would hide it."""
    steps = range(every, 100_001, every)
    returns = [(6.0 if at <= 60_000 else 0.0) if at % 20_000 == 0 else 9.0 for at in steps]
    assert curves(list(steps), [returns]).collapsed().tolist() == [1]


@pytest.mark.parametrize("every", [10, 100_000])
def test_of_short_and_of_coarse_curves_no_collapse_can_be_told(every: int) -> None:
    curve = curves([every * index for index in range(1, 6)], [[9, 9, 9, 0, 0]])
    assert np.isnan(curve.collapsed()).all()
    assert (collapses([curve]), collapses_text([curve])) == (None, "–")


def test_seeds_of_different_grids_meet_at_the_evaluations_of_all(tmp_path: Path) -> None:
    every = [(seed, steps, float(steps)) for seed in (0, 1) for steps in range(10, 101, 10)]
    second = [(2, steps, 2.0 * steps) for steps in range(20, 101, 20)]
    seen = read_curves(write_run(tmp_path / "run", [*every, *second]))
    assert seen.env_steps.tolist() == [20, 40, 60, 80, 100]
    assert seen.returns[2].tolist() == [40, 80, 120, 160, 200]


def test_smoothed_by_hand() -> None:
    curve = curves([1, 2, 3, 4], [[0, 3, 9, 0], [4, 4, 4, 4]])
    np.testing.assert_allclose(curve.smoothed(3).returns, [[1.5, 4, 4, 4.5], [4, 4, 4, 4]])
    np.testing.assert_array_equal(curve.smoothed(1).returns, curve.returns)
    np.testing.assert_allclose(curve.smoothed(99).returns, [[3] * 4, [4] * 4])


def test_single_evaluation() -> None:
    seen = curves([100], [[3.0], [5.0]])
    assert (seen.maximum().tolist(), seen.final().tolist()) == ([3, 5], [3, 5])
    assert seen.area().tolist() == [3, 5]


def test_curves_are_read_in_order_of_steps(tmp_path: Path) -> None:
    run = write_run(tmp_path / "td3-per-x", [(7, 20, 4.0), (7, 10, 1.0), (2, 10, 2.0), (2, 20, 3)])
    seen = read_curves(run)
    assert (seen.env, seen.method, seen.seeds) == ("Ant-v5", "td3-per-x", (2, 7))
    assert seen.env_steps.tolist() == [10, 20]
    assert seen.returns.tolist() == [[2, 3], [1, 4]]


def test_only_evaluations_of_all_seeds_count(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(0, 10, 1.0), (1, 10, 2.0), (0, 20, 9.0)])
    assert read_curves(run).returns.tolist() == [[1], [2]]


def test_log_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(0, 10, 1.0), (0, 20, 2.0)])
    path = run / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert read_curves(run).env_steps.tolist() == [10]


def test_return_that_was_not_finite_is_not_a_number(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(0, 10, None), (0, 20, 2.0)])
    np.testing.assert_array_equal(read_curves(run).returns, [[np.nan, 2]])


def test_run_without_evaluations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no evaluation yet"):
        read_curves(write_run(tmp_path / "run", []))
    with pytest.raises(InputError, match="no evaluation of all its seeds"):
        read_curves(write_run(tmp_path / "run", [(0, 10, 1.0), (1, 20, 1.0)]))


def text_of(table: Any) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_table_shows_mean_and_spread() -> None:
    """Final returns 1000 and 3000: mean 2000, standard deviation of the sample 1000 sqrt(2)."""
    text = text_of(comparison_table([curves([10, 20], [[0, 1000], [0, 3000]])]))
    (line,) = [line for line in text.splitlines() if "sac-lfiw" in line]
    cells = re.split(r"\s{2,}", line.strip())
    measures = ["2,000 ± 1,414", "2,000 ± 1,414", "1,000 ± 707"]
    assert cells == ["sac-lfiw", "2", "20", *measures, "–"]
    assert "Ant-v5" in text


def test_table_tells_environments_apart() -> None:
    text = text_of(comparison_table([curves([1], [[1.0]]), curves([1], [[1.0]], "Hopper-v5")]))
    assert "Ant-v5 sac-lfiw" in text
    assert "Hopper-v5 sac-lfiw" in text


def test_a_folder_is_found_once_and_named_from_within(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "Ant-v5" / "sac-lfiw", [(0, 10, 1.0), (0, 20, 2.0)])
    assert find_folders([tmp_path, run, tmp_path / "Ant-v5"]) == [run]
    monkeypatch.chdir(run)
    assert read_curves(Path()).method == "sac-lfiw"
    assert [method.name for method in read_methods(["."])] == ["sac-lfiw"]


def test_methods_without_an_evaluation_say_why_and_the_others_are_shown(tmp_path: Path) -> None:
    """All evaluations of one method failed."""
    good = write_run(tmp_path / "sac-uniform", [(0, 10, 1.0), (0, 20, 2.0)])
    bad = write_run(tmp_path / "sac-per", [])
    failed = {"kind": "failed eval", "seed": 0, "env_steps": 10, "faults": ["It broke twice."]}
    silent = {"kind": "failed eval", "seed": 0, "env_steps": 20}
    lines = [json.dumps(row) + "\n" for row in (failed, silent)]
    (bad / "metrics.jsonl").write_text("".join(lines))
    console = Console(file=io.StringIO(), width=200)
    runs: Any = [SimpleNamespace(folder=folder) for folder in (good, bad)]
    with pytest.raises(RunError, match=r"sac-per has no evaluation yet\. It broke twice\."):
        show_outcome(runs, console)
    assert "sac-uniform" in console.file.getvalue()  # type: ignore[attr-defined]
