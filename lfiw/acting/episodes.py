"""Whole episodes of a policy, without noise: how good it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from lfiw.acting.faults import SimulatorReset
from lfiw.acting.policy import ActionScale, NumpyPolicy
from lfiw.errors import InputError

MAX_EVAL_STEPS = 100_000  # an environment that never ends must not stop training for ever


class Episode(NamedTuple):
    total_reward: float
    length: int


class Evaluated(NamedTuple):
    episodes: list[Episode]
    faults: list[str]  # episodes that failed and were repeated


def run_episodes(
    env: gymnasium.Env[Any, Any],
    scale: ActionScale,
    arrays: Mapping[str, np.ndarray],
    seeds: Sequence[int],
    name: str = "The environment",
) -> list[Episode]:
    """Deterministic episodes, each fully decided by the policy and its reset seed."""
    policy = NumpyPolicy(arrays)
    episodes = []
    for seed in seeds:
        obs, _ = env.reset(seed=seed)
        refuse_non_finite(name, 0, obs=obs)
        total_reward, length, ended = 0.0, 0, False
        while not ended and length < MAX_EVAL_STEPS:
            action = scale.to_env(policy.act(np.asarray(obs, np.float32)))
            try:
                obs, reward, terminated, truncated, _ = env.step(action)
            except SimulatorReset:
                break
            total_reward += float(reward)
            length += 1
            if not math.isfinite(np.add.reduce(obs) + total_reward):
                refuse_non_finite(name, length, obs=obs, reward=reward)
            ended = terminated or truncated
        episodes.append(Episode(total_reward, length))
    return episodes


def refuse_non_finite(name: str, step: int, **fields: Any) -> None:
    for field, value in fields.items():
        if not np.isfinite(value).all():
            raise InputError(f"{name} produced a non-finite {field} at step {step} of an episode.")
