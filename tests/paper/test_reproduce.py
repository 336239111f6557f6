import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processes import finish, import_path, wait_for

from lfiw.cli import main
from lfiw.learning.config import make_config
from lfiw.paper.cells import Cell
from lfiw.paper.experiments import EXPERIMENTS, OF_PAPER
from lfiw.paper.reproduce import Selection, find_experiments, plan_cells, select_cells
from lfiw.paper.workload import EnvFacts, estimate_seconds, make_rounds
from lfiw.runs.checkpoint import list_checkpoints, load_checkpoint
from lfiw.runs.read import read_metrics
from lfiw.training.folder import Training
from lfiw.types import EnvSpec


def selected(name: str, scale: str = "paper", **selection: Any) -> dict[str, list[str]]:
    cells = select_cells(find_experiments(name), scale, Selection(**selection))
    return {name: [f"{cell.task} {cell.method}" for cell in own] for name, own in cells.items()}


def sentence(capfd: Any, *arguments: str) -> str:
    """What a user with bad input sees."""
    with pytest.raises(SystemExit) as exited:
        main(["reproduce", *arguments])
    out, err = capfd.readouterr()
    assert (exited.value.code, out) == (2, "")
    (line,) = err.splitlines()
    return str(line)


@pytest.mark.parametrize(
    ("step", "seconds"),
    [
        (1e-4, 5),  # the device: 20,000 updates at 2000 a second for each of two runs
        (2e-3, 20),  # the cores: 20,000 steps and as many of evaluations, on four of them
    ],
)
def test_estimate_on_a_gpu_is_that_of_the_slower_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float, seconds: float
) -> None:
    monkeypatch.setattr("lfiw.paper.workload.usable_cores", lambda: 4)
    settings = {"env_steps": 10_000, "eval_every_env_steps": 1000, "eval_episodes": 1}
    config = make_config("Ant-v5", "sac", "uniform", seeds=(0, 1), **settings)
    facts = {repr(config.env): EnvFacts(EnvSpec(obs_size=105, action_size=8), step)}
    gpu: Any = SimpleNamespace(platform="gpu")
    assert estimate_seconds([Training(tmp_path, config)], facts, [gpu]) == pytest.approx(seconds)


def test_everything_without_a_selection() -> None:
    assert len(selected("table1")["table1"]) == 4 * 11 + 6
    assert list(selected("all")) == list(OF_PAPER)


def test_tasks_and_methods_select() -> None:
    assert selected(
        "table1", tasks=["Ant-v5", "Humanoid-v5"], methods=["sac-lfiw-power", "td3-per"]
    ) == {
        "table1": ["Ant-v5 sac-lfiw-power", "Ant-v5 td3-per", "Humanoid-v5 sac-lfiw-power"],
    }


def test_of_all_experiments_those_with_the_task_are_left() -> None:
    assert list(selected("all", tasks=["Walker2d-v5"])) == [
        "table1",
        "accuracy",
        "q-quality",
        "ablation-temperature",
        "ablation-fast-size",
        "ablation-hidden",
    ]


def test_the_papers_task_unless_another_is_asked_for() -> None:
    assert selected("accuracy") == {"accuracy": ["Humanoid-v5 sac-lfiw-published"]}
    assert selected("accuracy", tasks=["Ant-v5"]) == {"accuracy": ["Ant-v5 sac-lfiw-published"]}


def test_smoke_scale_leaves_tasks_out_unless_they_are_asked_for() -> None:
    assert {name.split()[0] for name in selected("table1", "smoke")["table1"]} == {"Hopper-v5"}
    chosen = selected("table1", "smoke", tasks=["Ant-v5"])["table1"]
    assert {name.split()[0] for name in chosen} == {"Ant-v5"}


def test_seeds_are_those_chosen(tmp_path: Path) -> None:
    (run,) = plan_cells([Cell("Hopper-v5", "sac", "per")], "paper", [7, 9], tmp_path)
    assert run.config.seeds == (7, 9)
    assert run.folder == tmp_path / "Hopper-v5" / "sac-per"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["tabel1"], "Unknown experiment 'tabel1'. Did you mean table1?"),
        (["table1", "--tasks", "Hoper-v5"], "Unknown task 'Hoper-v5'. Did you mean Hopper-v5?"),
        (["table1", "--methods", "sac-lfwi"], "Did you mean sac-lfiw?"),
        (["table1", "--scale", "papr"], "Unknown scale 'papr'. Did you mean paper?"),
        (["ablation-hidden", "--tasks", "Ant-v5"], "Unknown task 'Ant-v5'. Valid names: Walker2d"),
        (["chain", "--tasks", "Hopper-v5"], "chain trains nothing"),
        (["chain", "--runs", "runs"], "chain trains nothing"),
        (["table1", "--tasks", "Humanoid-v5", "--methods", "td3-per"], "No run is both"),
        (["table1", "--seeds", "1,1"], "Seeds must differ"),
        (["table1", "--seeds", ""], "At least one seed is needed"),
        (["table1", "--runs", "runs", "--tasks", "Ant-v5"], "--runs analyses all runs it names"),
        ([], "Name an experiment, or all"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], hint: str, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert hint in sentence(capfd, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_rounds_hold_one_task_and_fit_the_memory() -> None:
    runs = [
        Training(Path(f"{task}{index}"), make_config(task, "sac", "uniform"))
        for index, task in enumerate(["A", "A", "A", "B", "B"])
    ]
    sizes = {run.folder: size for run, size in zip(runs, (4, 5, 2, 20, 1), strict=True)}
    rounds = make_rounds(runs, sizes, budget=10)
    assert [[str(run.folder) for run in group] for group in rounds] == [
        ["A0", "A1"],  # a third would take 11
        ["A2"],
        ["B3"],  # too large, and refused later
        ["B4"],
    ]


def test_list_names_every_experiment(capfd: Any) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "--list"])
    out = capfd.readouterr().out
    assert all(name in out for name in EXPERIMENTS)


def test_an_experiment_without_training(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["reproduce", "theorem", "--out", str(tmp_path / "new")])
    assert exited.value.code == 0
    content = json.loads((tmp_path / "new" / "theorem.json").read_text())
    assert content["largest_factor"]["stationary"] == pytest.approx(0.9)
    assert (tmp_path / "new" / "theorem.png").is_file()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "file").write_text("not a folder")
    line = sentence(capfd, "theorem", "--quiet", "--out", str(tmp_path / "file"))
    assert f"{tmp_path / 'file'} cannot be read or written: File exists." in line


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_what_is_trained_is_not_trained_again(tmp_path: Path, capfd: Any) -> None:
    out = tmp_path / "out"
    options = ("--methods", "sac-uniform", "--workers", "0", "--devices", "cpu:1")
    command = ["reproduce", "q-quality", "--seeds", "0", "--out", str(out), *options]
    with pytest.raises(SystemExit) as exited:
        main(command)
    said = capfd.readouterr().err
    assert exited.value.code == 0, said
    assert "1 run in 1 folder on Humanoid-v5: 2,000 environment steps" in said
    trained = contents(out / "Humanoid-v5")
    evaluated = [
        row["env_steps"] for row in read_metrics(out / "Humanoid-v5" / "sac-uniform", "eval")
    ]
    assert evaluated == list(range(200, 2001, 200))

    # All is there: only the analysis is made again.
    (out / "q-quality.json").unlink()
    with pytest.raises(SystemExit):
        main(command)
    assert "Finished folders: 1; begun, to be resumed: 0." in capfd.readouterr().err
    assert contents(out / "Humanoid-v5") == trained
    quality = json.loads((out / "q-quality.json").read_text())
    assert quality["ours"].keys() == {"sac-uniform"}

    # Another run than that in the folder is refused.
    line = sentence(capfd, "q-quality", "--seeds", "0,1", "--out", str(out))
    assert "holds another training (seeds (0,) there, (0, 1) here); choose another --out." in line


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """`lfiw reproduce q-quality` with one seed, in a process of its own."""
    command = [sys.executable, "-m", "lfiw", "reproduce", "q-quality", "--seeds", "0"]
    command += ["--out", str(folder / "out"), "--workers", "0", "--devices", "cpu:1", *options]
    environment = os.environ | {"PYTHONPATH": import_path()}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=environment, text=True, **pipes)


@pytest.mark.slow
def test_interrupted_it_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = finish(start(tmp_path, "--methods", "sac-uniform"))
    assert "1 run in 1 folder on Humanoid-v5: 2,000 environment steps" in said
    finished = contents(out / "Humanoid-v5" / "sac-uniform")

    # Stopped at its first evaluation, while the first updates compile.
    unfinished = out / "Humanoid-v5" / "sac-lfiw-published"
    log = unfinished / "metrics.jsonl"
    process = start(tmp_path)
    wait_for(lambda: log.is_file() and read_metrics(unfinished, "eval"), process)
    process.send_signal(signal.SIGTERM)
    finish(process, code=130)
    assert 0 < load_checkpoint(list_checkpoints(unfinished)[0]).facts["env_steps"] < 2000

    said = finish(start(tmp_path))
    assert "Finished folders: 1; begun, to be resumed: 1." in said
    assert contents(out / "Humanoid-v5" / "sac-uniform") == finished
    evaluated = [row["env_steps"] for row in read_metrics(unfinished, "eval")]
    assert evaluated == list(range(200, 2001, 200))
    quality = json.loads((out / "q-quality.json").read_text())
    assert quality["ours"].keys() == {"sac-uniform", "sac-lfiw-published"}


@pytest.mark.slow
def test_a_suite_trains_apart_and_ends_in_a_report(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lfiw", "reproduce", "floor", "--seeds", "0", "--workers", "0"]
    command += ["--methods", "sac-lfiw,sac-lfiw-floor=0.3", "--out", str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    environment = os.environ | {"PYTHONPATH": import_path()}
    said = finish(subprocess.Popen(command, env=environment, text=True, **pipes))
    page = tmp_path / "floor-report" / "index.html"
    assert f"{page}\n" in said
    assert all(name in page.read_text() for name in ("sac-lfiw", "sac-lfiw-floor=0.3"))
    folders = [path.parent for path in tmp_path.rglob("config.json")]
    assert {folder.parent for folder in folders} == {tmp_path / "floor" / "Walker2d-v5"}
