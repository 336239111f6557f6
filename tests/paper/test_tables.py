import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hand_made import make_run

from lfiw.errors import InputError
from lfiw.paper.cells import Study
from lfiw.paper.tables import analyse_ablation, analyse_side_notes, analyse_table1
from lfiw.training.folder import Training

ENV_STEPS = 1000


def finished(folder: Path, returns: dict[int, list[float]], **settings: Any) -> Training:
    """A run whose seeds were evaluated at each tenth of training; its accuracy rises by 0.05 a
    tenth from 0.5, its effective sample size falls by as much from 1."""
    agent, replay = folder.name.split("-")[:2]
    seeds = list(returns)
    run = make_run(
        folder, folder.parent.name, agent, replay, seeds=seeds, env_steps=ENV_STEPS, **settings
    )
    rows = []
    for index in range(10):
        common = {"env_steps": 100 * (index + 1)}
        weights = {
            "balanced_accuracy": 0.5 + 0.05 * index,
            "effective_sample_size": 1 - 0.05 * index,
        }
        for seed in seeds:
            own = {"seed": seed, **common}
            rows.append({"kind": "train", **own} | (weights if replay == "lfiw" else {}))
            rows.append({"kind": "eval", **own, "return_mean": returns[seed][index]})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def study(name: str, out: Path, *runs: Training) -> Study:
    return Study(name, "smoke", out, runs)


def read(files: list[Path], suffix: str) -> str:
    (path,) = [path for path in files if path.suffix == suffix]
    return path.read_text()


def test_table1_stands_beside_the_papers(tmp_path: Path) -> None:
    """Seed 0 climbs from 0 to 900, seed 1 stays at 300: best 900 and 300, last 900 and 300, area
    450 and 300."""
    climbing = {0: [100.0 * k for k in range(10)], 1: [300.0] * 10}
    lfiw = finished(tmp_path / "Ant-v5" / "sac-lfiw-published", climbing)
    power = finished(tmp_path / "Ant-v5" / "sac-lfiw-power", {0: [7.0] * 10})
    files = analyse_table1(study("table1", tmp_path, lfiw, power))
    assert all(path.is_file() for path in files)
    first, second = json.loads(read(files, ".json"))["rows"]
    assert first["max"] == {"mean": 600, "std": pytest.approx(300 * 2**0.5)}
    assert first["final"] == {"mean": 600, "std": pytest.approx(300 * 2**0.5)}
    assert first["area"] == {"mean": 375, "std": pytest.approx(75 * 2**0.5)}
    assert first["paper_max"] == {"mean": 3857, "std": 221}
    assert (second["method"], second["paper_max"]) == ("sac-lfiw-power", None)
    rows = list(csv.DictReader(read(files, ".csv").splitlines()))
    assert (rows[0]["max_mean"], rows[0]["paper_max_mean"]) == ("600.0", "3857.0")
    assert (rows[1]["max_mean"], rows[1]["paper_max_mean"]) == ("7.0", "")
    page = read(files, ".md")
    missing = "not run | not run | not run"
    assert f"| sac-lfiw-published | {missing} | 600 ± 424 (at 1,000 steps) | not run |" in page


def test_ablation_goes_by_the_value_of_its_setting(tmp_path: Path) -> None:
    runs = [
        finished(
            tmp_path / "Walker2d-v5" / f"sac-lfiw-{label}",
            {0: [value] * 10},
            **{"replay.hidden_sizes": (units, units)},
        )
        for label, units, value in (("b", 512, 5.0), ("a", 128, 3.0))
    ]
    files = analyse_ablation(study("ablation-hidden", tmp_path, *runs), "replay.hidden_sizes")
    rows = json.loads(read(files, ".json"))["rows"]
    assert [(row["hidden_sizes"], row["final"]["mean"]) for row in rows] == [(128, 3), (512, 5)]
    assert "| 128 | Walker2d-v5 | hidden_sizes = 128 | 1000 | 1 | 3 |" in read(files, ".md")
    assert (tmp_path / "ablation-hidden.png").is_file()


def test_ablation_of_a_setting_that_is_not_there(tmp_path: Path) -> None:
    uniform = finished(tmp_path / "Walker2d-v5" / "sac-uniform", {0: [1.0] * 10})
    with pytest.raises(InputError, match=r"no setting replay\.temperature"):
        analyse_ablation(study("ablation-temperature", tmp_path, uniform), "replay.temperature")


def test_side_notes_set_the_weights_beside_the_gain(tmp_path: Path) -> None:
    """LFIW is ahead by 100 in the first half of training and level in the second."""
    uniform = finished(tmp_path / "Hopper-v5" / "sac-uniform", {0: [200.0] * 10})
    ahead = {0: [300.0] * 5 + [200.0] * 5}
    lfiw = finished(tmp_path / "Hopper-v5" / "sac-lfiw-published", ahead)
    both = finished(tmp_path / "Hopper-v5" / "sac-lfiw-policy", {0: [50.0] * 10})
    files = analyse_side_notes(study("side-notes", tmp_path, uniform, lfiw, both))
    content = json.loads(read(files, ".json"))
    assert [row["method"] for row in content["rows"]] == [
        "sac-uniform",
        "sac-lfiw-published",
        "sac-lfiw-policy",
    ]
    (shown,) = content["over_training"]
    assert shown["env_steps"] == list(range(100, 1001, 100))
    assert shown["gain"] == [100] * 5 + [0] * 5
    assert shown["balanced_accuracy"] == pytest.approx([0.5 + 0.05 * k for k in range(10)])
    assert shown["effective_sample_size"] == pytest.approx([1 - 0.05 * k for k in range(10)])
    assert (tmp_path / "side-notes-over-training.png").is_file()
