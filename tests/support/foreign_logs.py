"""Logs in the formats of other libraries."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tensorboardX import SummaryWriter


def write_evaluations(folder: Path, timesteps: list[int], results: list[list[float]]) -> Path:
    """As Stable-Baselines3's EvalCallback does."""
    folder.mkdir(parents=True, exist_ok=True)
    lengths = [[9] * len(own) for own in results]
    np.savez(folder / "evaluations", timesteps=timesteps, results=results, ep_lengths=lengths)
    return folder


def write_monitor(
    path: Path, episodes: list[tuple[float, int, float]], env: str | None = None, start: float = 0
) -> Path:
    """As Stable-Baselines3's Monitor does: return, length and time of each episode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"t_start": start, "env_id": str(env)})
    rows = "".join(f"{value},{length},{time}\n" for value, length, time in episodes)
    path.write_text(f"#{header}\nr,l,t\n{rows}", encoding="utf-8")
    return path


def write_events(folder: Path, **tags: Sequence[tuple[int, float]]) -> Path:
    """As CleanRL and Stable-Baselines3 do; `__` stands for the slash of a tag."""
    with SummaryWriter(str(folder)) as writer:
        writer.add_text("hyperparameters", "|param|value|")
        for tag, points in tags.items():
            for env_steps, value in points:
                writer.add_scalar("losses/td_loss", 0.5, env_steps)
                writer.add_scalar(tag.replace("__", "/"), value, env_steps)
    return folder
