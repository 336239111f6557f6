"""What a user of the installed package does, in an empty folder; started by `make test-wheel` with
an interpreter that has the wheel and nothing of this repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import lfiw

REPOSITORY = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).parent / "lfiw"
SMALL = (
    *("learning_starts=100", "random_env_steps=100", "batch_size=16"),
    *("agent.hidden_sizes=8", "eval_every_env_steps=200", "eval_episodes=1"),
)


def run(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise SystemExit(f"lfiw {arguments} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout + done.stderr


def main() -> None:
    package = Path(lfiw.__file__)
    assert (package.parent / "py.typed").is_file()
    assert not package.is_relative_to(REPOSITORY / "lfiw"), package
    assert lfiw.__version__ in run("--version")
    run("train", "Pendulum-v1", "--replay", "uniform,lap", "--env-steps", "600", "--set", *SMALL)
    folder = "runs/Pendulum-v1/sac-lap"
    (evaluation,) = json.loads(run("evaluate", folder, "--episodes", "1", "--json"))
    assert evaluation["episodes"] == 1
    run("report", "runs", "--out", "page")
    page = Path("page/index.html").read_text()
    assert "SAC + LAP" in page and "<script" in page and "<style" in page
    run("verify", "runs")
    action, _ = lfiw.load_policy(folder, seed=0).predict([1.0, 0.0, 0.0])
    assert action.shape == (1,) and abs(action[0]) <= 2
    assert "uniform" in run("train", "Pendulum-v1", "--replay", "unifrom", code=2)
    assert "traceback" not in run("report", "nowhere", code=2).lower()
    print(f"lfiw {lfiw.__version__} works where only its wheel is installed.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        main()
