"""Environments of EnvPool with the interface of Gymnasium.

EnvPool steps MuJoCo in C++, in a thread of its own, with the MuJoCo that it brings. It imports
jax where that is installed, but starts none of its devices.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.extras import install_command
from lfiw.wording import assignment

# Those whose dynamics tests/acting/test_envpool.py compares with Gymnasium's.
TASKS = (
    *("Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "HumanoidStandup-v5"),
    *("InvertedPendulum-v5", "Swimmer-v5", "Walker2d-v5"),
)
NO_TIME_LIMIT = 2**31 - 1


def make_envpool_env(config: EnvConfig) -> gymnasium.Env[Any, Any]:
    """The task with Gymnasium's time limit, or one sentence about why there is none."""
    if config.id not in TASKS:
        raise InputError(
            f"The envpool backend does not cover {config.id!r}, only {', '.join(TASKS)}; use "
            f"{gymnasium_backend()}."
        )
    if config.kwargs:
        raise InputError(
            f"The envpool backend takes no env.kwargs, such as {next(iter(config.kwargs))!r}; use "
            f"{gymnasium_backend()}."
        )
    # EnvPool's own limit would report a termination in the last step as a truncation.
    limit = gymnasium.spec(config.id).max_episode_steps
    assert limit is not None  # all of these tasks have one
    return gymnasium.wrappers.TimeLimit(EnvPoolEnv(config.id), limit)


def gymnasium_backend() -> str:
    return assignment("env.backend", "gymnasium")


class EnvPoolEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A pool of one environment.

    A pool is seeded when it is made, so a reset with a seed makes a new one (2 ms): like this
    an episode depends on its seed and its actions alone.
    """

    def __init__(self, task: str) -> None:
        self._task = task
        self._pool = _make_pool(task, seed=0)
        self.observation_space = self._pool.observation_space
        bounds = self._pool.action_space
        # In Gymnasium's float32, so that both backends get the same actions.
        self.action_space = spaces.Box(
            bounds.low.astype(np.float32), bounds.high.astype(np.float32), dtype=np.float32
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self._pool = _make_pool(self._task, seed)
        obs, info = self._pool.reset()
        return obs[0], info

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, _, info = self._pool.step(action[np.newaxis])
        return obs[0], float(reward[0]), bool(terminated[0]), False, info

    def close(self) -> None:
        self._pool.close()


def _make_pool(task: str, seed: int) -> Any:
    try:
        import envpool
    except ImportError as error:
        raise InputError(
            f"The envpool backend is not available ({error}): {install_command('envpool')}"
        ) from None
    return envpool.make(
        task,
        env_type="gymnasium",
        num_envs=1,
        num_threads=1,
        seed=seed,
        max_episode_steps=NO_TIME_LIMIT,
    )
