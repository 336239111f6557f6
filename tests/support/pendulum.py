"""Gymnasium's Pendulum as the small task that every adapter's agent must solve."""

from collections.abc import Callable

import gymnasium as gym
import numpy as np

from lfiw.replay.lfiw import LfiwConfig

NAME = "Pendulum-v1"
LFIW = LfiwConfig(fast_size=500, warmup_env_steps=1000, hidden_sizes=(64, 64))
SOLVED = -400  # mean return of some episodes; a random policy has about -1200
Act = Callable[[np.ndarray], np.ndarray]


def mean_return(act: Act, episodes: int = 3) -> float:
    env = gym.make(NAME)
    total = 0.0
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            total += float(reward)
            over = terminated or truncated
    return total / episodes


def is_solved(
    learn: Callable[[int], object], act: Act, steps: int = 2000, most: int = 12_000
) -> bool:
    """Learn until the task is solved. Most seeds take 4000 to 6000 steps, a few some more."""
    for _ in range(0, most, steps):
        learn(steps)
        if mean_return(act) > SOLVED:
            return True
    return False
