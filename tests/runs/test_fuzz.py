"""B5: configurations and command lines made by chance. Each is refused in one sentence with exit
code 2, and nothing is written outside the method folder."""

import json
import os
import random
import shutil
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import PATIENCE, import_path
from trainings import ENV

import lfiw
from lfiw.cli import COMMANDS, main
from lfiw.learning.config import make_config
from lfiw.replay import REPLAYS
from lfiw.runs.config_file import write_config
from lfiw.settings import walk

NOWHERE = "nowhere:make"  # no environment, so that even a sound command line is refused
COUNTS = [30, pytest.param(500, marks=pytest.mark.faults)]
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2.5, -0.0, 1e308, 1e400, -1e400, float("nan"), 2**31, 2**63),
    *(10**400, "", "x", "none", "é\x00", "../../x", "9" * 5000, [], [1], [[]], ["x"], {}, {"a": 1}),
    *([0] * 1000, {"name": "sac"}, {"name": []}, [None], [2**40], [-1]),
]


def random_text(rng: random.Random) -> str:
    return "".join(rng.choice(string.printable) for _ in range(rng.randrange(8)))


def random_arguments(rng: random.Random) -> list[str]:
    """A command line of `train` with some of its options and values wrong."""
    options = ["--agent", "--replay", "--num-seeds", "--seeds", "--env-steps", "--preset"]
    options += ["--label", "--workers", "--devices", "--set", "--out", "--nonsense"]
    sound = ["sac", "td3", "lfiw", "per", "1", "0,1", "1e3", "paper", "cpu", "batch_size=8"]
    names = [name for replay in REPLAYS for name, _, _ in walk(make_config(ENV, "sac", replay))]
    arguments = [NOWHERE] if rng.random() < 0.95 else []
    for _ in range(rng.randrange(1, 6)):
        option = rng.choice(options)
        value = rng.choice([*sound, str(rng.choice(VALUES))[:60], random_text(rng)])
        if option == "--set":
            value = f"{rng.choice(names)}{rng.choice(['=', '=', '', '=='])}{value}"
        arguments += [option, value.replace("\x00", "")]
    rng.random() < 0.1 and rng.shuffle(arguments)
    return arguments


def refused(arguments: list[str], capfd: Any) -> str:
    capfd.readouterr()
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    out, err = capfd.readouterr()
    assert exited.value.code == 2, (arguments, err)
    assert "Traceback" not in err and err.strip(), arguments
    assert out == "", arguments
    return str(err)


@pytest.mark.parametrize("count", COUNTS)
def test_random_command_lines(count: int, tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(count)
    for _ in range(count):
        arguments = ["train", *random_arguments(rng)]
        if {"-h", "--help", "--version"} & set(arguments):
            continue
        err = refused(arguments, capfd)
        if err.startswith("lfiw: "):
            assert len(err.strip("\n").splitlines()) == 1, err
        assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {
        **{"learning_starts": 50, "random_env_steps": 50, "batch_size": 16, "env_steps": 60},
        **{"agent.hidden_sizes": (8, 8), "phase_env_steps": 50, "eval_episodes": 1},
    }
    out = tmp_path_factory.mktemp("finished")
    return lfiw.train(ENV, "sac", "lfiw", out=out, quiet=True, **settings).folder


def mutate(rng: random.Random, value: Any) -> Any:
    """Somewhere in nested JSON, another value, a lost entry or a new one."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {name: entry for name, entry in value.items() if name != key}
        if rng.random() < 0.1:
            return {**value, random_text(rng): rng.choice(VALUES)}
        return {**value, key: mutate(rng, value[key])}
    return rng.choice(VALUES)


@pytest.mark.parametrize("count", COUNTS)
def test_random_configurations(
    finished: Path, count: int, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    """Every command that reads them, with and without the right hash."""
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    original = json.loads((run / "config.json").read_text())
    original["config"]["env"]["id"] = NOWHERE
    rng = random.Random(count)
    for _ in range(count):
        content = mutate(rng, original)
        if isinstance(content, dict) and rng.random() < 0.8:
            write_config(run, content)
        else:
            (run / "config.json").write_text(json.dumps(content))
        before = sorted(run.rglob("*"))
        options = ["--env-steps", "1000000", *["--allow-inexact"] * (rng.random() < 0.7)]
        options += ["--workers", "0"]  # none need be started to be told
        for command in (["resume", str(run), *options], ["evaluate", str(run)]):
            err = refused(command, capfd)
            assert err.startswith("lfiw: "), (content, err)
            assert len(err.strip("\n").splitlines()) == 1, err
        with pytest.raises(SystemExit) as exited:
            main(["verify", str(run)])
        assert exited.value.code in (0, 1)
        assert list(elsewhere.iterdir()) == []
        assert [path for path in sorted(run.rglob("*")) if path not in before] == []


@pytest.mark.parametrize("count", [3, pytest.param(30, marks=pytest.mark.faults)])
def test_random_command_lines_to_the_real_command(count: int, tmp_path: Path) -> None:
    rng = random.Random(count)
    for _ in range(count):
        command = rng.choice([name for name in COMMANDS if name not in ("demo", "settings")])
        arguments = random_arguments(rng) if command == "train" else [random_text(rng) or "x"]
        done = subprocess.run(
            [sys.executable, "-m", "lfiw", command, *(a.strip("-") for a in arguments[:1]),
             *arguments[1:]],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": import_path()},
            cwd=tmp_path,
            timeout=PATIENCE,
            check=False,
        )  # fmt: skip
        assert done.returncode == 2, (command, arguments, done.stderr)
        assert "Traceback" not in done.stderr and done.stdout == "", (command, arguments)
        assert list(tmp_path.iterdir()) == []
