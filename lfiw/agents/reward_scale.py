"""Rewards scaled so that returns fit the atoms of a critic, by the returns met so far."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.types import EnvSpec, unpack_rows

MIN_VARIANCE = 1e-8  # added: SimbaV2


class ReturnStatistics(NamedTuple):
    """Of G <- gamma G + r over the steps, from 0 where an episode terminated. Time limits do not
    restart it, as values do not end there either: else returns of short episodes would be far below
    the values that bootstrap."""

    carried: Array  # [] G after the last step; 0 where that terminated
    num_steps: Array  # []
    mean: Array  # []
    variance: Array  # []
    largest: Array  # [] of |G|


def init_returns() -> ReturnStatistics:
    zero = jnp.zeros((), jnp.float32)
    return ReturnStatistics(zero, jnp.zeros((), jnp.int32), zero, zero, zero)


def with_rows(
    statistics: ReturnStatistics, rows: Array, gamma: float, spec: EnvSpec
) -> ReturnStatistics:
    """The statistics of packed rows [n, row_size], in the order of their steps, and all before."""
    batch = unpack_rows(rows, spec)
    # What each step inherits; the first one's share is in `carried`.
    shares = gamma * jnp.concatenate([jnp.ones(1), batch.discount[:-1]])

    def joined(one: tuple[Array, Array], two: tuple[Array, Array]) -> tuple[Array, Array]:
        """Two stretches of steps, each as G -> slope * G + offset."""
        return one[0] * two[0], two[0] * one[1] + two[1]

    slopes, offsets = jax.lax.associative_scan(joined, (shares, batch.reward))
    returns = slopes * statistics.carried + offsets
    num_steps = statistics.num_steps + len(rows)
    share = len(rows) / num_steps
    distance = jnp.mean(returns) - statistics.mean
    return ReturnStatistics(
        carried=batch.discount[-1] * returns[-1],
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
