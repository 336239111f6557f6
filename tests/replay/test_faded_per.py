import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import MIDWAY, draw_sample, make_context, random_rows
from scipy.stats import chisquare

from lfiw.replay.base import Replay
from lfiw.replay.faded_per import FadedPerConfig, make_faded_per
from lfiw.replay.lap import LapConfig, make_lap
from lfiw.replay.priorities import Prioritised
from lfiw.replay.ring import unit_sample
from lfiw.replay.sum_tree import set_priorities, tree_over
from lfiw.types import EnvSpec

SPEC = EnvSpec(obs_size=1, action_size=1)
DRAWS = 200_000


def filled(replay: Replay, count: int, errors: np.ndarray | None = None) -> Prioritised:
    state = replay.init(jax.random.key(0))
    for start in range(0, count, 10):
        state = replay.add(state, random_rows(0, count, SPEC)[start : start + 10])
    if errors is None:
        return state
    sample = unit_sample(state.ring, jnp.arange(len(errors)), SPEC)
    return replay.feedback(state, sample, jnp.stack([errors, 0 * errors]))


def test_draws_by_hand() -> None:
    """Three rows of priority 1; a floor of 1/4 reached at age 2: chances 1, 1/2, 1/4 of the newest
    (slot 2) to the oldest. The floor's share has 3/4 of 7/4 in equal parts; above it the newest
    has 3/4 and the next 1/4."""
    config = FadedPerConfig(alpha=0.4, floor=0.25, fade_steps=2)
    replay = make_faded_per(config, make_context(SPEC, 64, batch_size=6))
    part = jnp.array([0.0, 0.42, 0.42, 0.44, 0.99, 0.99])  # the floor's share ends at 0.4286
    place = jnp.array([0.1, 0.5, 0.9, 0.0, 0.74, 0.76])
    _, sample, _ = replay.sample(filled(replay, 3), jnp.stack([part, place]), MIDWAY)
    np.testing.assert_array_equal(sample.slots, [0, 1, 2, 2, 2, 1])


@pytest.mark.parametrize(
    ("count", "capacity", "floor", "fade_steps"),
    [
        (40, 64, 0.1, 20),
        (40, 64, 0.1, 23_025),  # longer than the ring
        (150, 64, 0.2, 30),  # wrapped
    ],
)
def test_draws_follow_the_formula(count: int, capacity: int, floor: float, fade_steps: int) -> None:
    replay = make_faded_per(
        FadedPerConfig(0.4, floor, fade_steps), make_context(SPEC, capacity, batch_size=DRAWS)
    )
    size = min(count, capacity)
    errors = 5 * np.random.default_rng(0).random(size)
    state = filled(replay, count, errors)
    _, sample, _ = draw_sample(replay, state, jax.random.key(1))
    ages = (count - 1 - np.arange(size)) % capacity
    chances = np.maximum(errors, 1) ** 0.4 * floor ** np.minimum(ages / fade_steps, 1)
    drawn = np.bincount(sample.slots, minlength=size)
    assert chisquare(drawn, DRAWS * chances / np.sum(chances)).pvalue > 1e-3
    np.testing.assert_array_equal(sample.weights, 1)


def test_a_floor_of_one_is_lap() -> None:
    context = make_context(SPEC, 64, batch_size=500)
    faded, lap = (
        make_faded_per(FadedPerConfig(floor=1.0), context),
        make_lap(LapConfig(), context),
    )
    errors = 5 * np.random.default_rng(0).random(40)
    noise = faded.draw(jax.random.key(1))
    _, sample, _ = faded.sample(filled(faded, 40, errors), noise, MIDWAY)
    _, expected, _ = lap.sample(filled(lap, 40, errors), noise[1:], MIDWAY)
    np.testing.assert_array_equal(sample.slots, expected.slots)
    assert faded.td_loss == lap.td_loss


def test_defaults_are_those_of_its_code() -> None:
    """0.9999^age, down to 0.1."""
    config = FadedPerConfig()
    assert abs(config.floor ** (1 / config.fade_steps) - 0.9999) < 1e-8


@pytest.mark.parametrize("count", [5, 128, 129, 20_000])
def test_a_tree_made_at_once_is_that_of_single_writes(count: int) -> None:
    leaves = jnp.asarray(np.random.default_rng(0).random(count), jnp.float32)
    at_once = tree_over(leaves)
    one_by_one = set_priorities(tree_over(jnp.zeros(count)), jnp.arange(count), leaves)
    assert [level.shape for level in at_once] == [level.shape for level in one_by_one]
    for level, expected in zip(at_once, one_by_one, strict=True):
        np.testing.assert_allclose(level, expected, rtol=1e-6)
