"""A run that was killed and resumed ends with the bits of one that was not."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

import lfiw
from lfiw.checkpoint import list_checkpoints
from lfiw.errors import InputError
from lfiw.group import ring_counter
from lfiw.resume import resume
from lfiw.training import check_disk

ENV = "environments:make_point"
TIME_FIELDS = {"wall_seconds", "steps_per_second"}
HANG_GUARD = 240  # seconds; only against a hang
SETTINGS = (
    *("learning_starts=100", "random_env_steps=100", "batch_size=16", "buffer_size=600"),
    *("agent.hidden_sizes=16,16", "replay.hidden_sizes=16,16", "replay.fast_size=60"),
    *("replay.warmup_env_steps=200", "replay.sampling=per", "phase_env_steps=70"),
    *("updates_per_call=10", "eval_every_env_steps=300", "eval_episodes=2"),
    "checkpoint.every_env_steps=200",
)
# LFIW on top of PER has every kind of state that a strategy keeps.
TRAIN = ("--agent", "sac,td3", "--replay", "lfiw", "--num-seeds", "2", "--env-steps", "1500")


def command(*arguments: str, out: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    cache = str(out.parent / "cache")
    return subprocess.Popen(
        [sys.executable, "-m", "lfiw.cli", *arguments],
        env=os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def train_command(out: Path) -> subprocess.Popen[str]:
    return command("train", ENV, "--out", str(out), *TRAIN, "--set", *SETTINGS, out=out)


def rows(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if name not in TIME_FIELDS}
        for line in lines
    ]


def contents(run: Path) -> dict[str, bytes]:
    """Policies, snapshots, the ring and the last checkpoint's arrays, byte by byte."""
    files = [*run.glob("policies/*"), *run.glob("snapshots/*/*"), *run.glob("ring/*/*")]
    files += list(list_checkpoints(run)[0].glob("*.safetensors"))
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def test_killed_again_and_again_the_run_ends_the_same(tmp_path: Path) -> None:
    whole = train_command(tmp_path / "whole")
    output, _ = whole.communicate(timeout=HANG_GUARD)
    assert whole.returncode == 0, output
    folder = tmp_path / "killed" / "environments-make_point"
    rng = random.Random(0)
    process = train_command(tmp_path / "killed")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        kill_in_training(process, folder, number, rng)
        process = command("resume", str(folder), out=tmp_path / "killed")
    output, _ = process.communicate(timeout=HANG_GUARD)
    assert process.returncode == 0, output
    expected = tmp_path / "whole" / "environments-make_point"
    methods = sorted(path.name for path in expected.iterdir())
    assert methods == ["sac-lfiw", "td3-lfiw"]
    for method in methods:
        assert rows(folder / method) == rows(expected / method), method
        assert contents(folder / method) == contents(expected / method), method


def kill_in_training(
    process: subprocess.Popen[str], folder: Path, number: int, rng: random.Random
) -> None:
    """Send a signal some way into training, at a moment that no test controls."""
    logs = [*folder.glob("*/metrics.jsonl")]
    before = sum(log.stat().st_size for log in logs if log.exists())
    guard = time.monotonic() + HANG_GUARD
    while process.poll() is None and time.monotonic() < guard:
        size = sum(log.stat().st_size for log in folder.glob("*/metrics.jsonl"))
        if size > before + 2000:
            break
        time.sleep(0.05)
    time.sleep(rng.uniform(0, 0.4))
    process.send_signal(number)
    process.communicate(timeout=HANG_GUARD)
    if number != signal.SIGKILL and process.returncode != 0:
        assert process.returncode == 130


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished")
    settings = {
        **{"learning_starts": 50, "random_env_steps": 50, "batch_size": 16, "env_steps": 200},
        **{"agent.hidden_sizes": (8, 8), "phase_env_steps": 50, "updates_per_call": 10},
    }
    return lfiw.train(ENV, "sac", "uniform", out=out, quiet=True, **settings).folder


def test_extended_run_goes_on(finished: Path) -> None:
    before = rows(finished)
    resume([finished], env_steps=300, quiet=True)
    after = rows(finished)
    assert after[: len(before)] == before
    assert after[-1]["env_steps"] == 300
    config = json.loads((finished / "config.json").read_text())["config"]
    assert (config["env_steps"], config["schedule_env_steps"]) == (300, 200)


def test_extended_ring_goes_on_where_it_ended(finished: Path) -> None:
    """The first 200 rows filled their ring, so its head was back at slot 0; in the ring of the
    extended run it must stand behind them, or empty slots would be drawn."""
    resume([finished], env_steps=360, quiet=True)
    newest = list_checkpoints(finished)[0] / "seed-0.safetensors"
    arrays = load_file(newest)
    assert arrays["learner.replay.size"] == 360
    assert arrays["learner.replay.head"] == 0  # 360 rows in 360 slots
    restored = [ring_counter(f"replay.{name}", 200, 360) for name in ("head", "size")]
    assert restored == [200, 200]
    assert [ring_counter(f"replay.{name}", 500, 360) for name in ("head", "size")] == [140, 360]


def test_other_versions_are_refused_with_the_list(finished: Path) -> None:
    path = finished / "config.json"
    original = path.read_text()
    content = json.loads(original)
    content["versions"]["numpy"] = "1.0"
    content["hardware"]["cpu"] = "another"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"numpy 1\.0 then.*cpu another then"):
        resume([finished], quiet=True)
    resume([finished], allow_inexact=True, quiet=True)
    path.write_text(original)


def test_a_shorter_run_cannot_be_asked_for(finished: Path) -> None:
    with pytest.raises(InputError, match="less than"):
        resume([finished], env_steps=10, quiet=True)


def test_disk_that_cannot_hold_the_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot fit"):
        check_disk(10**18, [tmp_path / "not" / "there" / "yet"])
    check_disk(1, [tmp_path])
