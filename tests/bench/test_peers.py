import dataclasses
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import lfiw.cli.bench
from lfiw.cli import main
from lfiw.cli.bench import import_peers
from lfiw.errors import InputError, RunError
from lfiw.extras import install_command
from lfiw.learning.config import check

peers = import_peers()  # from here on its scripts can be imported

from peers.compare import Contender, bench_peers, run_processes, summed_rate  # noqa: E402
from peers.job import PeerJob  # noqa: E402
from peers.ours import make_job_config  # noqa: E402

KEYS = ["library", "version", "agent", "seeds", "env_steps_per_s", "ours_over_theirs", "note"]
TINY = PeerJob(
    library="lfiw",
    env="environments:make_point",
    agent="sac",
    env_steps=60,
    hidden_sizes=(8,),
    batch_size=8,
    buffer_size=100,
    learning_starts=20,
    measured_from=30,
    phase_env_steps=10,
)
PEERS = [name for name in peers.LIBRARIES if name != peers.OURS]


def test_rate_of_one_process_starts_where_all_is_compiled() -> None:
    marks = [(10, 0.0), (20, 50.0), (30, 60.0), (50, 64.0)]
    assert summed_rate([marks], measured_from=20) == 30 / 14


def test_rates_of_processes_count_while_all_learn() -> None:
    """The first process runs alone until 10 and the second from 14 on."""
    first = [(steps, float(steps)) for steps in range(0, 15, 2)]
    second = [(100, 10.0), (200, 12.0), (300, 14.0), (5000, 15.0)]
    assert summed_rate([first, second], measured_from=0) == 1 + 50


@pytest.mark.parametrize(
    ("marks", "message"),
    [([], "No environment step"), ([(20, 1.0)], "too short"), ([(5, 1.0)], "No environment step")],
)
def test_nothing_to_measure(marks: Any, message: str) -> None:
    with pytest.raises(RunError, match=message):
        summed_rate([marks], measured_from=10)


def test_our_settings_are_the_job() -> None:
    job = PeerJob("lfiw", "HalfCheetah-v5", "td3", 3000, seeds=(0, 1))
    config = make_job_config(job)
    check(config)
    assert config.capacity == config.buffer_size == 1_000_000
    assert config.agent.hidden_sizes == (256, 256)
    assert (config.batch_size, config.updates_per_env_step) == (256, 1)
    assert config.learning_starts == config.random_env_steps == 1000
    assert (config.method, config.seeds) == ("td3-uniform", (0, 1))


def test_our_marks_are_whole_phases() -> None:
    (marks,) = run_processes("ours", [dataclasses.replace(TINY, seeds=(3,))])
    assert [env_steps for env_steps, _ in marks] == [10, 20, 30, 40, 50, 60]
    assert marks == sorted(marks, key=lambda mark: mark[1])


@pytest.mark.parametrize("agent", ["sac", "td3"])
@pytest.mark.parametrize("name", PEERS)
def test_installed_peer_does_the_job(name: str, agent: str) -> None:
    library = peers.LIBRARIES[name]
    if library.missing():
        pytest.skip(library.missing())
    job = dataclasses.replace(TINY, library=library.module, agent=agent)
    (marks,) = run_processes(library.script, [job])
    assert marks[-1][0] == TINY.env_steps
    assert summed_rate([marks], TINY.measured_from) > 0


def fake_processes(rates: dict[str, float]) -> Any:
    """Every process steps at the rate of its library."""

    def run(script: str, jobs: list[PeerJob]) -> Any:
        if rates[jobs[0].library] == 0:
            raise RunError("ImportError: no such thing")
        return [[(30, 0.0), (60, 30 / rates[job.library])] for job in jobs]

    return run


@pytest.fixture
def all_installed(monkeypatch: Any) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda name: True)


def test_rows_by_hand(monkeypatch: Any, all_installed: None) -> None:
    """One process of ours trains all seeds; a peer takes a process for each."""
    rates = {"lfiw": 20.0, "stable_baselines3": 5.0}
    monkeypatch.setattr(peers, "run_processes", fake_processes(rates))
    rows = bench_peers(["sb3"], ["sac"], dataclasses.replace(TINY, seeds=(0, 1, 2))).rows
    assert all(list(row) == KEYS for row in rows)
    found = [
        (row["library"], row["seeds"], row["env_steps_per_s"], row["ours_over_theirs"])
        for row in rows
    ]
    assert found == [
        ("lfiw", 1, 20, None),
        ("sb3", 1, 5, 4),
        ("lfiw", 3, 60, None),
        ("sb3", 3, 15, 4),
    ]


def test_rounds_are_interleaved_and_medians_count(monkeypatch: Any, all_installed: None) -> None:
    order: list[str] = []
    lasting = {"lfiw": iter([1.0, 9.0, 2.0]), "sbx": iter([4.0, 3.0, 8.0])}

    def run(script: str, jobs: list[PeerJob]) -> Any:
        order.append(jobs[0].library)
        return [[(30, 0.0), (60, 30 / next(lasting[jobs[0].library]))]]

    monkeypatch.setattr(peers, "run_processes", run)
    ours, theirs = bench_peers(["sbx"], ["sac"], TINY, repeats=3).rows
    assert order == ["lfiw", "sbx"] * 3
    assert (ours["env_steps_per_s"], theirs["env_steps_per_s"]) == (2, 4)
    assert theirs["ours_over_theirs"] == 0.5


def test_missing_peer_is_named(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda name: None if name != "lfiw" else True)
    monkeypatch.setattr(peers, "run_processes", lambda *_: [[(1500, 0.0), (3000, 10.0)]])
    path = tmp_path / "rows.json"
    options = ["--env", TINY.env, "--repeats", "1", "--json", str(path)]
    with pytest.raises(SystemExit) as exited:
        main(["bench", "peers", *options])
    assert exited.value.code == 0
    shown = capsys.readouterr()
    rows = {row["library"]: row for row in json.loads(path.read_text())["rows"]}
    assert set(rows) == {"lfiw", "sb3", "sbx", "torchrl", "cleanrl"}
    assert rows["lfiw"]["env_steps_per_s"] == 150
    missing = f"not installed: {install_command('peers')}"
    for name in ("sb3", "sbx", "torchrl"):
        assert rows[name]["note"] == missing
        assert rows[name]["env_steps_per_s"] is rows[name]["ours_over_theirs"] is None
        assert name in shown.out
        assert f"{name} sac, seeds 1: {missing}" in shown.err
    assert "not measured" in rows["cleanrl"]["note"]
    assert "git clone https://github.com/vwxyzjn/cleanrl" in shown.out


@pytest.mark.parametrize(("load", "warned"), [(0.1, False), (3.0, True)])
def test_busy_machine_is_named(monkeypatch: Any, load: float, warned: bool) -> None:
    monkeypatch.setattr(peers, "run_processes", fake_processes({"lfiw": 20.0}))
    monkeypatch.setattr(peers.os, "getloadavg", lambda: (load, 0.0, 0.0))
    notes = bench_peers(["cleanrl"], ["sac"], TINY).notes
    assert any("do not trust" in note for note in notes) == warned


def test_failing_peer_is_named(monkeypatch: Any, all_installed: None) -> None:
    rates = {"lfiw": 20.0, "sbx": 0.0, "stable_baselines3": 5.0}
    monkeypatch.setattr(peers, "run_processes", fake_processes(rates))
    rows = {row["library"]: row for row in bench_peers(["sbx", "sb3"], ["sac"], TINY).rows}
    assert rows["sbx"]["note"] == "failed: ImportError: no such thing"
    assert rows["sbx"]["env_steps_per_s"] is None
    assert rows["sb3"]["ours_over_theirs"] == 4


def test_our_own_failure_is_an_error() -> None:
    contender = Contender("lfiw", dataclasses.replace(TINY, env="environments:make_broken"), "")
    with pytest.raises(RunError, match="the cable is loose"):
        contender.measure()


def test_peers_are_of_the_extra() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    (line,) = re.findall(r"^peers = (.*)$", text, re.MULTILINE)
    for name in PEERS:
        library = peers.LIBRARIES[name]
        assert (f'"{library.distribution}>=' in line) == bool(library.script)


@pytest.mark.parametrize(
    ("names", "agents", "changes", "message"),
    [
        (["torchlr"], ["sac"], {}, "Unknown peer 'torchlr'. Did you mean torchrl?"),
        (["sb3"], ["sacc"], {}, "Unknown agent 'sacc'"),
        (["sb3"], ["sac"], {"env_steps": 40}, "at least 50, not 40"),
        (["sb3"], ["sac"], {"seeds": ()}, "at least 1"),
        (["sb3"], ["sac"], {"env": "NoSuch-v0"}, "Unknown environment"),
    ],
)
def test_bad_settings(names: list[str], agents: list[str], changes: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        bench_peers(names, agents, dataclasses.replace(TINY, **changes))


def test_scripts_exist() -> None:
    for library in peers.LIBRARIES.values():
        if library.script:
            assert find_spec(f"peers.{library.script}")


def test_scripts_of_others_load_no_jax() -> None:
    """A peer's process has its library alone."""
    scripts = {library.script for library in peers.LIBRARIES.values()} - {"", "ours"}
    program = f"""
import importlib, sys
for script in {sorted(scripts)!r}:
    importlib.import_module(f"peers.{{script}}")
assert "jax" not in sys.modules
"""
    path = os.pathsep.join(filter(None, sys.path))
    subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": path}, check=True
    )


def test_package_without_the_repository_says_where_the_scripts_are(
    monkeypatch: Any, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setattr(lfiw.cli.bench, "__file__", str(tmp_path / "lfiw" / "cli" / "bench.py"))
    with pytest.raises(SystemExit) as exited:
        main(["bench", "peers"])
    assert exited.value.code == 2
    assert "benchmarks/peers of the repository" in capsys.readouterr().err
