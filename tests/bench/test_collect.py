import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lfiw.acting.policy import NumpyPolicy
from lfiw.acting.spaces import probe_env
from lfiw.bench.collect import bench_collect, default_workers, initial_policy
from lfiw.cli import main
from lfiw.errors import InputError
from lfiw.learning.config import make_config
from lfiw.machine import usable_cores

ENV = "environments:make_point"


def test_command_writes_rows(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "rows.json"
    options = ["--env", ENV, "--workers", "0,2", "--steps", "5", "--calls", "2"]
    with pytest.raises(SystemExit) as exited:
        main(["bench", "collect", *options, "--json", str(path)])
    assert exited.value.code == 0
    assert "env steps per s" in capsys.readouterr().out
    rows = json.loads(path.read_text())["rows"]
    for row in rows:
        assert row.pop("env_steps_per_s") > 0
    assert rows == [
        {"backend": "gymnasium", "env": ENV, "workers": 0, "runs": 1},
        {"backend": "gymnasium", "env": ENV, "workers": 2, "runs": 2},
    ]


def test_policy_has_the_size_of_the_agent() -> None:
    config = make_config(ENV, "sac")
    arrays = initial_policy(config, probe_env(config.env)[0])
    policy = NumpyPolicy(arrays)
    assert policy.kind == "gaussian"
    weights = [array.shape for name, array in arrays.items() if name.endswith("weight")]
    assert weights == [(2, 256), (256, 256), (256, 4)]
    assert all(isinstance(array, np.ndarray) for array in arrays.values())


def test_default_workers_end_with_the_cores() -> None:
    workers = default_workers()
    assert workers == sorted(set(workers))
    assert workers[0] == 1
    assert workers[-1] == usable_cores()


@pytest.mark.parametrize(
    ("workers", "runs", "env_steps", "message"),
    [
        ([], None, 1, "--workers takes"),
        ([-1], None, 1, "--workers takes"),
        ([1, 4], 3, 1, "3 runs cannot keep 4 workers busy"),
        ([1], None, 0, "--steps"),
    ],
)
def test_bad_settings(workers: list[int], runs: int | None, env_steps: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        bench_collect(make_config(ENV), ["gymnasium"], workers, runs, env_steps)
