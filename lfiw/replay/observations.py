"""Running statistics of a run's observations, and observations as the networks see them.

The ring keeps raw rows and normalises what is drawn with the statistics of now. Were rows
normalised when they are collected, equal observations would differ by their age, and the ratio
network could tell old rows from new ones by that alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

MIN_STD = 1e-8  # what varies less is constant but for rounding, and only centred
CLIP = 10.0  # our choice, and a common one: what is rare at first must not drown the rest


class ObsStatistics(NamedTuple):
    """Of all observations in which the run has acted."""

    num_obs: Array  # []
    mean: Array  # [D]
    variance: Array  # [D]


def init_statistics(obs_size: int) -> ObsStatistics:
    """Before the first one, observations are left as they are but for the clip."""
    zeros = jnp.zeros(obs_size, jnp.float32)
    return ObsStatistics(jnp.zeros((), jnp.int32), zeros, zeros)


def with_observations(statistics: ObsStatistics, obs: Array) -> ObsStatistics:
    """The statistics of these [n, D] and all before them (Chan et al., 1979)."""
    # As differences from one of them: exact for what is constant, and precise far from zero.
    first = obs[0]
    differences = obs - first
    shift = jnp.mean(differences, axis=0)
    variance = jnp.mean(jnp.square(differences - shift), axis=0)
    distance = (first - statistics.mean) + shift
    num_obs = statistics.num_obs + obs.shape[0]
    share = obs.shape[0] / num_obs
    return ObsStatistics(
        num_obs=num_obs,
        mean=statistics.mean + share * distance,
        variance=statistics.variance
        + share * (variance - statistics.variance)
        + share * (1 - share) * jnp.square(distance),
    )


def standard_deviation(statistics: ObsStatistics) -> Array:
    spread = jnp.sqrt(statistics.variance)
    return jnp.where(spread > MIN_STD, spread, 1.0)


def normalised(statistics: ObsStatistics, obs: Array) -> Array:
    """Observations [..., D] with mean 0 and variance 1, clipped. In numpy it is `as_seen`
    of lfiw.acting.policy."""
    return jnp.clip((obs - statistics.mean) / standard_deviation(statistics), -CLIP, CLIP)


def statistics_arrays(statistics: ObsStatistics) -> dict[str, Array]:
    """As policies and snapshots store them; one run or a batch of runs."""
    return {
        "observation.mean": statistics.mean,
        "observation.std": standard_deviation(statistics),
    }
