"""Evaluating trained policies from their method folder."""

from __future__ import annotations

from os import PathLike

from lfiw.acting.collector import probe
from lfiw.acting.evaluator import Evaluator
from lfiw.errors import InputError, RunError
from lfiw.machine import usable_cores
from lfiw.runs.layout import folder_of
from lfiw.runs.policies import Which, check_episode_seed, check_fits, load_policy
from lfiw.runs.read import live_seeds
from lfiw.runs.rows import Row, summed_up
from lfiw.runs.trust import env_of
from lfiw.settings import conform


def evaluate(
    folder: str | PathLike[str],
    episodes: int = 10,
    seed: int | None = None,
    episode_seed: int = 0,
    which: Which = "latest",
    trust_env: bool = False,
) -> list[Row]:
    """Deterministic episodes of trained policies, each in a process that makes the environment.

    Args:
        folder: A method folder, or what `lfiw.train` returned.
        episodes: Of each policy.
        seed: The policy of one training seed; without it every seed's that was not given up.
        episode_seed: Episode k is reset with `episode_seed` + k.
        which: `"latest"`, or `"best"` for policies that were evaluated best in training.
        trust_env: Make the environment of a folder that somebody else may have made.

    Returns:
        A row for each policy: `seed`, `return_mean`, `return_std`, `length_mean`, `episodes`.

    >>> lfiw.evaluate(training, episodes=20)[0]["return_mean"]
    """
    folder = folder_of(folder)
    episodes = conform("episodes", episodes, int)
    episode_seed = conform("episode_seed", episode_seed, int)
    seed = conform("seed", seed, int | None)
    if episodes < 1:
        raise InputError(f"episodes must be at least 1, not {episodes}.")
    check_episode_seed(episode_seed)
    seeds = live_seeds(folder) if seed is None else [seed]
    if not seeds:
        raise InputError(f"All seeds of {folder} were stopped for numbers that were not finite.")
    policies = [load_policy(folder, chosen, which) for chosen in seeds]
    config = env_of(folder, trust_env)
    spec, _ = probe(config)
    for policy in policies:
        check_fits(policy, folder, config.id, spec)
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
