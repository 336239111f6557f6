"""What strategies that draw by priority share: a ring with a tree of sums over its slots."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import ReplayContext
from lfiw.replay.ring import Ring, add_rows, next_slots
from lfiw.replay.sum_tree import SumTree, init_tree, set_priorities

MAX_ERROR = 1e8  # a diverging critic must not turn the sums into infinity


class Prioritised(NamedTuple):
    ring: Ring
    tree: SumTree
    max_priority: Array  # [] of all so far; new transitions enter with it


def init_prioritised(context: ReplayContext) -> Prioritised:
    return Prioritised(context.empty_ring(), init_tree(context.capacity), jnp.ones((), jnp.float32))


def add_at_maximum(state: Prioritised, rows: Array) -> Prioritised:
    slots = next_slots(state.ring, rows.shape[0])
    priorities = jnp.broadcast_to(state.max_priority, slots.shape)
    return state._replace(
        ring=add_rows(state.ring, rows), tree=set_priorities(state.tree, slots, priorities)
    )


def prioritise(state: Prioritised, slots: Array, priorities: Array) -> Prioritised:
    return state._replace(
        tree=set_priorities(state.tree, slots, priorities),
        max_priority=jnp.maximum(state.max_priority, jnp.max(priorities)),
    )


def larger_error(td_errors: Array) -> Array:
    """The larger of both critics' absolute errors [2, B]; finite, and 0 where one is no number."""
    errors = jnp.minimum(jnp.abs(td_errors), MAX_ERROR)
    # Not by the maximum: on a CPU that of a large array may be -inf where an error is not a number.
    broken = jnp.isnan(td_errors).any(axis=0)
    return jnp.where(broken, 0.0, jnp.max(errors, axis=0))
