from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from lfiw.replay.sum_tree import (
    BRANCHING,
    LEVELS,
    SumTree,
    find_slots,
    find_slots_of_either,
    init_tree,
    set_priorities,
    total,
    tree_noise,
    tree_over,
)

DRAWS = 120_000
write, find = jax.jit(set_priorities), jax.jit(find_slots)


def make_tree(priorities: Any, capacity: int | None = None) -> SumTree:
    tree = init_tree(capacity or len(priorities))
    slots = np.arange(len(priorities))
    return write(tree, slots, np.asarray(priorities, np.float32))


@cache
def uniforms(seed: int = 0) -> jax.Array:
    return tree_noise(jax.random.key(seed), DRAWS)


def draw_counts(tree: SumTree, seed: int = 0) -> np.ndarray:
    slots = np.asarray(find(tree, uniforms(seed)))
    return np.bincount(slots, minlength=len(tree[-1]))


def assert_sums(tree: SumTree) -> None:
    """Every node is the sum of its children."""
    for parents, children in pairwise(tree):
        sums = np.asarray(children, np.float64).reshape(-1, BRANCHING).sum(axis=-1)
        np.testing.assert_allclose(parents[: len(sums)], sums, rtol=1e-5)
        np.testing.assert_array_equal(parents[len(sums) :], 0.0)
    np.testing.assert_allclose(total(tree), np.sum(np.asarray(tree[-1], np.float64)), rtol=1e-5)


def assert_proportional(counts: np.ndarray, priorities: np.ndarray) -> None:
    """By chi-square, where at least five draws are expected; zero priorities are never drawn."""
    expected = counts.sum() * priorities / priorities.sum()
    assert counts[: len(priorities)][priorities == 0].sum() == 0
    assert counts[len(priorities) :].sum() == 0
    counts, often = counts[: len(priorities)], expected >= 5
    rare = [counts[~often].sum()], [expected[~often].sum()]
    if rare[1][0] < 5:  # too few for the test: hardly any may be drawn
        assert rare[0][0] < 25
        rare = [], []
    observed = np.append(counts[often], rare[0])
    wanted = np.append(expected[often], rare[1])
    assert chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("capacity", "levels"),
    [
        (1, (128,)),
        (128, (128,)),
        (129, (128, 256)),
        (128 * 128, (128, 128 * 128)),
        (128 * 128 + 1, (128, 256, 129 * 128)),
    ],
)
def test_levels(capacity: int, levels: tuple[int, ...]) -> None:
    tree = init_tree(capacity)
    assert tuple(len(level) for level in tree) == levels
    assert total(tree) == 0


def test_draws_by_hand() -> None:
    tree = make_tree([1.0, 0.0, 2.0, 1.0])
    # A quarter belongs to slot 0, the next two to slot 2, the last to slot 3.
    points = jnp.array([0.0, 0.2499, 0.25, 0.5, 0.7499, 0.75, 0.99999])
    np.testing.assert_array_equal(find(tree, points[None]), [0, 0, 2, 2, 2, 3, 3])


def test_draws_by_hand_over_two_levels() -> None:
    """Of four equal priorities two are among the first 128 slots, one among the next, and the last
    among those from 896 on."""
    tree = set_priorities(
        init_tree(1000), jnp.array([5, 127, 128, 999]), jnp.array([1.0, 1.0, 1.0, 1.0])
    )
    group = jnp.array([0.0, 0.49, 0.49, 0.5, 0.74, 0.75, 0.99999])
    within = jnp.array([0.49, 0.49, 0.5, 0.0, 0.99, 0.0, 0.99999])
    expected = [5, 5, 127, 128, 128, 999, 999]
    np.testing.assert_array_equal(find(tree, jnp.stack([group, within])), expected)


def test_every_slot_of_a_large_tree_can_be_drawn() -> None:
    """More slots than a float32 in [0, 1) has values; the last group of 128 by all its uniforms."""
    size = 20_000_000
    tree = tree_over(jnp.ones(size))
    within = (jnp.arange(1024) + 0.5) / 1024
    above = jnp.full((len(tree) - 1, 1024), 1 - 2.0**-20)
    slots = np.asarray(find(tree, jnp.concatenate([above, within[None]])))
    assert slots[-1] == size - 1
    np.testing.assert_array_equal(np.bincount(slots - slots[0]), 8)  # of 1024 over 128


@pytest.mark.parametrize(
    "priorities",
    [
        np.append([0.0, 1.0, 0.0, 2.0, 3.0], np.zeros(295)),
        np.arange(300.0) % 7,
        np.arange(300.0) % 7 * 1e-8,
        np.arange(300.0) % 7 * 1e8,
        np.logspace(-8, 8, 300),
        np.where(np.arange(300) % 2 == 0, 1e-8, 1e8),
        np.append(np.zeros(297), [1e-8, 0.0, 3e-8]),
    ],
    ids=["few", "many", "tiny", "huge", "spread", "mixed", "late"],
)
def test_draws_are_proportional(priorities: np.ndarray) -> None:
    tree = make_tree(priorities)
    assert_sums(tree)
    assert_proportional(draw_counts(tree), priorities)


@pytest.mark.faults
def test_a_million_draws_are_proportional_after_wrapping_around() -> None:
    """Priorities of all magnitudes, a tenth of them zero, each written anew three times."""
    rng = np.random.default_rng(0)
    tree = init_tree(20_000)
    for _ in range(3):
        priorities = 10.0 ** rng.uniform(-8, 8, 20_000)
        priorities[rng.random(20_000) < 0.1] = 0.0
        priorities = priorities.astype(np.float32)
        for slots in np.array_split(np.arange(20_000), 40):
            tree = write(tree, slots, priorities[slots])
    counts = sum(draw_counts(tree, seed) for seed in range(9))
    assert np.sum(counts) > 1e6
    assert_proportional(np.asarray(counts), np.asarray(priorities, np.float64))


def test_draws_are_proportional_over_three_levels() -> None:
    groups = np.random.default_rng(0).integers(0, 20_000, 300)
    priorities = np.zeros(20_000)
    priorities[groups] = np.random.default_rng(1).random(300)
    tree = make_tree(priorities)
    assert len(tree) == 3
    assert_sums(tree)
    assert_proportional(draw_counts(tree), priorities)


@pytest.mark.parametrize("drawable", [[3, 4], [3, 700], [130, 131, 300], [899]])
def test_a_point_past_the_end_finds_the_last_drawable_slot(drawable: list[int]) -> None:
    # As rounding can do; a uniform of 1 does the same.
    tree = write(init_tree(1000), jnp.array(drawable), jnp.full(len(drawable), 0.1))
    assert find(tree, jnp.ones((LEVELS, 1)))[0] == drawable[-1]


def test_the_largest_uniform_finds_a_drawable_slot() -> None:
    rng = np.random.default_rng(0)
    largest = jnp.full((LEVELS, 1), np.nextafter(np.float32(1), np.float32(0)))
    for seed in range(20):
        priorities = np.where(rng.random(700) < 0.5, rng.random(700) * 10.0 ** (seed - 10), 0.0)
        tree = make_tree(priorities, capacity=900)
        assert tree[-1][int(find(tree, largest)[0])] > 0


def test_of_duplicates_the_largest_wins() -> None:
    tree = make_tree([9.0, 9.0, 9.0])
    slots, priorities = jnp.array([1, 1, 1, 2, 2]), jnp.array([2.0, 5.0, 3.0, 0.5, 0.0])
    tree = write(tree, slots, priorities)
    np.testing.assert_array_equal(tree[-1][:4], [9.0, 5.0, 0.5, 0.0])
    assert_sums(tree)


def test_sums_hold_after_many_writes() -> None:
    rng = np.random.default_rng(0)
    tree = init_tree(20_000)
    for _ in range(30):
        slots = rng.integers(0, 20_000, 64)
        priorities = rng.random(64) * 10.0 ** rng.integers(-8, 9, 64)
        tree = write(tree, jnp.asarray(slots), jnp.asarray(priorities, jnp.float32))
    assert_sums(tree)
    # Huge priorities leave no rounding errors behind when they go.
    slots = np.flatnonzero(tree[-1])
    tree = write(tree, jnp.asarray(slots), jnp.full(len(slots), 1e-8))
    assert_sums(tree)


def test_one_way_down_for_two_trees_ends_where_two_ways_do() -> None:
    """Of 20,000 and of 5 leaves: three levels, of which the small one needs one."""
    rng = np.random.default_rng(0)
    large, small = jnp.asarray(rng.random(20_000)), jnp.asarray(rng.random(5))
    of_large, of_small = tree_over(large), tree_over(small, least_levels=3)
    assert [len(level) for level in of_small] == [128, 128, 128]
    assert_sums(of_small)
    noise, first = uniforms()[:, :1000], jnp.asarray(rng.random(1000) < 0.5)
    found = find_slots_of_either(first, of_large, of_small, noise)
    expected = jnp.where(first, find(of_large, noise), find(of_small, noise))
    np.testing.assert_array_equal(found, expected)
    # The levels above the leaves have one child each, whatever the noise.
    np.testing.assert_array_equal(find(of_small, noise), find(tree_over(small), noise[2:]))
