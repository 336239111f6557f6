import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import draw_sample, make_context, random_rows
from scipy.stats import chisquare

from lfiw.replay.inverse_age import (
    STRIPS,
    TABLE,
    InverseAgeConfig,
    InverseAgeNoise,
    inverse_ages,
    make_inverse_age,
)
from lfiw.types import EnvSpec

SPEC = EnvSpec(obs_size=1, action_size=1)
DRAWS = 200_000
LARGEST = float(np.float32(1 - 2**-24))


def test_ages_by_hand() -> None:
    """Three rows: chances 1, 1/2 and 1/3, of 11/6 in all, so up to 6/11 = 0.545, 9/11 = 0.818."""
    ages = jnp.array([0.0, 0.54, 0.55, 0.81, 0.82, LARGEST])
    noise = InverseAgeNoise(jnp.zeros(6), ages, jnp.zeros(6))
    np.testing.assert_array_equal(inverse_ages(noise, jnp.int32(3), 1.0), [0, 0, 1, 1, 2, 2])


def counts(size: int, capacity: int, offset: float) -> np.ndarray:
    context = make_context(SPEC, capacity, batch_size=DRAWS)
    replay = make_inverse_age(InverseAgeConfig(offset), context)
    state = replay.init(jax.random.key(0))
    for start in range(0, size, capacity // 2):
        rows = random_rows(0, size, SPEC)[start : start + capacity // 2]
        state = replay.add(state, rows)
    _, sample, metrics = draw_sample(replay, state, jax.random.key(1))
    assert np.all(sample.weights == 1) and metrics == {}
    ages = (size - 1 - np.asarray(sample.slots)) % capacity
    return np.bincount(ages, minlength=min(size, capacity))


@pytest.mark.parametrize(
    ("size", "capacity", "offset"),
    [
        (50, 4096, 1.0),  # within the table
        (128, 4096, 1.0),  # just the table
        (129, 4096, 1.0),
        (600, 4096, 1.0),
        (600, 4096, 100.5),
        (700, 500, 1.0),  # wrapped
    ],
)
def test_draws_follow_the_formula(size: int, capacity: int, offset: float) -> None:
    drawn = counts(size, capacity, offset)
    chances = 1 / (np.arange(len(drawn)) + offset)
    assert chisquare(drawn, DRAWS * chances / np.sum(chances)).pvalue > 1e-3


def test_the_closed_form_has_its_exact_share() -> None:
    """Of 600 rows the first 128 have 1 + 1/2 + ... + 1/128 of 1 + ... + 1/600."""
    sums = np.cumsum(1 / np.arange(1, 601))
    share = sums[TABLE - 1] / sums[-1]
    parts = jnp.array([share - 1e-5, share + 1e-5])
    noise = InverseAgeNoise(parts, jnp.zeros(2), jnp.zeros(2))
    np.testing.assert_array_equal(inverse_ages(noise, jnp.int32(600), 1.0), [0, TABLE])


def test_a_large_offset_is_uniform() -> None:
    drawn = counts(200, 4096, 1e9)
    assert chisquare(drawn).pvalue > 1e-3


def test_every_old_age_of_a_large_ring_can_be_drawn() -> None:
    """Neighbouring uniforms of a strip lead to ages less than one apart, at a million rows too."""
    size, count = 1_000_000, 1 << 16
    within = jnp.arange(count) / count
    last = jnp.full(count, (STRIPS - 1) / STRIPS)
    ages = np.asarray(
        inverse_ages(InverseAgeNoise(jnp.full(count, LARGEST), last, within), jnp.int32(size), 1.0)
    )
    assert ages[-1] == size - 1
    np.testing.assert_array_equal(np.unique(ages), np.arange(ages[0], size))


def test_ends_stay_in_the_ring() -> None:
    ones = jnp.full(4, LARGEST)
    for size in (1, 2, 128, 129, 1_000_000, 20_000_000):
        ages = inverse_ages(InverseAgeNoise(ones, ones, ones), jnp.int32(size), 1.0)
        assert np.all((np.asarray(ages) >= 0) & (np.asarray(ages) < size))
