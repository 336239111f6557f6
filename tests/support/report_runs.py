"""Small method folders and stores for the tests of results and reports."""

import csv
import json
from pathlib import Path
from typing import Any

from lfiw.results.own import DIAGNOSTIC_COLUMNS, evaluation_rows

EVERY = 10  # environment steps between evaluations


def record(env: str, name: str, seeds: list[int], **env_kwargs: Any) -> dict[str, Any]:
    """What config.json holds."""
    agent, _, strategy = name.partition("-")
    return {
        "config": {
            "env": {"id": env, "kwargs": env_kwargs, "max_episode_steps": None},
            "agent": {"name": agent},
            "replay": {"name": strategy.partition("-")[0]},
            "seeds": seeds,
        },
        "versions": {"python": "3.11.1", "jax": "0.10.2"},
        "hardware": {"device": "A Device", "cores": 3},
        "command": ["lfiw", "train", env, "--label", "two words"],
    }


def write_run(
    folder: Path,
    name: str,
    returns: dict[int, list[float]],
    env: str = "Ant-v5",
    ess: list[float] | None = None,
    **env_kwargs: Any,
) -> Path:
    """A method folder with the returns of each seed, evaluated every EVERY steps."""
    run = folder / name
    run.mkdir(parents=True)
    content = record(env, name, list(returns), **env_kwargs)
    (run / "config.json").write_text(json.dumps(content), encoding="utf-8")
    rows: list[dict[str, Any]] = []
    for index in range(max(map(len, returns.values()))):
        steps = (index + 1) * EVERY
        for seed, values in returns.items():
            if ess is not None:
                rows.append(
                    {
                        "kind": "train",
                        "seed": seed,
                        "env_steps": steps,
                        "q_mean": 10.0 * steps,
                        "effective_sample_size": ess[index],
                        "balanced_accuracy": 0.75,
                        "weight_by_age": [3.0, 1.0, 0.5, 0.3, 0.2],
                    }
                )
            rows.append(
                {
                    "kind": "eval",
                    "seed": seed,
                    "env_steps": steps,
                    "return_mean": values[index],
                    "wall_seconds": float(steps),
                }
            )
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (run / "metrics.jsonl").write_text(lines, encoding="utf-8")
    return run


def write_store(folder: Path, run: Path) -> None:
    """A method folder as the files below results/."""
    folder.mkdir(parents=True)
    columns = ["method", "seed", "env_steps", "return_mean", *DIAGNOSTIC_COLUMNS]
    with (folder / "curves.csv").open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({"method": run.name} | row for row in evaluation_rows(run))
    content = json.loads((run / "config.json").read_text(encoding="utf-8"))
    extra = {"commit": "abc1234", "wall_seconds": 20}
    (folder / f"{run.name}.json").write_text(json.dumps(content | extra), encoding="utf-8")
