"""A long run compiles once, and its memory stays flat; its pace is printed, not asserted."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import PATIENCE, import_path

ENV = "environments:make_point"
SETTINGS = (
    *("learning_starts=200", "random_env_steps=200", "batch_size=32", "buffer_size=1000"),
    *("agent.hidden_sizes=32,32", "replay.hidden_sizes=32,32", "replay.fast_size=200"),
    *("replay.warmup_env_steps=300", "phase_env_steps=100", "eval_every_env_steps=1000"),
    *("eval_episodes=1", "checkpoint.every_env_steps=2000"),
)


class Seen(NamedTuple):
    """What was seen of a training at some moment."""

    env_steps: int
    compilations: int
    memory: int  # kB that are resident


def soak(folder: Path, env_steps: int) -> tuple[list[Seen], list[float]]:
    """What was seen over time, and environment steps per second by phase."""
    command = [sys.executable, "-m", "lfiw", "train", ENV, "--agent", "sac", "--replay", "lfiw"]
    command += ["--env-steps", str(env_steps), "--num-seeds", "2", "--out", str(folder)]
    log, seen = folder / "metrics.jsonl", []
    with (folder / "errors.txt").open("wb") as errors:
        process = subprocess.Popen(
            [*command, "--set", *SETTINGS],
            env=os.environ | {"PYTHONPATH": import_path(), "JAX_LOG_COMPILES": "1"},
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        stop_at = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < stop_at:
            time.sleep(0.2)
            log = next(folder.glob("*/*/metrics.jsonl"), log)
            steps = [row["env_steps"] for row in rows_of(log)]
            status = Path(f"/proc/{process.pid}/status")
            if steps and status.exists() and "VmRSS" in (text := status.read_text()):
                memory = int(text.split("VmRSS:")[1].split()[0])
                seen.append(Seen(steps[-1], compilations(folder), memory))
        process.kill()
    assert process.wait() == 0, (folder / "errors.txt").read_text()[-2000:]
    return seen, [row["steps_per_second"] for row in rows_of(log) if row["kind"] == "train"]


def rows_of(log: Path) -> list[dict[str, float]]:
    if not log.exists():
        return []
    return [
        json.loads(line) for line in log.read_text().splitlines(keepends=True) if line[-1:] == "\n"
    ]


def compilations(folder: Path) -> int:
    return (folder / "errors.txt").read_text(errors="replace").count("Finished XLA compilation")


def after_warm_up(seen: list[Seen], env_steps: int) -> list[Seen]:
    return [moment for moment in seen if moment.env_steps >= env_steps // 5]


@pytest.mark.slow
def test_nothing_is_compiled_after_the_first_fifth(tmp_path: Path) -> None:
    seen, _ = soak(tmp_path, 5_000)
    late = after_warm_up(seen, 5_000)
    assert len(late) > 1
    assert late[0].compilations > 0  # the log is read rightly
    assert late[-1].compilations == late[0].compilations


@pytest.mark.faults
def test_fifty_thousand_steps_leave_memory_flat(tmp_path: Path) -> None:
    seen, rates = soak(tmp_path, 50_000)
    late = after_warm_up(seen, 50_000)
    assert late[-1].compilations == late[0].compilations
    assert late[-1].memory < 1.01 * late[0].memory
    fifth = len(rates) // 5
    paces = [statistics.median(rates[part * fifth : (part + 1) * fifth]) for part in range(1, 5)]
    print(f"resident memory {[m.memory for m in late[:: max(1, len(late) // 8)]]} kB")
    print(f"steps/s by fifth {[round(pace) for pace in paces]}")
