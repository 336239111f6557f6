import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import draw_sample, make_context, random_rows
from scipy.stats import chisquare

from lfiw.replay.recency import RecencyConfig, RecencyNoise, make_recency, recent_ages
from lfiw.types import EnvSpec

SPEC = EnvSpec(obs_size=1, action_size=1)
DRAWS = 120_000
LARGEST = float(np.float32(1 - 2**-24))


def noise(part: list[float], block: float, within: list[float], flat: list[int]) -> RecencyNoise:
    blocks = jnp.full(len(part), block)
    return RecencyNoise(jnp.array(part), blocks, jnp.array(within), jnp.array(flat, jnp.uint32))


def test_ages_by_hand() -> None:
    """Rate 1/2, floor 1/8, 8 rows: chances 1, 1/2, 1/4, 1/8 and four more of 1/8. The first four
    make 15/8 of 19/8 = 0.789; among them 8/15 = 0.533, 12/15 = 0.8 and 14/15 = 0.933."""
    drawn = noise([0.0, 0.7, 0.78, 0.5, 0.8, 0.99], 0.0, [0.5, 0.6, 0.9, 0.95, 0, 0], [0] * 6)
    ages = recent_ages(drawn._replace(flat=drawn.flat.at[5].set(7)), jnp.int32(8), 0.5, 0.1249)
    np.testing.assert_array_equal(ages, [0, 1, 2, 3, 4, 7])


def counts(size: int, rate: float, floor: float) -> np.ndarray:
    replay = make_recency(RecencyConfig(rate, floor), make_context(SPEC, 4096, batch_size=DRAWS))
    state = replay.add(replay.init(jax.random.key(0)), random_rows(0, size, SPEC))
    _, sample, metrics = draw_sample(replay, state, jax.random.key(1))
    assert np.all(sample.weights == 1) and np.all(sample.policy_weights == 1)
    assert metrics == {}
    return np.bincount(size - 1 - np.asarray(sample.slots), minlength=size)


@pytest.mark.parametrize(
    ("size", "rate", "floor"),
    [
        (50, 0.1, 0.1),  # decays until age 21
        (50, 0.01, 0.1),  # never reaches its floor
        (50, 0.1, 0.2),
        (50, 0.05, 0.0),
        (3000, 5e-4, 0.3),  # three blocks, and ages at the floor
        (3000, 5e-4, 0.0),
    ],
)
def test_draws_follow_the_formula(size: int, rate: float, floor: float) -> None:
    chances = np.maximum(floor, (1 - rate) ** np.arange(size))
    expected = DRAWS * chances / chances.sum()
    assert chisquare(counts(size, rate, floor), expected).pvalue > 1e-3


@pytest.mark.parametrize(("rate", "floor"), [(0.0, 0.1), (0.0, 0.0), (0.0, 1.0), (0.01, 1.0)])
def test_rate_zero_and_floor_one_are_uniform(rate: float, floor: float) -> None:
    assert chisquare(counts(2000, rate, floor)).pvalue > 1e-3


@pytest.mark.parametrize("size", [1, 2, 1024, 1025, 1_000_000, 2**24 + 1, 2**31 - 1])
@pytest.mark.parametrize("rate", [0.0, 1e-9, 1e-5, 0.999])
@pytest.mark.parametrize("floor", [0.0, 0.1, 1.0])
def test_ages_stay_below_the_size(size: int, rate: float, floor: float) -> None:
    for uniform in (0.0, LARGEST):
        for part in (0.0, LARGEST):
            drawn = noise([part], uniform, [uniform], [2**32 - 1])
            (age,) = recent_ages(drawn, jnp.int32(size), rate, floor)
            assert 0 <= age < size


def test_every_age_of_a_large_ring_can_be_drawn() -> None:
    """Odd ages beyond 2^24, which no float32 holds."""
    flat = [2**25 + 1, 2**25 + 3]
    ages = recent_ages(noise([LARGEST] * 2, 0.0, [0.0] * 2, flat), jnp.int32(2**30), 0.5, 0.5)
    np.testing.assert_array_equal(ages, np.array(flat) + 2)
