"""How long `lfiw report` takes and how much memory, over method folders that this script makes.

python benchmarks/report.py --folders 100 --seeds 10 --evaluations 1000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

AGENTS, STRATEGIES = ("sac", "td3"), ("uniform", "per", "ere", "lfiw", "lfiw-floor=0.6")
EVERY = 1000  # environment steps between evaluations


def make_folders(root: Path, folders: int, seeds: int, evaluations: int) -> None:
    """Method folders with noisy curves; one row of training for each evaluation."""
    methods = [f"{agent}-{strategy}" for agent in AGENTS for strategy in STRATEGIES]
    for index in range(folders):
        task, method = f"Task{index // len(methods)}-v0", methods[index % len(methods)]
        write_folder(root / task / method, task, seeds, evaluations, np.random.default_rng(index))


def write_folder(
    folder: Path, task: str, seeds: int, evaluations: int, rng: np.random.Generator
) -> None:
    agent, replay, *_ = folder.name.split("-")
    folder.mkdir(parents=True)
    steps = EVERY * (1 + np.arange(evaluations))
    config = {
        "env": {"id": task, "kwargs": {}},
        "agent": {"name": agent},
        "replay": {"name": replay},
        "seeds": list(range(seeds)),
        "env_steps": int(steps[-1]),
    }
    (folder / "config.json").write_text(json.dumps({"config": config}))
    level = rng.uniform(500, 5000) * (1 - np.exp(-steps / steps[-1] * rng.uniform(2, 6)))
    returns = level + rng.normal(0, 300, (seeds, evaluations)).cumsum(axis=1) / 10
    numbers = ("critic_loss", "q_mean", "td_error", "alpha", "policy_loss", "episode_return_mean")
    of_lfiw = ("effective_sample_size", "trust", "balanced_accuracy", "classifier_loss")
    names = numbers + (of_lfiw if replay == "lfiw" else ())
    with (folder / "metrics.jsonl").open("w") as log:
        for at, env_steps in enumerate(steps.tolist()):
            for seed in range(seeds):
                place = {"seed": seed, "env_steps": env_steps}
                values = dict(zip(names, rng.uniform(0.3, 1, len(names)).round(7), strict=True))
                train = {"kind": "train", **place, "updates": env_steps, **values}
                if replay == "lfiw":
                    train["weight_by_age"] = [1.2, 1.1, 1.0, 0.9, 0.8]
                evaluation = {
                    **{"kind": "eval", **place, "return_mean": round(returns[seed, at], 4)},
                    **{"return_std": 99.5, "length_mean": 1000.0, "episodes": 5},
                }
                seconds = {"wall_seconds": env_steps / 100}
                log.write(json.dumps(train | seconds) + "\n")
                log.write(json.dumps(evaluation | seconds) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folders", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="make the folders here and keep them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = options.keep or Path(scratch) / "runs"
        if not root.exists():
            make_folders(root, options.folders, options.seeds, options.evaluations)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        started = time.monotonic()
        command = [sys.executable, "-m", "lfiw", "report", str(root), "--out", f"{scratch}/report"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - started
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        print(f"{size / 1e9:.2f} GB of logs: {seconds:.1f} s, {peak:.2f} GB of memory at most")


if __name__ == "__main__":
    main()
