import json
import time
from pathlib import Path
from typing import Any

import pytest
from small import as_options, small

from lfiw.bench.train import MethodTimes, command_started, covered, joined, row_of
from lfiw.cli import main
from lfiw.learning.team import Team
from lfiw.training.member import Member
from lfiw.training.trainer import Trainer

ENV = "environments:make_point"
KEYS = [
    *("agent", "replay", "seeds", "env_steps", "wall_seconds", "env_steps_per_s"),
    *("first_env_step_s", "first_update_s"),
    *("device_busy", "workers_busy", "device_busy_while_learning"),
]


def test_covered_time_counts_overlaps_once() -> None:
    intervals = [(4.0, 6.0), (0.0, 2.0), (1.0, 3.0), (5.0, 5.5), (9.0, 12.0), (20.0, 21.0)]
    assert covered(intervals, until=10.0) == 3 + 2 + 1
    assert covered([], until=10.0) == 0


def test_row_by_hand() -> None:
    """The command starts at 100; this method collects from 102, learns from 104 to 109 with a
    pause, and ends at 110; another one keeps the device busy before and after."""
    learning = [(104, 105), (108, 109)]
    times = MethodTimes([(102, 104), (106, 107)], learning, first_update=104, finished=110)
    names = {"agent": "sac", "replay": "uniform", "seeds": 3}
    row = row_of(names, 20, times, [(103, 103.5), (107, 115), *learning], started=100)
    assert row == names | {
        "env_steps": 20,
        "wall_seconds": 10,
        "env_steps_per_s": 6,
        "first_env_step_s": 2,
        "first_update_s": 2,
        "device_busy": 0.45,
        "workers_busy": 0.3,
        "device_busy_while_learning": 0.6,
    }
    never = row_of(names, 20, MethodTimes([(102, 104)], [], None, 110), [], started=100)
    assert never["device_busy_while_learning"] is None


def test_methods_together_by_hand() -> None:
    first = MethodTimes([(0, 1)], [(1, 2)], first_update=1, finished=4)
    never_learned = MethodTimes([(2, 3)], [], first_update=None, finished=5)
    assert joined([first, never_learned]) == MethodTimes([(0, 1), (2, 3)], [(1, 2)], 1, 5)
    assert joined([never_learned]).first_update is None


def test_command_started_before_now() -> None:
    assert command_started() <= time.perf_counter()


def test_command_writes_a_row_per_method(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    patched = [(Trainer, "run"), (Member, "collect"), (Team, "learn")]
    before = [getattr(owner, name) for owner, name in patched]
    settings = {name: value for name, value in small("lfiw").items() if name != "env_steps"}
    options = ["--env", ENV, "--num-seeds", "1", "--env-steps", "200", "--workers", "0"]
    with pytest.raises(SystemExit) as exited:
        main(["bench", "train", *options, *as_options(settings), "--json", "rows.json"])
    assert exited.value.code == 0, capsys.readouterr().err
    rows = json.loads(Path("rows.json").read_text())["rows"]
    names = [(row["agent"], row["replay"], row["seeds"], row["env_steps"]) for row in rows]
    assert names == [
        ("sac", "uniform", 1, 200),
        ("sac", "lfiw", 1, 200),
        ("all", "all", 2, 200),
    ]
    for row in rows:
        assert list(row) == KEYS
        for name in ("device_busy", "workers_busy", "device_busy_while_learning"):
            assert 0 <= row[name] <= 1
        assert row["env_steps_per_s"] == pytest.approx(row["seeds"] * 200 / row["wall_seconds"])
        to_first_update = row["first_env_step_s"] + row["first_update_s"]
        assert 0 < to_first_update < row["wall_seconds"]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]
    assert [getattr(owner, name) for owner, name in patched] == before
