"""Method folders whose networks are written by hand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.learning.config import make_config
from lfiw.runs.files import save_arrays, write_json
from lfiw.runs.layout import snapshot_file
from lfiw.runs.policies import save_policies
from lfiw.settings import to_json
from lfiw.training.folder import Training


def linear(weights: Any, bias: Any) -> dict[str, np.ndarray]:
    """A network without hidden layers."""
    return {"0.weight": np.array(weights, np.float32), "0.bias": np.array(bias, np.float32)}


def make_run(folder: Path, env: str, agent: str, replay: str, **settings: Any) -> Training:
    config = make_config(env, agent, replay, **settings)
    folder.mkdir(parents=True)
    write_json(folder / "config.json", {"config": to_json(config)})
    (folder / "metrics.jsonl").touch()
    return Training(folder, config)


def save_snapshot(
    run: Training, percent: int, networks: Mapping[str, dict[str, np.ndarray]], action_size: int = 1
) -> None:
    arrays = {
        f"{name}.{part}": array
        for name, network in networks.items()
        for part, array in network.items()
    }
    bounds = {
        "action_low": -np.ones(action_size, np.float32),
        "action_high": np.ones(action_size, np.float32),
    }
    for seed in run.config.seeds:
        save_arrays(snapshot_file(run.folder, percent, seed), arrays | bounds)
        policy = {f"deterministic.{part}": array for part, array in networks["policy"].items()}
        save_policies(run.folder, {seed: policy}, bounds)
