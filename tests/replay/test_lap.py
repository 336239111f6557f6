import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import draw_sample, make_context, random_rows
from scipy.stats import chisquare

from lfiw.replay.base import Replay
from lfiw.replay.lap import LapConfig, make_lap
from lfiw.replay.pal import PalConfig, make_pal
from lfiw.replay.priorities import Prioritised
from lfiw.replay.ring import unit_sample
from lfiw.types import EnvSpec

SPEC = EnvSpec(obs_size=1, action_size=1)
DRAWS = 100_000


def filled(replay: Replay, count: int) -> Prioritised:
    return replay.add(replay.init(jax.random.key(0)), random_rows(0, count, SPEC))


def with_errors(replay: Replay, td_errors: list[list[float]]) -> Prioritised:
    """A state whose first slots were drawn with these errors."""
    state = filled(replay, len(td_errors[0]))
    sample = unit_sample(state.ring, jnp.arange(len(td_errors[0])), SPEC)
    return replay.feedback(state, sample, jnp.array(td_errors))


def test_priorities_by_hand() -> None:
    """The larger error counts, one below 1 as 1; with alpha 1/2 the root of it."""
    errors = [[0.5, -4.0, 0.0, 9.0], [-0.2, 1.0, 0.9, -16.0]]
    replay = make_lap(LapConfig(alpha=0.5), make_context(SPEC, batch_size=4))
    state = with_errors(replay, errors)
    np.testing.assert_allclose(state.tree[-1][:5], [1, 2, 1, 4, 0], rtol=1e-6)
    later = replay.add(state, random_rows(1, 2, SPEC))
    np.testing.assert_allclose(later.tree[-1][4:7], [4, 4, 0], rtol=1e-6)


def test_draws_follow_the_priorities() -> None:
    errors = [[0.5, -4.0, 0.0, 9.0, 30.0], [-0.2, 1.0, 0.9, -16.0, 20.0]]
    replay = make_lap(LapConfig(), make_context(SPEC, batch_size=DRAWS))
    _, sample, _ = draw_sample(replay, with_errors(replay, errors), jax.random.key(1))
    chances = np.array([1, 4, 1, 16, 30.0]) ** 0.4
    drawn = np.bincount(sample.slots, minlength=5)
    assert chisquare(drawn, DRAWS * chances / np.sum(chances)).pvalue > 1e-3
    np.testing.assert_array_equal(sample.weights, 1)


def test_alpha_zero_is_uniform() -> None:
    replay = make_lap(LapConfig(alpha=0.0), make_context(SPEC, batch_size=DRAWS))
    state = with_errors(replay, [[0.1, 50.0, 3.0], [0.0, -60.0, 1e8]])
    _, sample, _ = draw_sample(replay, state, jax.random.key(1))
    assert chisquare(np.bincount(sample.slots, minlength=3)).pvalue > 1e-3


def test_errors_that_are_not_finite_keep_the_sums_finite() -> None:
    replay = make_lap(LapConfig(alpha=1.0), make_context(SPEC, batch_size=4))
    state = with_errors(replay, [[np.nan, np.inf, -np.inf, 2.0], [0.0, 1.0, 0.0, 1.0]])
    np.testing.assert_allclose(state.tree[-1][:4], [1, 1e8, 1e8, 2])


def test_the_loss_is_hubers() -> None:
    """0.5 d^2 up to 1, then |d| - 0.5."""
    loss = make_lap(LapConfig(), make_context(SPEC)).td_loss
    errors = jnp.array([[0.5, -1.0, 3.0], [0.0, -0.2, -10.0]])
    np.testing.assert_allclose(loss(errors), [[0.125, 0.5, 2.5], [0.0, 0.02, 9.5]], rtol=1e-6)


def pal_gradient(errors: jnp.ndarray, alpha: float = 0.4) -> np.ndarray:
    loss = make_pal(PalConfig(alpha), make_context(SPEC)).td_loss
    return np.asarray(jax.grad(lambda errors: jnp.sum(loss(errors)))(errors))


def test_pals_gradient_by_hand() -> None:
    """d below 1 and sign(d) |d|^0.5 beyond, over the mean of the larger errors' roots: those are
    4, 9, 1 (0.5 counts as 1), so the mean is (2 + 3 + 1) / 3 = 2."""
    errors = jnp.array([[4.0, -1.0, 0.5], [0.2, 9.0, -0.25]])
    expected = np.array([[2.0, -1.0, 0.5], [0.2, 3.0, -0.25]]) / 2
    np.testing.assert_allclose(pal_gradient(errors, alpha=0.5), expected, rtol=1e-6)


def test_pal_with_alpha_zero_is_hubers_loss() -> None:
    errors = jnp.array([[4.0, -1.0, 0.5], [0.2, 9.0, -0.25]])
    np.testing.assert_allclose(pal_gradient(errors, alpha=0.0), jnp.clip(errors, -1, 1))


@pytest.mark.parametrize("alpha", [0.4, 1.0])
def test_pals_expected_gradient_is_laps(alpha: float) -> None:
    """By a parameter that each row's error follows at a rate of its own, here its size."""
    rng = np.random.default_rng(0)
    errors = np.repeat(3 * rng.standard_normal((1, 50)), 2, axis=0)
    rates = errors[0]
    lap = make_lap(LapConfig(alpha), make_context(SPEC, batch_size=DRAWS))
    _, sample, _ = draw_sample(lap, with_errors(lap, errors.tolist()), jax.random.key(1))
    of_errors = jax.grad(lambda errors: jnp.sum(lap.td_loss(errors)))(jnp.asarray(errors))
    drawn = (rates * np.asarray(of_errors[0]))[np.asarray(sample.slots)]
    expected = np.mean(rates * pal_gradient(jnp.asarray(errors), alpha)[0])
    assert abs(np.mean(drawn) - expected) < 4 * np.std(drawn) / np.sqrt(DRAWS)
    plain = np.mean(rates * np.asarray(of_errors[0]))  # of uniform draws, which is another
    assert abs(plain - expected) > 8 * np.std(drawn) / np.sqrt(DRAWS)
