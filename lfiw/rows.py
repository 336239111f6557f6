"""The rows of metrics.jsonl. No jax here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lfiw.rollout import Episode
from lfiw.runlog import Row


def train_row(
    seed: int,
    env_steps: int,
    updates: int,
    calls: Sequence[Mapping[str, np.ndarray]],
    episodes: Sequence[Episode],
    faults: Sequence[str] = (),
) -> Row:
    """One phase of one run: means over its calls, and the episodes that ended in it."""
    row: Row = {"kind": "train", "seed": seed, "env_steps": env_steps, "updates": updates}
    for name in calls[0] if calls else ():
        row[name] = np.mean([call[name] for call in calls], axis=0)
    row["episodes"] = len(episodes)
    if episodes:
        row["episode_return_mean"] = float(np.mean([episode.total_reward for episode in episodes]))
        row["episode_length_mean"] = float(np.mean([episode.length for episode in episodes]))
    return row | _faults(faults)


def eval_row(
    seed: int, env_steps: int, episodes: Sequence[Episode], faults: Sequence[str] = ()
) -> Row:
    kind = "eval" if episodes else "failed eval"
    row: Row = {"kind": kind, "seed": seed, "env_steps": env_steps}
    return row | (summed_up(episodes) if episodes else {}) | _faults(faults)


def summed_up(episodes: Sequence[Episode]) -> Row:
    """What is told of evaluation episodes."""
    returns = [episode.total_reward for episode in episodes]
    return {
        "return_mean": float(np.mean(returns)),
        "return_std": float(np.std(returns)),
        "length_mean": float(np.mean([episode.length for episode in episodes])),
        "episodes": len(episodes),
    }


def stopped_row(seed: int, env_steps: int, reason: str) -> Row:
    """The last row of a run that was given up while others went on."""
    return {"kind": "stopped", "seed": seed, "env_steps": env_steps, "reason": reason}


def _faults(faults: Sequence[str]) -> Row:
    """What went wrong and was survived; a row without it went well."""
    return {"faults": list(faults)} if faults else {}
