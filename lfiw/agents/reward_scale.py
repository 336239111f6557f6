"""Rewards scaled so that returns fit the atoms of a critic, by the returns met so far."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.types import EnvSpec, unpack_rows

MIN_VARIANCE = 1e-8  # added: SimbaV2


class ReturnStatistics(NamedTuple):
    """Of G <- gamma G + r, from the first step of each episode to every one of its steps."""

    current: Array  # [] G after the last step
    expected_obs: Array  # [D] what the next step sees unless a new episode begins
    num_steps: Array  # []
    mean: Array  # []
    variance: Array  # []
    largest: Array  # [] of |G|


def init_returns(obs_size: int) -> ReturnStatistics:
    zero = jnp.zeros((), jnp.float32)
    nowhere = jnp.full(obs_size, jnp.nan, jnp.float32)
    return ReturnStatistics(zero, nowhere, jnp.zeros((), jnp.int32), zero, zero, zero)


def with_rows(
    statistics: ReturnStatistics, rows: Array, gamma: float, spec: EnvSpec
) -> ReturnStatistics:
    """The statistics of packed rows [n, row_size], in the order of their steps, and all before."""
    batch = unpack_rows(rows, spec)
    # A row does not say whether its episode was cut off; the observation of the next one does.
    successors = jnp.where(batch.discount[:, None] > 0, batch.next_obs, jnp.nan)
    expected = jnp.concatenate([statistics.expected_obs[None], successors[:-1]])
    goes_on = jnp.all(batch.obs == expected, axis=-1)

    def joined(one: tuple[Array, Array], two: tuple[Array, Array]) -> tuple[Array, Array]:
        """Two stretches of steps, each as G -> slope * G + offset."""
        return one[0] * two[0], two[0] * one[1] + two[1]

    slopes, offsets = jax.lax.associative_scan(joined, (gamma * goes_on, batch.reward))
    returns = slopes * statistics.current + offsets
    num_steps = statistics.num_steps + len(rows)
    share = len(rows) / num_steps
    distance = jnp.mean(returns) - statistics.mean
    return ReturnStatistics(
        current=returns[-1],
        expected_obs=successors[-1],
        num_steps=num_steps,
        mean=statistics.mean + share * distance,
        variance=statistics.variance
        + share * (jnp.var(returns) - statistics.variance)
        + share * (1 - share) * jnp.square(distance),
        largest=jnp.maximum(statistics.largest, jnp.max(jnp.abs(returns))),
    )


def reward_scale(statistics: ReturnStatistics, limit: float) -> Array:
    """What rewards are divided by: returns then have a variance of at most one and stay within
    the limit."""
    spread = jnp.sqrt(statistics.variance + MIN_VARIANCE)
    return jnp.maximum(spread, statistics.largest / limit)
