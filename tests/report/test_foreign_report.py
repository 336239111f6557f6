"""Reports on logs of other libraries."""

import csv
from pathlib import Path

import pytest
from foreign_logs import write_evaluations, write_events, write_monitor
from report_runs import write_run

from lfiw.cli import main
from lfiw.report import write_report
from lfiw.report.comparison import choose_baseline
from lfiw.report.summary import summarise
from lfiw.results.methods import read_methods


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """On one of the paper's tasks; sac ends at 4 and 6, td3 at 5 and 3, one of them longer."""
    folder = tmp_path / "logs" / "Hopper-v5"
    for name, seed, returns in (
        ("sac", 0, [0, 4, 4]),
        ("sac", 1, [0, 2, 6]),
        ("td3", 0, [0, 9, 5]),
        ("td3", 1, [0, 3, 3, 99]),
    ):
        steps = [10 * (1 + index) for index in range(len(returns))]
        write_evaluations(folder / f"{name}_{seed}", steps, [[float(one)] for one in returns])
    return folder


def cells(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "cells.csv").open(encoding="utf-8", newline="") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def test_numbers_by_hand(logs: Path, tmp_path: Path) -> None:
    """Compared with the first, sac: of four pairs of final returns only 5 against 4 is better."""
    out = tmp_path / "report"
    write_report([logs], out)
    found = cells(out)
    assert list(found) == ["sac", "td3"]
    assert float(found["td3"]["improvement"]) == 0.25
    assert 0 <= float(found["td3"]["improvement_low"]) < 0.25
    assert 0.25 < float(found["td3"]["improvement_high"]) <= 1
    assert found["sac"]["improvement"] == ""
    assert float(found["td3"]["final_mean"]) == 4 and float(found["sac"]["final_mean"]) == 5
    assert {row["status"] for row in found.values()} == {"run"}
    # On the scale where sac starts at 0 and ends at 5, td3's 5 and 3 are 1 and 0.6.
    with (out / "aggregates.csv").open(encoding="utf-8", newline="") as file:
        scores = {row["method"]: float(row["score_iqm"]) for row in csv.DictReader(file)}
    assert scores == {"sac": 1, "td3": pytest.approx(0.8)}


def test_what_is_not_known_is_absent(logs: Path, tmp_path: Path) -> None:
    """Neither LFIW nor the paper, whose task it is, nor a configuration has a place."""
    out = tmp_path / "report"
    written = {path.name for path in write_report([logs], out)}
    assert written == {
        *("index.html", "tables.md", "cells.csv", "aggregates.csv"),
        *("curves.png", "curves.pdf", "profiles.png", "profiles.pdf"),
    }
    tables = (out / "tables.md").read_text(encoding="utf-8")
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "P(better than sac)" in tables and "probability of ending above sac" in tables
    for text in (tables, page.partition("<body>")[2].partition('<script type="app')[0]):
        for words in ("LFIW", "uniform", "paper", "not run", "not recorded"):
            assert words not in text, words
    assert "Learning curves on Hopper-v5" in page and "sac_1" in page


def test_baseline_that_is_named(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    with pytest.raises(SystemExit, match="0"):
        main(["report", str(logs), "--baseline", "td3", "--out", str(out)])
    found = cells(out)
    assert float(found["sac"]["improvement"]) == 0.75 and found["td3"]["improvement"] == ""
    assert "P(better than td3)" in (out / "tables.md").read_text(encoding="utf-8")


def test_order_and_baseline_are_those_of_the_command(logs: Path) -> None:
    named = [f"new={logs}/td3_0,{logs}/td3_1", f"old={logs}/sac_*"]
    methods = read_methods(named)
    assert [method.name for method in methods] == ["new", "old"]
    assert choose_baseline(methods) == "new"
    assert summarise(methods).outcomes["Hopper-v5", "old"].improvement is not None


def test_uniform_is_the_baseline_where_there_is_one(tmp_path: Path) -> None:
    rows = [
        f"{agent},{name},{seed},{step},{step * factor + seed}"
        for agent in ("sac", "td3")
        for name, factor in (("new", 2), ("uniform", 1))
        for seed in (0, 1)
        for step in (10, 20)
    ]
    path = tmp_path / "A-v0.csv"
    path.write_text("agent,method,seed,env_steps,return\n" + "\n".join(rows), encoding="utf-8")
    summary = summarise(read_methods([path]))
    assert summary.baseline == ""
    for agent in ("sac", "td3"):
        better = summary.outcomes["A-v0", f"{agent}-new"].improvement
        assert better is not None and float(better.value) == 1
        assert summary.outcomes["A-v0", f"{agent}-uniform"].improvement is None
    assert [one.entry.name for one in summary.pooled] == ["uniform", "new"]


def test_our_runs_beside_other_logs(tmp_path: Path) -> None:
    """Every final return of the other library's is above ours."""
    write_run(tmp_path / "runs", "sac-uniform", {0: [1, 2], 1: [1, 3]}, env="A-v0", ess=[1, 1])
    write_run(tmp_path / "runs", "sac-lfiw", {0: [1, 4], 1: [1, 5]}, env="A-v0", ess=[1, 1])
    write_events(tmp_path / "A-v0__sac__1__17", charts__episodic_return=[(10, 7.0), (25, 9.0)])
    sources = [tmp_path / "runs", tmp_path / "A-v0__sac__1__17"]
    methods = read_methods(sources)
    assert choose_baseline(methods) == ""
    outcomes = summarise(methods).outcomes
    better = outcomes["A-v0", "sac-lfiw"].improvement
    assert better is not None and float(better.value) == 1
    assert outcomes["A-v0", "sac"].improvement is None
    named = summarise(methods, "sac-uniform").outcomes["A-v0", "sac"].improvement
    assert named is not None and float(named.value) == 1
    assert write_report(sources, tmp_path / "report", baseline="sac-uniform")


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / "<script>alert(1)<" / "script>$x^$"
    write_monitor(folder / "a.monitor.csv", [(1, 10, 1), (2, 10, 2)], "<b>{{css}}\u2028$")
    write_monitor(folder / "=b.monitor.csv", [(1, 10, 1), (2, 10, 2)], "<b>{{css}}\u2028$")
    out = tmp_path / "report"
    write_report([tmp_path], out)
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "<b>{{css}}" not in page
    assert "'=b" in cells(out)


def test_a_report_is_no_log(logs: Path) -> None:
    before = read_methods([logs])
    write_report([logs], logs / "report")
    assert [method.name for method in read_methods([logs])] == [one.name for one in before]
