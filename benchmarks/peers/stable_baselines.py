"""The job with Stable-Baselines3, or with SBX, which has the same interface.

Libraries of the field are imported by name: lfiw itself needs none of them.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np

from lfiw.acting.envs import make_env
from lfiw.env_config import EnvConfig
from peers.job import Mark, PeerJob, run_script


def exploration(job: PeerJob, action_size: int) -> dict[str, Any]:
    """TD3 explores with noise of 0.1 (Fujimoto et al., 2018), SAC by itself."""
    if job.agent != "td3":
        return {}
    noise = importlib.import_module("stable_baselines3.common.noise")
    sigma = np.full(action_size, 0.1)
    return {"action_noise": noise.NormalActionNoise(np.zeros(action_size), sigma)}


def run(job: PeerJob) -> list[Mark]:
    algorithm = getattr(importlib.import_module(job.library), job.agent.upper())
    env: Any = make_env(EnvConfig(job.env))
    model = algorithm(
        "MlpPolicy",
        env,
        seed=job.seeds[0],
        batch_size=job.batch_size,
        buffer_size=job.buffer_size,
        learning_starts=job.learning_starts,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": list(job.hidden_sizes)},
        **exploration(job, env.action_space.shape[0]),
    )
    seconds: list[float] = []

    def on_step(local: dict[str, Any], scope: dict[str, Any]) -> bool:
        seconds.append(time.perf_counter())
        return True

    model.learn(job.env_steps, callback=on_step)
    return list(enumerate(seconds, start=1))


if __name__ == "__main__":
    run_script(run)
