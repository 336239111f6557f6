"""Trainings in processes of their own, to be killed, and what is left of them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from processes import PATIENCE, wait_for

from lfiw.runs.checkpoint import list_checkpoints

ENV = "environments:make_point"
TIME_FIELDS = {"wall_seconds", "steps_per_second"}
SETTINGS = (
    *("learning_starts=100", "random_env_steps=100", "batch_size=16", "buffer_size=600"),
    *("agent.hidden_sizes=16,16", "replay.hidden_sizes=16,16", "replay.fast_size=60"),
    *("replay.warmup_env_steps=200", "replay.sampling=per", "phase_env_steps=70"),
    *("updates_per_call=10", "eval_every_env_steps=300", "eval_episodes=2"),
    "checkpoint.every_env_steps=200",
)
# LFIW on top of PER has every kind of state that a strategy keeps.
TRAIN = ("--agent", "sac,td3", "--replay", "lfiw", "--num-seeds", "2", "--env-steps", "1500")


def command(*arguments: str, cache: Path | None = None) -> subprocess.Popen[str]:
    """`lfiw`, with a cache of compiled programs of its own if one is named."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    own_cache = {"XDG_CACHE_HOME": str(cache)} if cache else {}
    return subprocess.Popen(
        [sys.executable, "-m", "lfiw", *arguments],
        env=os.environ | {"PYTHONPATH": path} | own_cache,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def train_command(out: Path) -> subprocess.Popen[str]:
    return command("train", ENV, "--out", str(out), *TRAIN, "--set", *SETTINGS)


def rows(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if name not in TIME_FIELDS}
        for line in lines
    ]


def contents(run: Path) -> dict[str, bytes]:
    """Policies, snapshots, the ring and the last checkpoint's arrays, byte by byte."""
    files = [*run.glob("policies/*"), *run.glob("snapshots/*/*"), *run.glob("ring/*/*")]
    named = {str(file.relative_to(run)): file for file in files}
    named |= {file.name: file for file in list_checkpoints(run)[0].glob("*.safetensors")}
    return {name: file.read_bytes() for name, file in named.items()}


def kill_in_training(
    process: subprocess.Popen[str], folder: Path, number: int, rng: random.Random
) -> None:
    """Send a signal some way into training, at a moment that no test controls."""

    def logged() -> int:
        return sum(log.stat().st_size for log in folder.glob("*/metrics.jsonl"))

    before = logged()
    wait_for(lambda: logged() > before + 2000 or process.poll() is not None)
    time.sleep(rng.uniform(0, 0.4))
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    if number != signal.SIGKILL and process.returncode != 0:
        assert process.returncode == 130
