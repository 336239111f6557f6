"""Evaluating and recording trained policies from their method folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lfiw.acting.collector import probe
from lfiw.acting.evaluator import Evaluator
from lfiw.acting.policy import Policy
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError, RunError
from lfiw.machine import usable_cores
from lfiw.runs.config_file import read_config, seeds_of
from lfiw.runs.policies import load_policy
from lfiw.runs.read import stopped_seeds
from lfiw.runs.rows import summed_up
from lfiw.settings import from_json
from lfiw.types import EnvSpec


def env_of(folder: str | Path) -> EnvConfig:
    config: EnvConfig = from_json(EnvConfig, read_config(folder)["config"]["env"])
    return config


def evaluate_run(
    folder: str | Path, episodes: int = 10, seed: int | None = None, episode_seed: int = 0
) -> list[dict[str, Any]]:
    """Deterministic episodes of one seed's policy, or of every seed's that was not given up."""
    if episodes < 1:
        raise InputError(f"episodes must be at least 1, not {episodes}.")
    _check_episode_seed(episode_seed)
    config = env_of(folder)
    stopped = stopped_seeds(folder)
    seeds = [own for own in seeds_of(folder) if own not in stopped] if seed is None else [seed]
    if not seeds:
        raise InputError(f"All seeds of {folder} were stopped for numbers that were not finite.")
    policies = [load_policy(folder, chosen) for chosen in seeds]
    spec, _ = probe(config)
    for policy in policies:
        _check_size(folder, policy, config, spec)
    reset_seeds = list(range(episode_seed, episode_seed + episodes))
    evaluator = Evaluator(config, min(len(seeds), usable_cores()))
    try:
        futures = [evaluator.submit(policy.arrays, reset_seeds) for policy in policies]
        results = [future.result() for future in futures]
    finally:
        evaluator.close()
    for result in results:
        if not result.episodes:
            raise RunError(result.faults[-1])
    return [
        {"seed": chosen} | summed_up(done.episodes)
        for chosen, done in zip(seeds, results, strict=True)
    ]


def _check_size(folder: str | Path, policy: Policy, config: EnvConfig, spec: EnvSpec) -> None:
    if policy.network.obs_size != spec.obs_size:
        raise InputError(
            f"The policies of {folder} take observations of size {policy.network.obs_size}, but "
            f"{config.id} now gives {spec.obs_size}."
        )


def _check_episode_seed(seed: int) -> None:
    if seed < 0:
        raise InputError(f"The seed of an episode must be at least 0, not {seed}.")
