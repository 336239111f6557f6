"""The one store of transitions: a ring of packed rows in device memory.

Rows are raw; what is drawn is handed out as the networks see it.

Uniform replay, ERE's shrinking range and LFIW's fast memory are all windows of the most
recent slots, so one draw serves them all.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.replay.observations import (
    ObsStatistics,
    init_statistics,
    normalised,
    with_observations,
)
from lfiw.types import EnvSpec, Sample, unpack_rows

AGE_GROUPS = 5


class Ring(NamedTuple):
    rows: Array  # [N, row_size]
    head: Array  # [] the slot that is written next
    size: Array  # [] slots filled so far
    statistics: ObsStatistics | None = None  # where observations are normalised


def init_ring(capacity: int, spec: EnvSpec, normalize_observations: bool = False) -> Ring:
    zero = jnp.zeros((), jnp.int32)
    rows = jnp.zeros((capacity, spec.row_size), jnp.float32)
    statistics = init_statistics(spec.obs_size) if normalize_observations else None
    return Ring(rows, head=zero, size=zero, statistics=statistics)


def next_slots(ring: Ring, count: int) -> Array:
    """The slots that the next `count` rows go to."""
    return (ring.head + jnp.arange(count)) % ring.rows.shape[0]


def add_rows(ring: Ring, rows: Array) -> Ring:
    """Append rows [n, row_size], overwriting the oldest."""
    count, capacity = rows.shape[0], ring.rows.shape[0]
    if count > capacity:
        raise ValueError(f"{count} rows do not fit into a ring of {capacity}")
    statistics = ring.statistics
    if statistics is not None:
        statistics = with_observations(statistics, rows[:, : statistics.mean.shape[0]])
    return Ring(
        rows=ring.rows.at[next_slots(ring, count)].set(rows, unique_indices=True),
        head=(ring.head + count) % capacity,
        size=jnp.minimum(ring.size + count, capacity),
        statistics=statistics,
    )


def draw_bits(key: Array, count: int) -> Array:
    """The noise of `recent_slots`."""
    return jax.random.bits(key, (count,))


def recent_slots(bits: Array, ring: Ring, window: Array | int) -> Array:
    """Slots drawn uniformly, with replacement, from the `window` newest."""
    # As integers: beyond 2^24 a float32 of the size may be larger than the size.
    window = jnp.clip(jnp.asarray(window, jnp.int32), 1, ring.size).astype(jnp.uint32)
    # The remainder of 32 random bits is uniform to within window / 2^32.
    return aged_slots(ring, (bits % window).astype(jnp.int32))


def aged_slots(ring: Ring, ages: Array) -> Array:
    """The slots of these ages: the inverse of `slot_age`."""
    return (ring.head - 1 - ages) % ring.rows.shape[0]


def slot_age(ring: Ring, slots: Array) -> Array:
    """0 for the newest slot."""
    return (ring.head - 1 - slots) % ring.rows.shape[0]


def weight_by_age(weights: Array, relative_age: Array) -> Array:
    """Mean weight [AGE_GROUPS] of each fifth of the ring, newest first; 1 where the batch has
    none."""
    group = jnp.minimum((relative_age * AGE_GROUPS).astype(jnp.int32), AGE_GROUPS - 1)
    member = group == jnp.arange(AGE_GROUPS)[:, None]
    count = jnp.sum(member, axis=-1)
    return jnp.where(count > 0, jnp.sum(member * weights, axis=-1) / jnp.maximum(count, 1), 1.0)


def unit_sample(ring: Ring, slots: Array, spec: EnvSpec) -> Sample:
    """The rows of the slots with all weights one."""
    ones = jnp.ones(slots.shape, jnp.float32)
    batch = unpack_rows(ring.rows[slots], spec)
    batch = batch._replace(obs=_seen(ring, batch.obs), next_obs=_seen(ring, batch.next_obs))
    return Sample(batch, slots, ones, ones)


def pairs_at(ring: Ring, slots: Array, spec: EnvSpec) -> Array:
    """The state-action pairs [B, D + A] of the slots."""
    pairs = ring.rows[slots, : spec.obs_size + spec.action_size]  # a packed row starts with them
    if ring.statistics is None:
        return pairs
    obs, action = jnp.split(pairs, [spec.obs_size], axis=-1)
    return jnp.concatenate([_seen(ring, obs), action], axis=-1)


def _seen(ring: Ring, obs: Array) -> Array:
    """Observations as the networks see them."""
    return obs if ring.statistics is None else normalised(ring.statistics, obs)
