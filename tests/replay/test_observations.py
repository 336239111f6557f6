"""Running statistics of observations, and what the ring hands out with them."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import MIDWAY, SPEC, active, make_context, quick_jit, random_rows

from lfiw.acting.policy import as_seen
from lfiw.replay import REPLAYS, make_replay
from lfiw.replay.lfiw import LfiwConfig
from lfiw.replay.observations import (
    ObsStatistics,
    init_statistics,
    normalised,
    statistics_arrays,
    with_observations,
)
from lfiw.replay.ring import add_rows, init_ring, pairs_at, unit_sample
from lfiw.replay.uniform import UniformConfig
from lfiw.types import row_columns

COLUMNS = row_columns(SPEC)
add_observations = quick_jit(with_observations)


def statistics_of(*batches: Any) -> ObsStatistics:
    statistics = init_statistics(np.shape(batches[0])[1])
    for batch in batches:
        statistics = add_observations(statistics, jnp.asarray(batch, jnp.float32))
    return statistics


def test_statistics_by_hand() -> None:
    """1, 2, 3 have mean 2 and variance 2/3; with 4 the mean is 2.5 and the variance
    (2.25 + 0.25 + 0.25 + 2.25) / 4. The second component is ten times as far from 7."""
    first = statistics_of([[1, 17], [2, 27], [3, 37]])
    assert first.num_obs == 3
    np.testing.assert_allclose(first.mean, [2, 27])
    np.testing.assert_allclose(first.variance, [2 / 3, 200 / 3], rtol=1e-6)
    second = statistics_of([[1, 17], [2, 27], [3, 37]], [[4, 47]])
    assert second.num_obs == 4
    np.testing.assert_allclose(second.mean, [2.5, 32])
    np.testing.assert_allclose(second.variance, [1.25, 125], rtol=1e-6)


def test_how_observations_are_cut_into_batches_does_not_matter() -> None:
    obs = np.random.default_rng(0).normal(3, 5, (1000, 4)).astype(np.float32)
    found = statistics_of(obs[:1], obs[1:8], obs[8:500], obs[500:])
    np.testing.assert_allclose(found.mean, obs.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.variance, obs.var(axis=0), rtol=1e-5)


def test_they_stay_precise_over_many_batches_and_far_from_zero() -> None:
    rng = np.random.default_rng(0)
    batches = (1000 + rng.standard_normal((2000, 50, 1))).astype(np.float32)
    found = statistics_of(*batches)
    assert found.mean[0] == pytest.approx(batches.astype(float).mean(), abs=1e-3)
    assert found.variance[0] == pytest.approx(batches.astype(float).var(), rel=1e-3)


def test_normalised_by_hand() -> None:
    """2, 4, 6, 8 have mean 5 and variance 5; nine deviations stay, and eleven are clipped."""
    statistics = statistics_of([[2], [4], [6], [8]])
    deviation = np.sqrt(5)
    obs = jnp.asarray([[5], [5 + deviation], [5 - 9 * deviation], [5 - 11 * deviation]])
    np.testing.assert_allclose(normalised(statistics, obs)[:, 0], [0, 1, -9, -10], atol=1e-5)


def test_what_never_varied_is_only_centred() -> None:
    """0.1 is no number of a computer: its sums are rounded, and its statistics must not be."""
    statistics = statistics_of(*[np.full((1000, 1), 0.1)] * 3)
    assert statistics.mean[0] == np.float32(0.1)
    assert statistics.variance[0] == 0
    obs = jnp.asarray([[0.1], [0.6], [99.0]])
    np.testing.assert_allclose(normalised(statistics, obs)[:, 0], [0, 0.5, 10], atol=1e-6)


def test_before_the_first_observation_nothing_is_changed() -> None:
    obs = jnp.asarray([[3.0, -4.0]])
    np.testing.assert_array_equal(normalised(init_statistics(2), obs), obs)


def test_scaling_by_powers_of_two_changes_no_bit() -> None:
    obs = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    scale = np.float32([2**12, 1, 2**-9])
    one, other = statistics_of(obs), statistics_of(obs * scale)
    np.testing.assert_array_equal(normalised(other, obs * scale), normalised(one, obs))


def test_numpy_policies_see_what_the_networks_saw() -> None:
    rng = np.random.default_rng(0)
    statistics = statistics_of(rng.normal(5, 100, (40, 6)), np.full((3, 6), 1e4))
    arrays = {name: np.asarray(array) for name, array in statistics_arrays(statistics).items()}
    obs = rng.normal(0, 1000, (50, 6)).astype(np.float32)
    np.testing.assert_allclose(as_seen(arrays, obs), normalised(statistics, obs), rtol=1e-6)
    assert as_seen(arrays, obs).dtype == np.float32
    assert as_seen({}, obs) is obs


def test_ring_keeps_raw_rows_and_hands_out_normalised_ones() -> None:
    """The statistics are those of now, also for rows that came before: of -1, 1 and then 3, 5."""
    rows = np.tile(np.float32([-1, 1, 3, 5])[:, None], (1, SPEC.row_size))
    ring = init_ring(8, SPEC, normalize_observations=True)
    ring = add_rows(add_rows(ring, rows[:2]), rows[2:])
    np.testing.assert_array_equal(ring.rows[:4], rows)
    sample = unit_sample(ring, jnp.arange(4), SPEC)
    expected = (np.float32([-1, 1, 3, 5]) - 2) / np.sqrt(5)
    for obs in (sample.batch.obs, sample.batch.next_obs):
        np.testing.assert_allclose(obs, np.tile(expected[:, None], (1, 8)), rtol=1e-6)
    np.testing.assert_array_equal(sample.batch.action, rows[:, COLUMNS.action])
    np.testing.assert_array_equal(sample.batch.reward, [-1, 1, 3, 5])
    pairs = pairs_at(ring, jnp.arange(4), SPEC)
    np.testing.assert_array_equal(pairs[:, :8], sample.batch.obs)
    np.testing.assert_array_equal(pairs[:, 8:], sample.batch.action)


def badly_scaled_rows() -> np.ndarray:
    rows = random_rows(0, 50)
    scale, shift = np.logspace(-3, 3, SPEC.obs_size), np.linspace(-5, 5, SPEC.obs_size)
    for column in (COLUMNS.obs, COLUMNS.next_obs):
        rows[:, column] = rows[:, column] * scale + shift
    return rows


@cache
def normalised_rows() -> np.ndarray:
    rows = badly_scaled_rows()
    statistics = statistics_of(rows[:, COLUMNS.obs])
    for column in (COLUMNS.obs, COLUMNS.next_obs):
        rows[:, column] = normalised(statistics, rows[:, column])
    return rows


STRATEGIES = [active(kind) for kind in REPLAYS.values()] + [
    active(LfiwConfig, over=UniformConfig())
]


@pytest.mark.parametrize("config", STRATEGIES, ids=lambda config: config.name)
def test_every_strategy_is_as_if_its_rows_were_normalised(config: Any) -> None:
    """Batches and weights: LFIW's ratio network sees the slow, the fast and the drawn alike."""
    key = jax.random.key(3)

    def samples(normalize: bool, rows: np.ndarray) -> Any:
        context = make_context(capacity=64, normalize_observations=normalize)
        replay = make_replay(config, context)

        def steps(rows: Any) -> Any:
            state = replay.add(replay.init(key), rows)
            state, first, _ = replay.sample(state, replay.draw(key), MIDWAY)
            return first, replay.sample(state, replay.draw(key), MIDWAY)[1]

        return quick_jit(steps)(rows)

    found, expected = samples(True, badly_scaled_rows()), samples(False, normalised_rows())
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    raw = samples(False, badly_scaled_rows())
    assert not np.allclose(raw[0].batch.obs, found[0].batch.obs, atol=0.1)


@pytest.mark.parametrize("config", STRATEGIES, ids=lambda config: config.name)
def test_state_of_a_strategy_keeps_its_form(config: Any) -> None:
    """Else every phase would compile its programs anew."""
    replay = make_replay(config, make_context(normalize_observations=True))
    state = jax.eval_shape(replay.init, jax.random.key(0))
    added = jax.eval_shape(replay.add, state, jnp.asarray(random_rows(0, 5)))

    def form(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)

    assert form(added) == form(state)
