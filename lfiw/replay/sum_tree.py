"""A tree of sums over the priorities of a ring: draw a slot in proportion to its priority.

The tree is wide and flat: a draw walks down few levels, each a short running sum over
BRANCHING siblings, which suits vector hardware better than a binary tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

BRANCHING = 128
LEVELS = 4  # most, for 128^4 slots

SumTree = tuple[Array, ...]  # levels from root to leaves; each a multiple of BRANCHING long


def init_tree(capacity: int, least_levels: int = 1) -> SumTree:
    """All priorities zero."""
    sizes = []
    size = capacity
    while True:
        padded = -(-size // BRANCHING) * BRANCHING
        sizes.append(padded)
        size = padded // BRANCHING
        if size == 1 and len(sizes) >= least_levels:
            break
    return tuple(jnp.zeros((size,), jnp.float32) for size in reversed(sizes))


def tree_over(leaves: Array, least_levels: int = 1) -> SumTree:
    """A tree whose first slots have these priorities."""
    levels = init_tree(leaves.shape[0], least_levels)
    lowest = jnp.pad(leaves, (0, levels[-1].shape[0] - leaves.shape[0]))
    tree = [lowest]
    for level in reversed(levels[:-1]):
        sums = jnp.sum(tree[0].reshape(-1, BRANCHING), axis=-1)
        tree.insert(0, jnp.pad(sums, (0, level.shape[0] - sums.shape[0])))
    return tuple(tree)


def grow_tree(leaves: Array, capacity: int) -> SumTree:
    """A tree for more slots, with the priorities of another one's leaves in its first."""
    return set_priorities(init_tree(capacity), jnp.arange(leaves.shape[0]), leaves)


def total(tree: SumTree) -> Array:
    return jnp.sum(tree[0])


def siblings(level: Array, parents: Array) -> Array:
    """The BRANCHING children [..., BRANCHING] of each parent."""
    return level.reshape(-1, BRANCHING)[parents]


def set_priorities(tree: SumTree, slots: Array, priorities: Array) -> SumTree:
    """Write priorities; of duplicates in one write the largest wins, on every device.

    Sums above are recomputed from their children, so rounding errors never pile up.
    """
    *upper, leaves = tree
    leaves = leaves.at[slots].set(0.0).at[slots].max(priorities)
    levels = [leaves]
    for level in reversed(upper):
        slots = slots // BRANCHING
        level = level.at[slots].set(jnp.sum(siblings(levels[0], slots), axis=-1))
        levels.insert(0, level)
    return tuple(levels)


def tree_noise(key: Array, count: int) -> Array:
    """The noise of `find_slots`. A level has a uniform of its own: one alone has only 2^23 values,
    which share a million slots unevenly and miss most of ten million."""
    return jax.random.uniform(key, (LEVELS, count))


def find_slots(tree: SumTree, uniforms: Array) -> Array:
    """Slots [B] for uniforms [levels, B] in [0, 1); a zero priority is never drawn."""
    return _descended([partial(siblings, level) for level in tree], uniforms)


def find_slots_of_either(first: Array, one: SumTree, other: SumTree, uniforms: Array) -> Array:
    """Slots [B] of the one tree where `first` [B], else of the other, which has as many levels.
    One way down for both: its running sums are what costs."""

    def children(level: Array, other_level: Array, nodes: Array) -> Array:
        own = siblings(level, jnp.where(first, nodes, 0))
        others = siblings(other_level, jnp.where(first, 0, nodes))
        return jnp.where(first[:, None], own, others)

    return _descended([partial(children, *pair) for pair in zip(one, other, strict=True)], uniforms)


def _descended(levels: Sequence[Callable[[Array], Array]], uniforms: Array) -> Array:
    """Leaves [B] for functions from root to leaves: nodes [B] -> their children [B, BRANCHING]."""
    nodes = jnp.zeros(uniforms.shape[1:], jnp.int32)
    place = jnp.arange(BRANCHING)
    for children, points in zip(levels, uniforms, strict=False):
        values = children(nodes)
        running = jnp.cumsum(values, axis=-1)
        drawable = values > 0
        hit = drawable & (running > (points * running[:, -1])[:, None])
        # The first hit. Rounding may leave none: then the last drawable child. Both by one
        # reduction, where that one counts down behind all hits.
        mirrored = jnp.where(drawable, 2 * BRANCHING - place, 2 * BRANCHING)
        first = jnp.min(jnp.where(hit, place, mirrored), axis=-1)
        child = jnp.where(first < BRANCHING, first, 2 * BRANCHING - first)
        nodes = nodes * BRANCHING + child
    return nodes
