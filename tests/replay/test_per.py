import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import draw_sample, make_context, random_rows
from scipy.stats import chisquare

from lfiw.replay.base import Replay
from lfiw.replay.per import PerConfig, Prioritised, importance_weights, make_per
from lfiw.replay.priorities import MAX_ERROR, larger_error
from lfiw.replay.sum_tree import total
from lfiw.types import Clock, EnvSpec, Sample

SPEC = EnvSpec(obs_size=1, action_size=1)
DRAWS = 120_000


def make(capacity: int = 8, batch_size: int = 4, **settings: Any) -> Replay:
    return make_per(PerConfig(**settings), make_context(SPEC, capacity, batch_size=batch_size))


def filled(replay: Replay, count: int) -> Prioritised:
    return replay.add(replay.init(jax.random.key(0)), random_rows(0, count, SPEC))


def give(replay: Replay, state: Prioritised, slots: list[int], td_errors: Any) -> Prioritised:
    """Feedback for the slots; the rest of the sample does not matter."""
    sample = Sample(None, jnp.array(slots), None, None)  # type: ignore[arg-type]
    return replay.feedback(state, sample, jnp.array(td_errors))


def leaves(state: Prioritised, count: int = 8) -> np.ndarray:
    return np.asarray(state.tree[-1])[:count]


def test_new_transitions_enter_at_the_largest_priority() -> None:
    replay = make(alpha=0.5, epsilon=1.0)
    state = filled(replay, 3)
    np.testing.assert_array_equal(leaves(state), [1, 1, 1, 0, 0, 0, 0, 0])
    # max(|-8|, |1|) + 1 = 9 and max(|0|, |1.25|) + 1 = 2.25, to the power 1/2
    state = give(replay, state, [0, 2], [[-8.0, 0.0], [1.0, 1.25]])
    np.testing.assert_allclose(leaves(state), [3, 1, 1.5, 0, 0, 0, 0, 0], rtol=1e-6)
    state = replay.add(state, random_rows(1, 1, SPEC))
    np.testing.assert_allclose(leaves(state), [3, 1, 1.5, 3, 0, 0, 0, 0], rtol=1e-6)
    # The largest so far, even where no slot has it any more.
    state = give(replay, state, [0, 3], [[0.0, 0.0], [0.0, 0.0]])
    state = replay.add(state, random_rows(1, 1, SPEC))
    np.testing.assert_allclose(leaves(state), [1, 1, 1.5, 1, 3, 0, 0, 0], rtol=1e-6)


def test_overwritten_transitions_lose_their_priority() -> None:
    replay = make(capacity=4, alpha=1.0, epsilon=1e-6)
    state = filled(replay, 4)
    state = give(replay, state, [0, 1, 2, 3], [[5.0, 7.0, 0.5, 0.25]] * 2)
    state = replay.add(state, random_rows(1, 2, SPEC))
    np.testing.assert_allclose(leaves(state, 4), [7, 7, 0.5, 0.25], rtol=1e-5)
    state = replay.add(state, random_rows(2, 3, SPEC))
    np.testing.assert_allclose(leaves(state, 4), [7, 7, 7, 7], rtol=1e-5)
    np.testing.assert_allclose(total(state.tree), 28.0, rtol=1e-5)
    assert state.ring.head == 1


def test_of_duplicates_the_largest_error_wins() -> None:
    replay = make(alpha=1.0)
    state = give(replay, filled(replay, 3), [1, 1, 0, 1], [[0.5, 4.0, 2.0, 3.0]] * 2)
    np.testing.assert_allclose(leaves(state, 3), [2, 4, 1], rtol=1e-5)


def test_an_error_of_zero_keeps_its_transition_drawable() -> None:
    replay = make(alpha=0.6, epsilon=1e-6)
    state = give(replay, filled(replay, 2), [0, 1], [[0.0, 1.0]] * 2)
    np.testing.assert_allclose(leaves(state, 2), [1e-6**0.6, 1.0], rtol=1e-4)


@pytest.mark.parametrize(
    ("error", "expected"), [(math.nan, 1e-3), (math.inf, 1e4), (-math.inf, 1e4), (1e30, 1e4)]
)
def test_broken_errors_leave_finite_priorities(error: float, expected: float) -> None:
    replay = make(alpha=0.5, epsilon=1e-6)
    state = give(replay, filled(replay, 3), [0, 2], [[error, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(leaves(state, 3), [expected, 1.0, 1.0], rtol=1e-3)
    assert np.isfinite(total(state.tree)) and np.isfinite(state.max_priority)
    _, sample, _ = draw_sample(replay, state, jax.random.key(0))
    assert np.all(np.isfinite(sample.weights)) and np.all(sample.slots < 3)


@pytest.mark.parametrize("batch", [32, 4096])
def test_errors_that_are_no_numbers_count_as_none_in_batches_of_any_size(batch: int) -> None:
    """Of both critics, of the first and of the second; an infinite one counts as the largest. In
    large arrays XLA's maximum drops what is not a number."""
    errors = np.full((2, batch), 3.0, np.float32)
    errors[:, 0] = errors[0, 1] = errors[1, 2] = np.nan
    errors[1, 3] = -np.inf
    for found in (larger_error(jnp.asarray(errors)), jax.vmap(larger_error)(errors[None])[0]):
        np.testing.assert_array_equal(found[:5], [0, 0, 0, MAX_ERROR, 3])


def test_nan_in_one_critic_does_not_raise_the_largest_priority() -> None:
    replay = make(alpha=1.0)
    state = give(replay, filled(replay, 3), [0], [[math.nan], [5.0]])
    assert state.max_priority == 1


@pytest.mark.parametrize("alpha", [0.6, 1.0])
def test_draws_follow_the_priorities(alpha: float) -> None:
    replay = make(capacity=200, batch_size=DRAWS, alpha=alpha)
    state = filled(replay, 150)
    errors = 10 ** np.random.default_rng(0).uniform(-2, 1, 150)
    state = give(replay, state, list(range(150)), [errors, -0.5 * errors])
    sample = jax.jit(lambda state: draw_sample(replay, state, jax.random.key(1)))(state)[1]
    counts = np.bincount(np.asarray(sample.slots), minlength=200)
    assert counts[150:].sum() == 0
    expected = errors**alpha / np.sum(errors**alpha)
    assert chisquare(counts[:150], DRAWS * expected).pvalue > 1e-3
    rows = np.asarray(state.ring.rows)[np.asarray(sample.slots)]
    np.testing.assert_array_equal(sample.batch.obs, rows[:, :1])
    np.testing.assert_array_equal(sample.batch.reward, rows[:, 2])


def test_alpha_zero_is_uniform() -> None:
    replay = make(capacity=64, batch_size=DRAWS, alpha=0.0)
    state = filled(replay, 50)
    state = give(replay, state, list(range(20)), [np.logspace(-8, 8, 20)] * 2)
    sample = jax.jit(lambda state: draw_sample(replay, state, jax.random.key(1)))(state)[1]
    counts = np.bincount(np.asarray(sample.slots), minlength=64)
    assert counts[50:].sum() == 0
    assert chisquare(counts[:50]).pvalue > 1e-3
    np.testing.assert_allclose(sample.weights, 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("beta", "expected"),
    # N P = (2, 1, 4)
    [
        (0.0, [1.0, 1.0, 1.0]),
        (0.5, [1 / math.sqrt(2), 1.0, 0.5]),
        (1.0, [0.5, 1.0, 0.25]),
    ],
)
def test_importance_weights_by_hand(beta: float, expected: list[float]) -> None:
    probabilities = jnp.array([0.02, 0.01, 0.04])
    weights = importance_weights(probabilities, jnp.int32(100), jnp.float32(beta))
    np.testing.assert_allclose(weights, expected, rtol=1e-5)


def test_importance_weights_span_all_magnitudes() -> None:
    weights = importance_weights(jnp.array([1e-16, 1.0]), jnp.int32(10**6), jnp.float32(1.0))
    np.testing.assert_allclose(weights, [1.0, 1e-16], rtol=1e-3)


@pytest.mark.parametrize(
    ("config", "env_steps", "beta"),
    [
        (PerConfig(), 0, 0.4),
        (PerConfig(), 500, 0.7),
        (PerConfig(), 1000, 1.0),
        (PerConfig.paper(), 0, 0.4),
        (PerConfig.paper(), 1000, 0.4),
    ],
)
def test_beta_follows_its_schedule(config: PerConfig, env_steps: int, beta: float) -> None:
    replay = make_per(config, make_context(SPEC, 8, batch_size=32))
    state = give(replay, filled(replay, 2), [0, 1], [[1.0, 32.0]] * 2)
    clock = Clock(jnp.int32(env_steps), jnp.int32(0), progress=env_steps / 1000)
    _, sample, metrics = draw_sample(replay, state, jax.random.key(0), clock)
    np.testing.assert_allclose(metrics["beta"], beta, rtol=1e-6)
    # Priorities are 1 and 32^0.6 = 8, so the weights of slots 0 and 1 are 1 and 8^-beta.
    expected = np.where(np.asarray(sample.slots) == 0, 1.0, 8.0**-beta)
    assert len(set(expected)) == 2
    np.testing.assert_allclose(sample.weights, expected, rtol=1e-4)
    np.testing.assert_allclose(metrics["is_weight_mean"], np.mean(expected), rtol=1e-4)
    assert np.all(sample.policy_weights == 1)
